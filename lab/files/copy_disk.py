"""Copy what the engine of a host keeps: copy_disk.py SOURCE TARGET, two folders of one file system.

An engine never writes to the layers of an image, so these are linked and not copied: gigabytes take a second, and no space. All else is
copied, the writable layers of containers included.
"""

import pathlib
import subprocess
import sys

source, target = map(pathlib.Path, sys.argv[1:])
layers = {path.read_text().strip() for path in source.glob("image/overlay2/layerdb/sha256/*/cache-id")}


def copy(entries: list[pathlib.Path], into: pathlib.Path, *more: str) -> None:
    into.mkdir(parents=True, exist_ok=True)
    if entries:
        subprocess.run(
            ["cp", "--archive", *more, "--target-directory", str(into), "--", *map(str, entries)], check=True
        )


if source.exists():
    copy([path for path in source.iterdir() if path.name != "overlay2"], target)
    if (source / "overlay2").exists():
        entries = list((source / "overlay2").iterdir())
        copy([path for path in entries if path.name in layers], target / "overlay2", "--link")
        copy([path for path in entries if path.name not in layers], target / "overlay2")
        for name in (".", "overlay2"):
            (target / name).chmod((source / name).stat().st_mode & 0o7777)
