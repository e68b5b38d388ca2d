"""Sockets and their processes, from a /proc."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _proc as proc
from hypothesis import given
from hypothesis import strategies as st


def test_listening_sockets_of_both_families(tmp_path: Path) -> None:
    six = "00000000000000000000000001000000" if sys.byteorder == "little" else "0" * 31 + "1"
    text = f"head\n 0: {six}:0050 {six}:0000 0A 0:0 00:0 0 0 0 99 1\n 1: {six}:0051 {six}:0000 01 0:0 00:0 0 0 0 98 1\nbad\n"
    assert proc.parse_listening(text) == [("::1", 80, "99")]
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp6").write_text(text)
    assert proc.listening_sockets(str(tmp_path)) == [("::1", 80, "99")]


@given(st.text())
def test_any_table_of_sockets(text: str) -> None:
    proc.parse_listening(text)


def test_a_host_that_shows_nothing(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "no")
    assert proc.listening_sockets(nowhere) == proc.process_ids(nowhere) == proc.container_ids(nowhere, 1) == []
    assert proc.socket_owners(nowhere, [1], ["99"]) == {}


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("0::/system.slice/llm-vllm.service\n", "llm-vllm"),
        ("0::/docker/abc/system.slice/llm-vllm.service\n", "llm-vllm"),
        ("1:cpu:/\n0::/system.slice/llm-vllm.service/worker\n", "llm-vllm"),
        ("0::/system.slice/llm-ray.service\n", "llm-ray"),
        ("0::/system.slice/my-llm-vllm.service\n", ""),
        ("0::/user.slice/llm-vllm.service\n", ""),
        ("0::/system.slice/llm-probe.service\n", ""),
    ],
)
def test_processes_of_the_server_without_a_container_are_ours(tmp_path: Path, group: str, name: str) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cgroup").write_text(group)
    assert proc.server_unit(str(tmp_path), 7) == name


@pytest.mark.parametrize(
    ("unit", "name"),
    [
        *((each, each) for each in ("llm-vllm", "llm-ray-two", "llm-gateway", "llm-gateway-usage", "llm-alert-relay")),
        *((each, "") for each in ("llm-server", "llm-test-web", "llm", "my-llm-gateway", "llm-gateway-of-mine")),
    ],
)
def test_a_unit_is_ours_by_its_whole_name(tmp_path: Path, unit: str, name: str) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cgroup").write_text(f"0::/docker/abc/system.slice/{unit}.service\n")
    assert proc.own_unit(str(tmp_path), 7) == name
