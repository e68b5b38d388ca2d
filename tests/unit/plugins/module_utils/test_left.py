"""What others left in the settings of a host, from files as they lie on one."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _left as left
from hypothesis import given
from hypothesis import strategies as st

from tests.support.host_reports import Recorded, plant

INSTALLED = "Types: deb deb-src\nURIs: https://a.example/debian/\nSuites: bookworm bookworm-updates\nComponents: main\n"


@pytest.mark.parametrize(
    ("tree", "kind"),
    [
        ({}, ""),
        ({"run/systemd/container": "lxc\n"}, "lxc"),
        ({"proc/1/environ": "PATH=/bin\0container=lxc\0"}, "lxc"),
        ({"proc/1/environ": "nocontainer=lxc\0"}, ""),
        ({".dockerenv": ""}, "docker"),
        ({"run/.containerenv": ""}, "podman"),
    ],
)
def test_a_host_that_is_a_container(tmp_path: Path, tree: dict[str, str], kind: str) -> None:
    plant(tmp_path, tree)
    assert left.container(str(tmp_path / "proc"), str(tmp_path)) == kind


def test_the_identity_of_a_host_is_not_shown(tmp_path: Path) -> None:
    assert left.machine_id(str(tmp_path)) == ""
    plant(tmp_path, {"etc/machine-id": "0123456789abcdef0123456789abcdef\n", "b/etc/machine-id": "uninitialized\n"})
    found = left.machine_id(str(tmp_path))
    assert len(found) == 16
    assert found not in "0123456789abcdef0123456789abcdef"
    assert left.machine_id(str(tmp_path / "b")) == ""


@pytest.mark.parametrize(
    ("tree", "said", "wholly"),
    [
        ({"etc/modprobe.d/a.conf": "blacklist nvidia\n"}, ["blacklist nvidia"], [False]),
        ({"etc/modprobe.d/a.conf": "#blacklist nvidia\nblacklist nvidiafb\n"}, [], []),
        ({"etc/modprobe.d/a.conf": "install nvidia /bin/false\n"}, ["install nvidia /bin/false"], [True]),
        ({"etc/modprobe.d/a.conf": "install nvidia-uvm /usr/bin/true\n"}, ["install nvidia-uvm /usr/bin/true"], [True]),
        ({"etc/modprobe.d/a.conf": "install nvidia modprobe -i nvidia-current $CMDLINE_OPTS\n"}, [], []),
        ({"etc/modprobe.d/a.conf": "alias nvidia nvidia-current\nalias nvidia\n"}, [], []),
        ({"proc/cmdline": "quiet module_blacklist=nouveau,nvidia\n"}, ["module_blacklist=nouveau,nvidia"], [True]),
        ({"proc/cmdline": "modprobe.blacklist=nvidia\n"}, ["modprobe.blacklist=nvidia"], [False]),
        ({"proc/cmdline": "modprobe.blacklist=nouveau\n"}, [], []),
        # A file in /etc takes the place of the one that a package brought.
        ({"lib/modprobe.d/a.conf": "alias nvidia off\n", "etc/modprobe.d/a.conf": "# nothing\n"}, [], []),
    ],
)
def test_modules_that_are_kept_away(tmp_path: Path, tree: dict[str, str], said: list[str], wholly: list[bool]) -> None:
    plant(tmp_path, tree)
    found = left.blocked_modules(str(tmp_path / "proc"), str(tmp_path))
    assert [entry["said"] for entry in found] == said
    assert [entry["wholly"] for entry in found] == wholly


def test_options_of_the_module(tmp_path: Path) -> None:
    plant(
        tmp_path, {"etc/modprobe.d/n.conf": "options nvidia NVreg_A=1 \\\n  NVreg_B=2\noptions nvidia_drm modeset=1\n"}
    )
    found = left.module_options(str(tmp_path))
    assert [(entry["said"], entry["path"]) for entry in found] == [
        ("NVreg_A=1", "/etc/modprobe.d/n.conf"),
        ("NVreg_B=2", "/etc/modprobe.d/n.conf"),
    ]


def test_whom_the_host_asks_for_names(tmp_path: Path) -> None:
    assert left.resolver(str(tmp_path)) == {"nameservers": [], "search": [], "missing": ""}
    plant(
        tmp_path,
        {"etc/resolv.conf": "search a.example\nnameserver 10.0.0.1\noptions ndots:2\nsearch b.example c.example\n"},
    )
    assert left.resolver(str(tmp_path)) == {
        "nameservers": ["10.0.0.1"],
        "search": ["b.example", "c.example"],
        "missing": "",
    }
    plant(tmp_path, {"lost/etc/resolv.conf": "=> ../run/gone"})
    assert left.resolver(str(tmp_path / "lost"))["missing"] == "../run/gone"


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
    found = left.package_sources(str(tmp_path))
    assert [(entry["url"], entry["suite"], entry["signed_by"]) for entry in found] == [
        ("https://b.example/ubuntu", "jammy", "/k.gpg"),
        ("https://a.example/debian", "bookworm", "/k.asc"),
        ("https://a.example/debian", "bookworm-updates", "/k.asc"),
        ("https://a.example/debian", "bookworm", "(inline)"),
        ("https://a.example/debian", "bookworm-updates", "(inline)"),
    ]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({}, False),
        ({"etc/apt/apt.conf.d/50x": '// Unattended-Upgrade::Automatic-Reboot "true";\n'}, False),
        ({"etc/apt/apt.conf.d/50x": 'Unattended-Upgrade::Automatic-Reboot "true";\n'}, True),
        (
            {
                "etc/apt/apt.conf.d/50x": 'Unattended-Upgrade::Automatic-Reboot "true";\n',
                "etc/apt/apt.conf.d/99y": 'Unattended-Upgrade::Automatic-Reboot "false";\n',
            },
            False,
        ),
        ({"etc/dnf/automatic.conf": "[commands]\nreboot = when-needed\n"}, True),
        ({"etc/dnf/automatic.conf": "[commands]\nreboot = never\n"}, False),
    ],
)
def test_hosts_that_reboot_by_themselves(tmp_path: Path, tree: dict[str, str], expected: bool) -> None:
    plant(tmp_path, tree)
    assert left.automatic_reboot(str(tmp_path)) is expected


def test_a_host_that_tells_nothing(tmp_path: Path) -> None:
    found = left.left(Recorded({}), str(tmp_path / "sys"), str(tmp_path / "proc"), str(tmp_path))  # type: ignore[arg-type]
    assert not any(
        value for name, value in found.items() if name not in ("resolver", "packet_filters", "kernel_settings")
    )
    assert found["packet_filters"] == {"legacy": [], "program": ""}
    assert found["kernel_settings"] == {}


@given(st.text(max_size=200))
def test_no_file_makes_it_fail(text: str) -> None:
    list(left._stanzas(text))
    assert left._ONE_LINE.match(text) is None or text.startswith("deb")
