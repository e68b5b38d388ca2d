"""Leaves on a host what a cleanup has to tell apart: an image, a model and a transfer that nothing needs any more, and things of somebody else.

Prints them by their kinds: ``image`` (its id), ``model``, ``transfer``, ``strange_image``, ``strange_container``, ``strange_model``.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
import time

MODELS = "/opt/llm/models"
STATE = MODELS + "/.bundle-state.json"


def image(name: str, content: bytes) -> str:
    """An image of one file, and its id."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("file")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    made = subprocess.run(["docker", "import", "-", name], input=archive.getvalue(), stdout=subprocess.PIPE, check=True)
    return made.stdout.decode().strip()


def model(name: str) -> str:
    folder = os.path.join(MODELS, name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "model.safetensors"), "wb") as stream:
        stream.write(os.urandom(1 << 20))
    return folder


def main() -> None:
    left = {"image": image("llm-kept:new", os.urandom(1 << 20)), "model": model("org--gone")}
    # As the role vllm names an image that served once.
    subprocess.run(["docker", "tag", left["image"], "llm-kept:" + left["image"][7:19]], check=True)
    subprocess.run(["docker", "rmi", "llm-kept:new"], check=True, stdout=subprocess.DEVNULL)
    with open(STATE, encoding="utf-8") as stream:
        state = json.load(stream)
    # As a run notes the files that it brings.
    state["org--gone/model.safetensors"] = {"sha256": "0" * 64, "stamp": None}
    with open(STATE, "w", encoding="utf-8") as stream:
        json.dump(state, stream)
    left["transfer"] = os.path.join(MODELS, ".incoming", "0" * 64 + ".part")
    os.makedirs(os.path.dirname(left["transfer"]), mode=0o700, exist_ok=True)
    with open(left["transfer"], "wb") as stream:
        stream.write(os.urandom(1 << 20))
    an_hour_ago = time.time() - 3600
    os.utime(left["transfer"], (an_hour_ago, an_hour_ago))
    left["strange_image"] = image("of-somebody/shop:1", os.urandom(1 << 20))
    subprocess.run(
        ["docker", "create", "--name", "shop", image("of-somebody/page:1", b"x"), "/file"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    left["strange_container"] = "shop"
    left["strange_model"] = model("of-somebody")
    print(json.dumps(left))


main()
