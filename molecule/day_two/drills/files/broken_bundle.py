"""A bundle that knows one more image: broken_bundle.py BUNDLE NEW REFERENCE ID. Its files are those of BUNDLE, and its manifest says of the image what it says
of the first one, but for reference and id."""

import pathlib
import shutil
import subprocess
import sys

import yaml

bundle, new, reference, image_id = sys.argv[1:]
shutil.rmtree(new, ignore_errors=True)
subprocess.run(["cp", "--archive", "--link", bundle, new], check=True)
path = pathlib.Path(new, "manifest.yml")
manifest = yaml.safe_load(path.read_text(encoding="utf-8"))
record = next(one for one in manifest["files"] if one["kind"] == "image")
record["images"].append({**record["images"][0], "reference": reference, "id": image_id})
path.unlink()  # it has two names
path.write_text(yaml.safe_dump(manifest, sort_keys=False), encoding="utf-8")
