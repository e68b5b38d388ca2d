"""What the package manager of a host is told, from files as they lie on one."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _package_manager as package_manager
from hypothesis import given
from hypothesis import strategies as st

from tests.support.host_reports import plant

INSTALLED = "Types: deb deb-src\nURIs: https://a.example/debian/\nSuites: bookworm bookworm-updates\nComponents: main\n"
CUDA = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2004/x86_64"
# The part of a key's signature of itself that has its identity (RFC 4880, issuer).
OLD, NEW = "0910f60f4b3d7fa2af80", "0910a4b469963bf863cc"
MODULE = "usr/lib/python3/dist-packages/apt_pkg.cpython-38-x86_64-linux-gnu.so"


def armored(packets: str) -> str:
    text = base64.b64encode(bytes.fromhex(packets)).decode()
    return f"-----BEGIN PGP PUBLIC KEY BLOCK-----\nVersion: GnuPG v1\n\n{text}\n=aB3d\n-----END PGP PUBLIC KEY BLOCK-----\n"


def test_repositories_that_apt_knows(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "etc/apt/sources.list": "# deb https://no.example x main\ndeb-src https://no.example x main\n",
            "etc/apt/sources.list.d/a.list": "deb [arch=amd64 signed-by=/k.gpg] https://b.example/ubuntu/ jammy stable\n",
            "etc/apt/sources.list.d/c.sources": f"{INSTALLED}Signed-By: /k.asc\n\n{INSTALLED}Enabled: no\n",
            "etc/apt/sources.list.d/d.sources": f"{INSTALLED}Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n",
        },
    )
    found = package_manager.package_sources(str(tmp_path))
    assert [(entry["url"], entry["suite"], entry["signed_by"]) for entry in found] == [
        ("https://b.example/ubuntu", "jammy", "/k.gpg"),
        ("https://a.example/debian", "bookworm", "/k.asc"),
        ("https://a.example/debian", "bookworm-updates", "/k.asc"),
        ("https://a.example/debian", "bookworm", "(inline)"),
        ("https://a.example/debian", "bookworm-updates", "(inline)"),
    ]


def test_repositories_that_dnf_knows(tmp_path: Path) -> None:
    text = "[a]\nname=A 100%\nmirrorlist=https://a.example/?repo=$releasever\n\n[b]\nbaseurl=https://b.example/1\n https://b.example/2\nenabled=1\n"
    plant(
        tmp_path,
        {
            "etc/yum.repos.d/a.repo": text + "[c]\nbaseurl=https://c.example\nenabled=0\n",
            "etc/yum.repos.d/b.repo": "no section",
        },
    )
    found = package_manager.package_sources(str(tmp_path))
    assert [(entry["suite"], entry["url"]) for entry in found] == [
        ("a", "https://a.example/?repo=$releasever"),
        ("b", "https://b.example/1"),
        ("b", "https://b.example/2"),
    ]


@pytest.mark.parametrize(
    ("tree", "signed_by", "missing"),
    [
        ({"etc/apt/trusted.gpg": f"hex {OLD}"}, "", True),
        ({"etc/apt/trusted.gpg.d/cuda.asc": armored(OLD)}, "", True),
        ({"etc/apt/trusted.gpg": f"hex {OLD}", "etc/apt/trusted.gpg.d/new.gpg": f"hex {NEW}"}, "", False),
        ({"etc/apt/trusted.gpg": f"hex {OLD}", "k.asc": armored(NEW)}, "/k.asc", False),
        ({"k.gpg": f"hex {OLD}", "etc/apt/trusted.gpg": f"hex {NEW}"}, "/k.gpg", True),
        # Of whom the host knows no key at all, nobody can say which one is missing.
        ({}, "", False),
        ({}, "(inline)", False),
    ],
)
def test_keys_that_a_publisher_has_changed(tmp_path: Path, tree: dict[str, str], signed_by: str, missing: bool) -> None:
    plant(tmp_path, tree)
    assert bool(package_manager.key_missing(CUDA, signed_by, str(tmp_path))) is missing
    assert package_manager.key_missing("https://download.docker.com/linux/ubuntu", signed_by, str(tmp_path)) == ""


def test_what_is_left_alone(tmp_path: Path) -> None:
    pins = "Package: *\nPin: release a=unstable\nPin-Priority: -10\n\nPackage: docker.io runc\nPin: release *\nPin-Priority: -1\n"
    plant(
        tmp_path,
        {
            "etc/dnf/dnf.conf": "[main]\nexclude=kernel* a,b\n",
            "etc/yum.conf": "[main]\nexcludepkgs=docker-ce\n",
            "etc/apt/preferences.d/no-docker": pins,
            "etc/apt/preferences.d/cuda": "Package: *\nPin: origin x\nPin-Priority: 600\n",
        },
    )
    found = package_manager.package_excludes(str(tmp_path))
    assert [entry["said"] for entry in found] == ["kernel*", "a", "b", "docker-ce", "docker.io", "runc"]
    assert {entry["path"] for entry in found} == {
        "/etc/dnf/dnf.conf",
        "/etc/yum.conf",
        "/etc/apt/preferences.d/no-docker",
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("<!DOCTYPE html>", "<!DOCTYPE html>"),
        (
            "deb https://nvidia.github.io/libnvidia-container/stable/deb/amd64/",
            "deb https://nvidia.github.io/libnvidia-container/stable/deb/amd64/",
        ),
        ("deb-src http://x.example y", ""),
        ("  # anything", ""),
        ("deb\t[trusted=yes] file:///srv ./ # mine", ""),
        ("deb cdrom:[Debian GNU/Linux 12.0.0 _Bookworm_]/ bookworm main", ""),
    ],
)
def test_lines_that_apt_does_not_take(tmp_path: Path, line: str, said: str) -> None:
    plant(tmp_path, {"etc/apt/sources.list.d/a.list": f"\n{line}\n<second>\n" if said else f"{line}\n"})
    found = package_manager.package_sources_malformed(str(tmp_path))
    assert [entry["said"] for entry in found] == ([said] if said else [])


def test_proxies_of_package_managers(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "etc/apt/apt.conf.d/1": 'Acquire::http::Proxy "http://a:1";\n# Proxy "http://no:1"\nAcquire::http::Proxy::b "DIRECT";\n',
            "etc/apt/apt.conf.d/2": 'Acquire {\n  https {\n    Proxy "http://c:2/";\n  }\n}\n',
            "etc/dnf/dnf.conf": "[main]\nproxy=http://d:3\n",
            "etc/yum.conf": "[main]\nproxy=_none_\n",
        },
    )
    found = package_manager.package_proxies(str(tmp_path))
    assert [entry["said"] for entry in found] == ["http://a:1", "http://c:2/", "http://d:3"]
    assert [entry["path"] for entry in found] == ["/etc/apt/apt.conf.d/1", "/etc/apt/apt.conf.d/2", "/etc/dnf/dnf.conf"]


@pytest.mark.parametrize(
    ("line", "locked"),
    [
        ("kernel-devel-0:5.14.0-362.8.1.el9_3.*", ("kernel-devel", "5.14.0-362.8.1.el9_3")),
        ("docker-ce-3:24.0.7-1.el9.x86_64", ("docker-ce", "24.0.7-1.el9")),
        ("0:kernel-devel-5.14.0-362.8.1.el9_3.*", ("kernel-devel", "5.14.0-362.8.1.el9_3")),
        ("kernel*-0:5.14.0-362.*", ("kernel*", "5.14.0-362")),
        ("!docker-ce-3:24.0.7-1.el9.*", None),
        ("# Added locks", None),
        ("nonsense", None),
    ],
)
def test_versions_that_are_locked(tmp_path: Path, line: str, locked: tuple[str, str] | None) -> None:
    plant(tmp_path, {"etc/dnf/plugins/versionlock.list": line + "\n"})
    found = package_manager.package_locks(str(tmp_path))
    assert [(entry["name"], entry["version"]) for entry in found] == ([locked] if locked else [])


@pytest.mark.parametrize(
    ("tree", "usable"),
    [
        ({MODULE: "", "usr/bin/python3": "=> python3.8"}, True),
        ({MODULE: "", "usr/bin/python3": "=> python3.9"}, False),
        ({MODULE: "", "usr/bin/python3": "=> /opt/other/python"}, None),
        # Ansible installs the module then.
        ({"usr/bin/python3": "=> python3.8"}, None),
        ({}, None),
    ],
)
def test_whether_ansible_can_ask_apt(tmp_path: Path, tree: dict[str, str], usable: bool | None) -> None:
    plant(tmp_path, tree)
    assert package_manager.apt_usable(str(tmp_path)) is usable


def test_somebody_who_installs_packages_at_this_moment(tmp_path: Path) -> None:
    plant(tmp_path, {"var/lib/dpkg/lock-frontend": "", "proc/locks": ""})
    proc, root = str(tmp_path / "proc"), str(tmp_path)
    assert package_manager.is_busy(proc, root) is False
    inode = os.stat(tmp_path / "var/lib/dpkg/lock-frontend").st_ino
    plant(tmp_path, {"proc/locks": f"1: POSIX  ADVISORY  WRITE 900 fd:01:{inode} 0 EOF\n2: short\n"})
    assert package_manager.is_busy(proc, root) is True
    assert package_manager.is_busy(proc, str(tmp_path / "none")) is False


@given(st.text(max_size=200))
def test_no_file_makes_it_fail(text: str) -> None:
    list(package_manager._stanzas(text))
    assert package_manager._ONE_LINE.match(text) is None or text.startswith("deb")
