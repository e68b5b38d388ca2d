"""The command line of an engine, as systemd shows it, and which directives of daemon.json it takes."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._engine_flags import (
    arguments,
    colliding,
    engine_flags,
    expanded,
    parse_flags,
)
from hypothesis import given
from hypothesis import strategies as st

DROP_IN = "/etc/systemd/system/docker.service.d/docker-options.conf"
UNIT = "/lib/systemd/system/docker.service"
# What systemd 252 prints; kubespray's drop-in (kubernetes-sigs/kubespray#1473).
KUBESPRAY = f"""\
ExecStart={{ path=/usr/bin/dockerd ; argv[]=/usr/bin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock $DOCKER_OPTS ; ignore_errors=no ; \
start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }}
Environment="DOCKER_OPTS=--log-opt max-size=50m --log-opt max-file=5 --live-restore" OTHER=1
FragmentPath={UNIT}
DropInPaths={DROP_IN}
"""
FILES = {
    DROP_IN: '[Service]\nEnvironment="DOCKER_OPTS=--log-opt max-size=50m --log-opt max-file=5 --live-restore"\n',
    UNIT: "[Service]\nExecStart=/usr/bin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock $DOCKER_OPTS\n",
    "/etc/sysconfig/docker": "# options\nOPTIONS='--selinux-enabled --log-driver=journald --live-restore \\\n'\n",
}


def text_of(path: str) -> str:
    return FILES.get(path, "")


def test_flags_of_a_variable_in_a_drop_in() -> None:
    assert engine_flags(KUBESPRAY, text_of) == {
        "hosts": {"said": "-H fd://", "path": UNIT},
        "log-opts": {"said": "--log-opt max-size=50m --log-opt max-file=5", "path": DROP_IN},
        "live-restore": {"said": "--live-restore", "path": DROP_IN},
    }


def test_flags_of_a_file_of_variables() -> None:
    show = "ExecStart={ path=x ; argv[]=/usr/bin/dockerd $OPTIONS ; ignore_errors=no }\nEnvironmentFiles=/etc/sysconfig/docker (ignore_errors=yes)\n"
    found = engine_flags(show, text_of)
    assert set(found) == {"selinux-enabled", "log-driver", "live-restore"}
    assert {flag["path"] for flag in found.values()} == {"/etc/sysconfig/docker"}


@pytest.mark.parametrize("show", ["", "ExecStart=\n", "LoadState=not-found\nExecStart={ path= ; argv[]= ; }\n", "x"])
def test_no_engine_has_no_flags(show: str) -> None:
    assert engine_flags(show, text_of) == {}


def test_what_may_stand_several_times_is_in_the_plural_in_the_file() -> None:
    found = parse_flags(
        [
            "-D",
            "-g",
            "/data",
            "--add-runtime=a=/b",
            "--dns",
            "10.0.0.1",
            "--exec-opt",
            "native.cgroupdriver=systemd",
            "--debug",
        ]
    )
    assert found == {
        "debug": ["-D", "--debug"],
        "data-root": ["-g /data"],
        "runtimes": ["--add-runtime=a=/b"],
        "dns": ["--dns 10.0.0.1"],
        "exec-opts": ["--exec-opt native.cgroupdriver=systemd"],
    }


def test_words_are_expanded_as_systemd_does() -> None:
    environment = {"A": "-x 'y z'", "B": "b b"}
    assert expanded(["$A", "--k=${B}", "$NONE", "a$A"], environment) == ["-x", "y z", "--k=b b", "a$A"]


def test_flags_become_a_command_line_again() -> None:
    found = engine_flags(KUBESPRAY, text_of)
    assert arguments(found) == ["-H", "fd://", "--log-opt", "max-size=50m", "--log-opt", "max-file=5", "--live-restore"]


@pytest.mark.parametrize(
    ("said", "config", "version", "expected"),
    [
        ("--live-restore", {"live-restore": False}, "", ["live-restore"]),
        ("--live-restore", {"debug": True}, "", []),
        ("--add-runtime nvidia=/x", {"runtimes": {"nvidia": {}}}, "28.5.1", ["runtimes"]),
        ("--add-runtime oci=/x", {"runtimes": {"nvidia": {}}}, "28.5.1", []),
        ("--add-runtime oci=/x", {"runtimes": {"nvidia": {}}}, "1.13.1", ["runtimes"]),
        ("--add-runtime oci=/x", {}, "1.13.1", []),
    ],
)
def test_what_both_say(said: str, config: dict[str, object], version: str, expected: list[str]) -> None:
    flags = {name: {"said": said, "path": "x"} for name in parse_flags(said.split())}
    assert colliding(flags, config, version) == expected


@given(st.text())
def test_no_text_makes_it_fail(text: str) -> None:
    engine_flags(text, lambda _path: text)
    parse_flags(text.split())
