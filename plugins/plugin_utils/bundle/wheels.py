# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheels of the Python environments that hosts make: which environments there have to be, and of what uv resolved, which wheels.

The text that uv prints (a pylock.toml) names every wheel that would do, with its address and SHA-256. For each package the best one is taken.
"""

from __future__ import annotations

import posixpath
import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._environment import LOCK
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.items import File, Item
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.packages import (
    SYSTEMS,
    PackageError,
    check_requirements,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import is_made
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import DEFAULT, engine, setting
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, text, texts, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused, message, reason
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.release import RELEASE

FOLDER = "python/venvs"
# Pure Python without a wheel that releases of engines need: the wheel is built where the bundle is made. aioprometheus, which one had until 0.3.3,
# needs quantile-python: https://pypi.org/project/quantile-python/#files
BUILT = ("quantile-python",)
_PYTHON, _GLIBC = re.compile(r"3\.\d+"), re.compile(r"2\.\d+")
# What uv says of a package of which it found no wheel.
_NO_WHEELS = re.compile(r"required\s+for\s+`([^`]+)`|(\S+)\s+has\s+no\s+(?:usable\s+)?wheels")


class Wheel(TypedDict):
    """The wheel of a package: its file's name, where it is, and its size in bytes where the index says it."""

    name: str
    version: str
    file: str
    url: str
    size: int | None
    sha256: str


class WheelError(Refused):
    """An environment that cannot be resolved; the text says which, and why."""


def items(
    heads: Iterable[Mapping[str, object]],
    entries: Sequence[Mapping[str, object]],
    systems: Sequence[str],
    problems: list[str],
    lang: str,
) -> list[Item]:
    """An item for each environment: those that are named, and of releases that none is named for, one for each system."""
    wanted = list(entries)
    named = {str(entry[RELEASE]) for entry in entries}
    for head in heads:
        version = str(setting(head, "version") or "")
        if not is_made(head) or version in named:
            continue
        named.add(version)
        known = [SYSTEMS[name] for name in systems if name in SYSTEMS]
        wanted += [{RELEASE: version, "python": each.python, "glibc": each.glibc} for each in known]
        if not known:
            problems.append(message("wanted_no_environment", lang, version=version))
    found: dict[str, Item] = {}
    for entry in wanted:
        item = _item(entry)
        python, glibc = (str(item["fields"][key]) for key in ("environment_python", "glibc"))
        try:
            check_requirements(item["packages"], "bundle_venvs")
        except PackageError as error:
            problems.append(reason(error, lang))
        if not _PYTHON.fullmatch(python) or not _GLIBC.fullmatch(glibc):
            values = {"version": item["fields"][RELEASE], "python": python, "glibc": glibc}
            problems.append(message("wanted_environment_numbers", lang, **values))
        elif found.setdefault(item["path"], item) != item:
            problems.append(message("wanted_environment_twice", lang, value=item["fields"]["environment"]))
    return list(found.values())


def _item(entry: Mapping[str, object]) -> Item:
    version, python, glibc = (str(entry[key]) for key in (RELEASE, "python", "glibc"))
    name = f"{DEFAULT}-{version}-python{python}-glibc{glibc}"
    return {
        "kind": "python",
        "path": f"{FOLDER}/{name}",
        "source": f"venv:{version}",
        "packages": [f"{engine(DEFAULT).module}=={version}", *texts(entry.get("requirements"))],
        "index_urls": texts(entry.get("index_urls")),
        "released_before": text(entry.get("released_before")),
        "fields": {"environment": name, RELEASE: version, "environment_python": python, "glibc": glibc},
    }


def compile_command(uv: str, item: Item, built: str = "") -> list[str]:
    """The command that resolves packages for an environment, from wheels alone. The requirements come on standard input.

    ``built`` is a folder with wheels that were built on this machine; without it their sources are resolved.
    """
    python, glibc = (str(item["fields"][key]) for key in ("environment_python", "glibc"))
    command = [
        *(uv, "pip", "compile", "--quiet", "--no-config", "--no-header", "--no-annotate", "--no-python-downloads"),
        *("--format", "pylock.toml", "--only-binary", ":all:"),
        *("--python-version", python),
        *("--python-platform", f"x86_64-manylinux_{glibc.replace('.', '_')}"),
    ]
    for number, url in enumerate(item["index_urls"]):
        command += ["--index" if number else "--default-index", url]
    command += [f"--exclude-newer={item['released_before']}"] if item["released_before"] else []
    command += ["--find-links", built] if built else [f"--no-binary={name}" for name in BUILT]
    return [*command, "-"]


def sources(pylock: Mapping[str, object]) -> list[str]:
    """What has no wheel and is to be built, as ``name==version``."""
    return [
        f"{package['name']}=={package['version']}"
        for package in mappings(pylock.get("packages"))
        if package.get("sdist") and not package.get("wheels")
    ]


def chosen(pylock: Mapping[str, object], item: Item) -> list[Wheel]:
    """For each package the best of its wheels: ``{name, version, file, url, size, sha256}``."""
    from packaging.tags import Tag, compatible_tags, cpython_tags
    from packaging.utils import parse_wheel_filename

    python, glibc = (str(item["fields"][key]) for key in ("environment_python", "glibc"))
    major, minor = (int(number) for number in python.split("."))
    platforms = _platforms(int(glibc.split(".")[1]))
    order: dict[Tag, int] = {}
    for tag in (
        *cpython_tags((major, minor), platforms=platforms),
        *compatible_tags((major, minor), platforms=platforms),
    ):
        order.setdefault(tag, len(order))
    found: list[Wheel] = []
    lacking = []
    for package in mappings(pylock.get("packages")):
        best: tuple[int, Wheel] | None = None
        for wheel in mappings(package.get("wheels")):
            url = str(wheel["url"])
            file = urllib.parse.unquote(posixpath.basename(urllib.parse.urlsplit(url).path))
            rank = min((order[tag] for tag in parse_wheel_filename(file)[3] if tag in order), default=None)
            if rank is not None and (best is None or rank < best[0]):
                size, digest = wheel.get("size"), text(mapping(wheel.get("hashes")).get("sha256"))
                best = (
                    rank,
                    Wheel(
                        name=str(package["name"]),
                        version=str(package["version"]),
                        file=file,
                        url=url,
                        size=None if size is None else whole(size),
                        sha256=digest,
                    ),
                )
        if best is None or not best[1]["sha256"]:
            lacking.append(str(package["name"]))
        else:
            found.append(best[1])
    if lacking:
        raise WheelError(
            "source_no_wheel", source=item["source"], names=", ".join(sorted(lacking)), said="", **_about(item)
        )
    return found


def _platforms(glibc: int) -> list[str]:
    """What the wheels' names say of systems with this glibc, the newest first (PEP 600); the old names stand for the releases beside them."""
    old = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
    names = []
    for minor in range(glibc, 4, -1):
        names.append(f"manylinux_2_{minor}_x86_64")
        names += [f"{old[minor]}_x86_64"] if minor in old else []
    return [*names, "linux_x86_64"]


def lock_text(wheels: Iterable[Wheel]) -> str:
    """The lock as uv and pip read it: each package with the SHA-256 of the one wheel that may be taken."""
    return "".join(f"{each['name']}=={each['version']} --hash=sha256:{each['sha256']}\n" for each in wheels)


def files_of(item: Item, wheels: Sequence[Wheel], uv: Wheel) -> list[File]:
    """What the bundle holds of an environment: its wheels, uv's, and the lock."""
    return [
        {"path": f"{item['path']}/{LOCK}", "content": lock_text(wheels)},
        *(
            File(path=f"{item['path']}/{each['file']}", urls=[each["url"]], size=each["size"], sha256=each["sha256"])
            for each in (*wheels, uv)
        ),
    ]


def refusal(item: Item, said: str) -> WheelError:
    """What uv said, by what the reader can do: nothing about a package of which there is no wheel."""
    names = dict.fromkeys(name for pair in _NO_WHEELS.findall(said) for name in pair if name)
    named = sorted({re.split(r"[=<>!~\[{]", name)[0] for name in names})
    # The last lines draw the conclusion from all above.
    text = said.strip()[-1500:]
    code = "source_no_wheel" if named else "source_not_resolved"
    return WheelError(code, source=item["source"], names=", ".join(named), said=text, **_about(item))


def _about(item: Item) -> dict[str, str]:
    fields = item["fields"]
    return {
        "python": str(fields["environment_python"]),
        "glibc": str(fields["glibc"]),
        "packages": ", ".join(item["packages"]),
    }
