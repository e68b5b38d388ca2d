# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options on Docker Engine's command line, named as daemon.json names them. An option that stands in both keeps the engine from starting."""

from __future__ import annotations

import re
import shlex
from typing import Callable, Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils._content import mapping
from ansible_collections.baremetal.llm.plugins.module_utils._proc import read
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs

UNIT = "docker.service"
_PROPERTIES = ("ExecStart", "Environment", "EnvironmentFiles", "FragmentPath", "DropInPaths")

# Flags that daemon.json calls otherwise: what may stand several times is in the plural there. Source: cmd/dockerd/config.go and
# daemon/config/config.go of moby 28 (flags.Var with NewNamedListOptsRef("names", ...)).
_SHORT = {"D": "debug", "H": "host", "G": "group", "b": "bridge", "g": "data-root", "l": "log-level", "p": "pidfile"}
_SHORT["s"] = "storage-driver"
_DIRECTIVES = {
    "add-runtime": "runtimes",
    "allow-nondistributable-artifacts": "allow-nondistributable-artifacts",
    "authorization-plugin": "authorization-plugins",
    "cdi-spec-dir": "cdi-spec-dirs",
    "default-address-pool": "default-address-pools",
    "default-ulimit": "default-ulimits",
    "dns-opt": "dns-opts",
    "exec-opt": "exec-opts",
    "feature": "features",
    "graph": "data-root",
    "host": "hosts",
    "insecure-registry": "insecure-registries",
    "label": "labels",
    "log-opt": "log-opts",
    "node-generic-resource": "node-generic-resources",
    "registry-mirror": "registry-mirrors",
    "storage-opt": "storage-opts",
}
# They say where the engine is, and daemon.json has no such directive.
_NOT_IN_FILE = ("config-file", "containerd", "validate", "version", "help")
# Flags whose value may be left out.
_SWITCHES = re.compile(
    r"debug|live-restore|selinux-enabled|no-new-privileges|icc|ip-forward|ip-masq|iptables|ip6tables|ipv6|tls|tlsverify|userland-proxy|init"
    r"|experimental|raw-logs|rootless|validate|version|help|no-proxy|bridge-accept-fwmark|allow-direct-routing"
)


# A value in quotes may go on for several lines.
_ASSIGNED = re.compile(r"""^\s*(\w+)=('[^']*'|"(?:[^"\\]|\\.)*"|[^\n]*)""", re.M)


def parse_show(text: str) -> dict[str, list[str]]:
    """The properties that ``systemctl show`` prints; one may have several lines."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and value.strip():
            found.setdefault(name, []).append(value)
    return found


def split(text: str) -> list[str]:
    """The words of a command line; where its quotes do not match, what blanks separate."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def expanded(words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Words as systemd expands them: $NAME alone may become several or none, ${NAME} is a part of its word (systemd.service(5))."""
    found: list[str] = []
    for word in words:
        alone = re.fullmatch(r"\$(\w+)", word)
        if alone:
            found += split(environment.get(alone.group(1), ""))
        else:
            found.append(re.sub(r"\$\{(\w+)\}", lambda match: environment.get(match.group(1), ""), word))
    return found


def parse_flags(words: Sequence[str]) -> dict[str, list[str]]:
    """By directive the words that say it, for the arguments of dockerd."""
    found: dict[str, list[str]] = {}
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        match = re.match(r"--?([\w-]+)(=.*)?$", word, re.S)
        if not match:
            continue
        name, said = match.group(1), word
        if not word.startswith("--"):
            said, name = word, _SHORT.get(word[1:2], word[1:2])
            has_value = len(word) > 2
        else:
            has_value = match.group(2) is not None
        if not has_value and not _SWITCHES.fullmatch(name) and at < len(words):
            said, at = said + " " + words[at], at + 1
        if name not in _NOT_IN_FILE:
            found.setdefault(_DIRECTIVES.get(name, name), []).append(said)
    return found


def engine_flags(show: str, text_of: Callable[[str], str] = read) -> dict[str, dict[str, str]]:
    """By directive what is ``said`` about it on the command line of the unit, and the ``path`` of the file that says so.

    ``show`` is what ``systemctl show docker.service`` prints of the properties that are asked for here.
    """
    properties = parse_show(show)
    files = [line.split(" (")[0] for line in properties.get("EnvironmentFiles", [])]
    environment: dict[str, str] = {}
    for line in properties.get("Environment", []):
        environment.update(word.partition("=")[::2] for word in split(line) if "=" in word)
    for path in files:
        for name, value in _ASSIGNED.findall(text_of(path).replace("\\\n", "")):
            environment[name] = " ".join(split(value))
    drop_ins = [path for line in properties.get("DropInPaths", []) for path in line.split()]
    places = [*reversed(drop_ins), *files, *properties.get("FragmentPath", [])]
    texts = {path: text_of(path) for path in places}
    found: dict[str, dict[str, str]] = {}
    for line in properties.get("ExecStart", []):
        command = re.search(r"argv\[\]=(.*?) ; ", line)
        words = expanded(split(command.group(1) if command else line), environment)
        for directive, said in parse_flags(words[1:]).items():
            flag = said[0].split("=")[0].split()[0]
            path = next((path for path in places if flag in texts[path]), (places or [UNIT])[-1])
            found[directive] = {"said": " ".join(said), "path": path}
    return found


def read_flags(programs: Programs) -> dict[str, dict[str, str]]:
    """Those of this host's engine; none where systemd knows no engine."""
    return engine_flags(programs.answer("systemctl", "show", UNIT, "--property=" + ",".join(_PROPERTIES)))


def arguments(flags: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The flags as a command line."""
    return [word for each in flags.values() for word in split(each["said"])]


# Up to this release a directive was refused in both places also where it names several things, as runtimes does: NVIDIA/nvidia-docker#859 (1.13).
# Later ones put runtimes together, if no name is in both (moby, daemon/config/config.go, skipDuplicates).
RUNTIMES_MERGED_SINCE = (20, 10)


def release(version: str) -> tuple[int, ...]:
    """20.10.24 as numbers that can be compared; nothing where no version is said."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match.group(1)), int(match.group(2))) if match else ()


def colliding(flags: Mapping[str, Mapping[str, str]], config: Mapping[str, object], version: str = "") -> list[str]:
    """The directives with which the engine does not start, because its command line and daemon.json both have them."""
    found = []
    for directive, flag in flags.items():
        if directive not in config:
            continue
        if directive == "runtimes":
            same = any("{0}=".format(name) in flag["said"] for name in mapping(config.get("runtimes")))
            old = bool(version) and release(version) < RUNTIMES_MERGED_SINCE
            if not same and not old:
                continue
        found.append(directive)
    return found
