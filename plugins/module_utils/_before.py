# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A picture of the host before the first change, so that it can be known later what was there already: packages, units, files,
groups, modules of the kernel, and images and networks of the engine.

It is taken once, with the first lock of the host. A host that has records already was changed before, and gets none.
"""

from __future__ import annotations

import glob
import grp
import json
import os
from typing import Callable, Dict, Iterator, List, Mapping, Union

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json
from ansible_collections.baremetal.llm.plugins.module_utils._driver_host import list_packages
from ansible_collections.baremetal.llm.plugins.module_utils._engine import ask_engine_list
from ansible_collections.baremetal.llm.plugins.module_utils._private_file import write_private
from ansible_collections.baremetal.llm.plugins.module_utils._proc import read
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs

FORMAT = 1
NAME = "before.json"
# What is listed, with everything below: where programs of others keep settings, and where nobody but people puts files.
FOLDERS = ("/etc", "/usr/local")
KINDS = ("packages", "units", "files", "groups", "modules", "images", "networks")
# What there is of each kind: names, or what is said of each.
Picture = Dict[str, Union[Dict[str, str], List[str]]]


def packages_of(text: str) -> dict[str, str]:
    """Versions by name, of what list_packages says."""
    cells = [line.split("\t") for line in text.splitlines()]
    return {each[1].strip(): each[2].strip() for each in cells if len(each) == 3 and each[0][1:2] == "i"}


def files_below(folders: tuple[str, ...]) -> Iterator[str]:
    """All files and links."""
    for top in folders:
        for folder, below, files in os.walk(top):
            links = [name for name in below if os.path.islink(os.path.join(folder, name))]
            yield from (os.path.join(folder, name) for name in (*files, *links))


def units_of(text: str) -> dict[str, str]:
    """Whether each unit is enabled, of what ``systemctl list-unit-files`` says."""
    cells = [line.split() for line in text.splitlines()]
    return {each[0]: each[1] for each in cells if len(each) > 1}


def picture_of(programs: Programs, folders: tuple[str, ...] = FOLDERS) -> Picture:
    """The host as it is now, by kind: versions of packages, states of units, paths of files, and names of all else."""
    images = ask_engine_list("/images/json") or []
    networks = ask_engine_list("/networks") or []
    return {
        "packages": packages_of(list_packages(programs)),
        "units": units_of(programs.answer("systemctl", "list-unit-files", "--no-legend", "--no-pager")),
        "files": sorted(files_below(folders)),
        "groups": sorted(entry.gr_name for entry in grp.getgrall()),
        "modules": sorted(line.split(" ", 1)[0] for line in read("/proc/modules").splitlines()),
        "images": sorted(
            str(name) for image in images for kind in ("RepoTags", "RepoDigests") for name in image.get(kind) or ()
        ),
        "networks": sorted(str(network.get("Name")) for network in networks),
    }


def is_unchanged(host_dir: str) -> bool:
    """Whether no role has left a record here."""
    below = glob.escape(host_dir)
    patterns = ("records/*.json", "deployments/*/records/*.json")
    return not any(glob.glob(os.path.join(below, pattern)) for pattern in patterns)


def take_picture(host_dir: str, picture: Callable[[], Mapping[str, object]]) -> bool:
    """Keep the picture, if there is none and the host is as it was. Returns whether it was taken now."""
    path = os.path.join(host_dir, NAME)
    if os.path.exists(path) or not is_unchanged(host_dir):
        return False
    write_private(path, json.dumps({"format": FORMAT, **picture()}, sort_keys=True) + "\n")
    return True


def read_picture(host_dir: str) -> Picture | None:
    """The picture that was taken; None where there is none that can be read."""
    try:
        found = read_json(read(host_dir, NAME) or "null")
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None


def compared(before: Picture, now: Picture) -> dict[str, dict[str, list[str]]]:
    """By kind what came (``more``), what went (``less``), and what is there in another version or state (``other``); only kinds that differ."""
    found = {}
    for kind in KINDS:
        was, is_now = before.get(kind) or {}, now.get(kind) or {}
        parts = {"more": sorted(set(is_now) - set(was)), "less": sorted(set(was) - set(is_now)), "other": []}
        if isinstance(was, dict) and isinstance(is_now, dict):
            parts["other"] = sorted(name for name in set(was) & set(is_now) if was[name] != is_now[name])
        if any(parts.values()):
            found[kind] = parts
    return found
