# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""lab.yml as typed values, and where the lab keeps its files."""

from __future__ import annotations

import hashlib
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

LAB = Path(__file__).resolve().parent
CHECKOUT = LAB.parent
# Two labs can stand side by side. Each has its own hosts, networks, addresses and folder; inventories/lab reads the number too.
SUFFIX = os.environ.get("LLM_LAB") or ""  # none for the first lab, 2 for the second
NUMBER = int(SUFFIX or 1)
STATE = CHECKOUT / f".lab{SUFFIX}"
# The addresses of lab 2 are those of lab 1 plus this: each lab has two networks of 256 addresses.
NEXT_LAB = 512
# What the labs share is named by a hash of what it was made from.
IMAGE_REPOSITORY = "llm-lab"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "baremetal-llm-lab"


@dataclass(frozen=True)
class Node:
    """One host of the lab."""

    name: str
    mgmt: str
    data: str
    gpu: str
    gpus: int
    # What the host calls its interface in the network `data`; empty: as the engine does.
    data_interface: str = ""


@dataclass(frozen=True)
class Config:
    """The whole of lab.yml."""

    name: str
    base_image: str
    debian_release: str
    networks: dict[str, str]
    nodes: dict[str, Node]
    shm_size: str
    vllm_version: str
    web_ui_version: str
    llama_cpp_version: str
    driver_version: str
    toolkit_version: str
    os_packages: list[str]

    @property
    def vllm_image(self) -> str:
        """Reference of the lab's vLLM image, as the inventory names it."""
        return f"{IMAGE_REPOSITORY}/vllm-openai:v{self.vllm_version}-cpu"

    @property
    def llama_cpp_image(self) -> str:
        """Reference of the lab's image of llama.cpp."""
        return f"{IMAGE_REPOSITORY}/llama-cpp:{self.llama_cpp_version}-cpu"

    @property
    def web_ui_image(self) -> str:
        """Reference of the lab's image of Open WebUI."""
        return f"{IMAGE_REPOSITORY}/open-webui:v{self.web_ui_version}-slim"


def load() -> Config:
    """Read lab.yml, whose names and addresses are those of the first lab."""
    raw: dict[str, Any] = yaml.safe_load((LAB / "lab.yml").read_text())
    shift = NEXT_LAB * (NUMBER - 1)

    def address(text: str) -> str:
        return str(ipaddress.ip_address(text) + shift)

    raw["name"] += SUFFIX
    raw["networks"] = {
        name: "/".join([address(subnet.partition("/")[0]), subnet.partition("/")[2]])
        for name, subnet in raw["networks"].items()
    }
    for values in raw["nodes"].values():
        values |= {name: address(values[name]) for name in ("mgmt", "data")}
    raw["nodes"] = {name: Node(name=name, **values) for name, values in raw["nodes"].items()}
    return Config(**raw)


def digest(*inputs: object) -> str:
    """Short hash of files, folders and plain values: the name of whatever is made from them."""
    result = hashlib.sha256()
    for item in inputs:
        if isinstance(item, Path):
            files = sorted(path for path in item.rglob("*") if path.is_file()) if item.is_dir() else [item]
            for path in files:
                if "__pycache__" not in path.parts:
                    result.update(str(path.relative_to(item.parent)).encode() + b"\0" + path.read_bytes() + b"\0")
        else:
            result.update(repr(item).encode() + b"\0")
    return result.hexdigest()[:12]
