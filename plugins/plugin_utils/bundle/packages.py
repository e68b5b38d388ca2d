# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages with all that they depend on: what apt, dnf and pip are asked, and what apt's answers mean.

apt works in a root of its own: it reads and changes nothing of the machine that it runs on, so any user may run it, for any
release of Debian and Ubuntu. Its own check of the distribution's signature stays in force.
"""

from __future__ import annotations

import re
import shlex
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypedDict

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused


class System(NamedTuple):
    """A release of a distribution: how it is called there, its Python (of the platform; what Ansible uses on the host), and its glibc."""

    manager: str
    codename: str
    python: str
    glibc: str
    sources: tuple[tuple[str, str, str], ...]  # address, suites, components
    image: str = ""  # a container that has dnf


_DEBIAN, _SECURITY = "http://deb.debian.org/debian", "http://deb.debian.org/debian-security"
_UBUNTU = "http://archive.ubuntu.com/ubuntu"


def _debian(codename: str, python: str, glibc: str) -> System:
    sources = (
        (_DEBIAN, f"{codename} {codename}-updates", "main"),
        (_SECURITY, f"{codename}-security", "main"),
    )
    return System("apt", codename, python, glibc, sources)


def _ubuntu(codename: str, python: str, glibc: str) -> System:
    suites = f"{codename} {codename}-updates {codename}-security"
    return System("apt", codename, python, glibc, ((_UBUNTU, suites, "main restricted universe"),))


# Releases: https://www.debian.org/releases/, https://wiki.ubuntu.com/Releases, https://hub.docker.com/_/almalinux
SYSTEMS: dict[str, System] = {
    "debian-11": _debian("bullseye", "3.9", "2.31"),
    "debian-12": _debian("bookworm", "3.11", "2.36"),
    "debian-13": _debian("trixie", "3.13", "2.41"),
    "ubuntu-20.04": _ubuntu("focal", "3.8", "2.31"),
    "ubuntu-22.04": _ubuntu("jammy", "3.10", "2.35"),
    "ubuntu-24.04": _ubuntu("noble", "3.12", "2.39"),
    "rocky-9": System("dnf", "9", "3.9", "2.34", (), "docker.io/rockylinux/rockylinux:9"),
    "rocky-8": System("dnf", "8", "3.9", "2.28", (), "docker.io/rockylinux/rockylinux:8"),
    "almalinux-9": System("dnf", "9", "3.9", "2.34", (), "docker.io/library/almalinux:9"),
    "almalinux-8": System("dnf", "8", "3.9", "2.28", (), "docker.io/library/almalinux:8"),
}
KEYRINGS = {
    "debian": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "ubuntu": "/usr/share/keyrings/ubuntu-archive-keyring.gpg",
}
# A star stands for the rest of a version.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._:~=*-]*")
# Of the machine's own settings for apt, those that say how the network is reached.
_KEPT_SETTINGS = re.compile(r'^Acquire::(http|https|Check|Retries)[\w:.*/-]* ".*";$')


class PackageError(Refused):
    """A wish that cannot be fulfilled; the text says which, and what is allowed."""


def system_of(name: str) -> System:
    """The facts about debian-12 and the like."""
    if name not in SYSTEMS:
        raise PackageError("wanted_unknown_system", value=name, allowed=", ".join(SYSTEMS))
    return SYSTEMS[name]


def check_names(names: Sequence[str]) -> list[str]:
    """The names, if they are names: nothing that a program would take for an option."""
    wrong = [name for name in names if not _NAME.fullmatch(str(name))]
    if wrong:
        raise PackageError("package_no_name", names=", ".join(map(repr, wrong)))
    return [str(name) for name in names]


def apt_configuration(root: str, arch: str, dump: str = "", proxy: str = "") -> str:
    """apt.conf of a root of its own. `dump` is what apt-config says: how the network is reached is kept of it."""
    settings = {
        "Dir::Etc::main": "/dev/null",
        "Dir::Etc::parts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::Etc::trusted": "/dev/null",
        "Dir::Etc::trustedparts": "/dev/null",
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": f"{root}/sources.d",
        "Dir::State": f"{root}/state",
        "Dir::State::status": f"{root}/status",
        "Dir::Cache": f"{root}/cache",
        "Dir::Log": root,
        "APT::Architecture": arch,
        "APT::Architectures": arch,
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
    }
    if proxy:
        settings.update({"Acquire::http::Proxy": proxy, "Acquire::https::Proxy": proxy})
    kept = [line for line in dump.splitlines() if _KEPT_SETTINGS.fullmatch(line.strip())]
    return "".join(f"{line.strip()}\n" for line in kept) + "".join(
        f'{name} "{value}";\n' for name, value in settings.items()
    )


def apt_sources(name: str, mirrors: Mapping[str, str], keyring: str) -> str:
    """bundle.sources of a release. `mirrors` replaces beginnings of addresses."""
    stanzas = []
    for address, suites, components in system_of(name).sources:
        for start, instead in mirrors.items():
            if address == start.rstrip("/") or address.startswith(start.rstrip("/") + "/"):
                address = instead.rstrip("/") + address[len(start.rstrip("/")) :]
                break
        stanzas.append(
            f"Types: deb\nURIs: {address}\nSuites: {suites}\nComponents: {components}\nSigned-By: {keyring}\n"
        )
    return "\n".join(stanzas)


_URI = re.compile(r"^'([^']+)' (\S+) (\d+)", re.MULTILINE)


class Uri(TypedDict):
    """What apt would fetch: an address, the name of the file, its size in bytes."""

    url: str
    name: str
    size: int


class Package(TypedDict):
    """A file of a package, as the signed index has it."""

    name: str
    urls: list[str]
    size: int
    sha256: str


def parse_uris(text: str) -> list[Uri]:
    """What `apt-get --print-uris` would fetch: url, name of the file, size."""
    return [{"url": url, "name": name, "size": int(size)} for url, name, size in _URI.findall(text)]


def versions(uris: Sequence[Uri]) -> list[str]:
    """name=version of each package, from the name of its file; what apt-cache is asked for."""
    found = []
    for uri in uris:
        package, version, _arch = uri["name"].rsplit(".", 1)[0].split("_")
        found.append(f"{package}={urllib.parse.unquote(version)}")
    return found


def closure(uris: Sequence[Uri], stanzas: str) -> tuple[list[Package], str]:
    """Each file with its SHA-256, and the index `Packages` of a repository that is one flat folder.

    `stanzas` is what apt-cache shows of the packages, from an index whose signature apt has checked.
    """
    by_path: dict[str, dict[str, str]] = {}
    texts: dict[str, str] = {}
    for stanza in re.split(r"\n\s*\n", stanzas.strip()):
        fields = dict(re.findall(r"^([A-Za-z0-9-]+): *(.*)$", stanza, re.MULTILINE))
        if "Filename" in fields:
            by_path[fields["Filename"]] = fields
            texts[fields["Filename"]] = stanza
    files: list[Package] = []
    index: list[str] = []
    for uri in uris:
        address = urllib.parse.unquote(uri["url"])
        path = next((path for path in by_path if address.endswith("/" + path)), None)
        if path is None or not by_path[path].get("SHA256"):
            raise PackageError("package_no_digest", name=uri["name"])
        # A colon is no character for a file on FAT or NTFS: apt's own names have it escaped, and the index must agree.
        name = uri["name"]
        files.append(
            {"name": name, "urls": [uri["url"]], "size": int(by_path[path]["Size"]), "sha256": by_path[path]["SHA256"]}
        )
        index.append(texts[path].replace(f"\nFilename: {path}\n", f"\nFilename: ./{name}\n"))
    return files, "\n\n".join(index) + "\n"


# Where the distributions of the RHEL family, and so their images, keep the keys of their packages.
RPM_KEYS = "/etc/pki/rpm-gpg/RPM-GPG-KEY-*"


# What rpmkeys says decides and not its exit status, which is 0 for a package without a signature.
RPM_SIGNATURES = """\
keys=$(mktemp -d)
rpmkeys --dbpath "$keys" --import {keys}
LC_ALL=C rpmkeys --dbpath "$keys" --checksig {folder}/*.rpm > "$keys/said" || true
if ! [ -s "$keys/said" ] || grep --invert-match ': digests signatures OK$' "$keys/said" >&2; then
  echo 'not signed by the distribution' >&2
  exit 1
fi
rm -rf "$keys"
"""


def rpm_signatures(folder: str, keys: str = RPM_KEYS) -> str:
    """A script that fails unless every package of a folder has a signature by one of these keys (a pattern of file names).

    dnf checks signatures when it installs, not when it downloads, and an unsigned package is no failure for rpmkeys: it says "digests OK" of
    it, and "digests signatures OK" of a good one (seen with rpm 4.18). The keys that this machine trusts do not count.
    """
    return RPM_SIGNATURES.format(keys=keys, folder=shlex.quote(folder)).rstrip()


def dnf_command(
    name: str, arch: str, packages: Sequence[str], folder: str, engine: bool, keys: str = RPM_KEYS
) -> list[str]:
    """The command that makes a repository of rpm packages and all that they depend on: by this machine, or in a container.

    Their signatures are checked before they are indexed: with `keys`, or with those of the container's image.
    """
    system = system_of(name)
    wanted = check_names(packages)
    download = ["dnf", "--assumeyes", "--quiet", "download", "--resolve", "--alldeps", f"--forcearch={arch}"]
    if not engine:
        download.append(f"--releasever={system.codename}")
        script = [
            shlex.join([*download, "--destdir", folder, *wanted]),
            rpm_signatures(folder, keys),
            shlex.join(["createrepo_c", "--quiet", folder]),
        ]
        return ["sh", "-euc", "\n".join(script)]
    script = [
        "dnf --assumeyes --quiet install 'dnf-command(download)' createrepo_c",
        shlex.join([*download, "--destdir", "/out", *wanted]),
        rpm_signatures("/out"),
        "createrepo_c --quiet /out",
    ]
    return [
        *("docker", "run", "--rm", "--network=host", "--env=http_proxy", "--env=https_proxy", "--env=no_proxy"),
        *(f"--volume={folder}:/out", system.image, "sh", "-euc", "\n".join(script)),
    ]


def pip_command(interpreter: str, python: str, packages: Sequence[str], folder: str) -> list[str]:
    """The command that brings wheels for a host's Python into a folder. pip's own settings say from where."""
    digits = python.replace(".", "")
    target = [
        "--python-version",
        python,
        "--implementation",
        "cp",
        "--abi",
        f"cp{digits}",
        "--abi",
        "abi3",
        "--abi",
        "none",
    ]
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in (31, 28, 27, 24, 17, 12, 5)]
    platforms += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64", "any"]
    for platform in platforms:
        target += ["--platform", platform]
    return [
        *(interpreter, "-m", "pip", "download", "--quiet", "--no-input", "--only-binary=:all:", *target),
        *("--dest", folder, "--", *check_requirements(packages)),
    ]


def check_requirements(requirements: Sequence[str], variable: str = "bundle_wheels") -> list[str]:
    """Requirements as pip takes them, none of which pip would read as an option or a file."""
    pattern = r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._, -]*\])?\s*([<>=!~]=?=?[^/;]*)?"
    wrong = [item for item in requirements if not re.fullmatch(pattern, str(item))]
    if wrong:
        raise PackageError("wheel_no_requirement", variable=variable, names=", ".join(map(repr, wrong)))
    return [str(item) for item in requirements]
