"""What /proc and nvidia-smi print, as facts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _host as host
from hypothesis import given
from hypothesis import strategies as st

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000 100 0 0 10 0
   1: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000 100 0 0 10 0
   2: 0100007F:18EC 0100007F:1F40 01 00000000:00000000 00:00000000 00000000     0        0 4713 1 0000 100 0 0 10 0
"""
TCP6 = (
    TCP.splitlines()[0]
    + "\n   0: "
    + "0" * 32
    + ":0016 "
    + "0" * 32
    + ":0000 0A 0:0 00:0 0 0 0 4714 1 0 100 0 0 10 0\n"
)
ID = "ab" * 32
OUTER = "cd" * 32


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Two processes: a server of the host, and one in a container whose host is itself a container."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text(TCP)
    (tmp_path / "net/tcp6").write_text(TCP6)
    (tmp_path / "meminfo").write_text(
        "MemTotal: 2097152 kB\nMemAvailable: 1048576 kB\nSwapTotal: 0 kB\nHugetlb: 524288 kB\n"
    )
    for pid, comm, command, cgroup, inode in (
        (10, "python3", "python3\0-m\0http.server\0", f"0::/docker/{OUTER}/system.slice/http.service\n", 4711),
        (20, "raylet", "/usr/lib/raylet\0--x\0", f"12:cpu:/docker/{OUTER}/docker/{ID}\n0::/\n", 4712),
    ):
        folder = tmp_path / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "comm").write_text(comm + "\n")
        (folder / "cmdline").write_text(command)
        (folder / "cgroup").write_text(cgroup)
        os.symlink(f"socket:[{inode}]", folder / "fd/3")
    return tmp_path


def test_all_of_a_host(proc: Path) -> None:
    found = host.host_facts(str(proc), str(proc), {ID: "llm-ray"}, [{"pid": 20, "process": "x", "used_mib": 1}])
    assert found["memory"] == {"total_mib": 2048, "available_mib": 1024, "swap_mib": 0, "hugepages_mib": 512}
    assert [(entry["port"], entry["process"], entry["container"]) for entry in found["listeners"]] == [
        (22, "", ""),  # nobody that could be seen
        (6379, "raylet", "llm-ray"),
        (8000, "python3", ""),
    ]
    assert [(entry["service"], entry["pid"], entry["container"]) for entry in found["services"]] == [
        ("ray", 20, "llm-ray")
    ]
    assert found["gpu_processes"][0]["container"] == "llm-ray"
    assert found["selinux"] == "disabled"


def test_a_port_of_a_program_that_ends_is_nobodys(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def moment(_seconds: float) -> None:
        (proc / "net/tcp").write_text("")
        (proc / "net/tcp6").write_text("")

    monkeypatch.setattr("ansible_collections.baremetal.llm.plugins.module_utils._proc.time.sleep", moment)
    found = host.host_facts(str(proc), str(proc), {ID: "llm-ray"}, [])
    assert [entry["port"] for entry in found["listeners"]] == [6379, 8000]  # 22 was nobody's that could be seen


def test_a_host_that_shows_nothing(tmp_path: Path) -> None:
    found = host.host_facts(str(tmp_path / "no"), str(tmp_path), {}, [])
    assert (found["listeners"], found["services"], found["memory"]["total_mib"]) == ([], [], 0)


def test_hugepages_of_an_old_kernel() -> None:
    text = "MemTotal: 2097152 kB\nMemFree: 1024 kB\nHugePages_Total: 10\nHugepagesize: 2048 kB\n"
    assert host.parse_memory(text) == {"total_mib": 2048, "available_mib": 1, "swap_mib": 0, "hugepages_mib": 20}


@pytest.mark.parametrize(
    ("command", "service"),
    [
        ("/usr/local/bin/python3 /usr/local/bin/vllm serve /models/x --port 8000", "vllm"),
        ("vllm serve x", "vllm"),
        ("python3 -m vllm.entrypoints.openai.api_server --model x", "vllm"),
        ("/opt/venv/bin/python3.11 -u -m vllm.entrypoints.api_server", "vllm"),
        ("VLLM::EngineCore", "vllm"),
        ("/x/ray/core/src/ray/gcs/gcs_server --log_dir=/tmp", "ray"),
        ("/x/ray/core/src/ray/raylet/raylet --raylet_socket_name=/tmp", "ray"),
        ("python -m sglang.launch_server --model-path x", "sglang"),
        ("python3 /opt/tritonserver/python/openai/openai_frontend/main.py --tokenizer x", "triton"),
        ("/usr/bin/ollama serve", "ollama"),
        ("vim vllm serve", ""),
        ("less /usr/share/doc/ollama serve", ""),
        ("grep raylet /var/log/syslog", ""),
        ("/usr/sbin/sshd -D", ""),
        ("", ""),
    ],
)
def test_services_are_known_by_their_program(command: str, service: str) -> None:
    assert host.service_of(command) == service


def test_processes_on_gpus() -> None:
    text = "1234, /usr/bin/python3, 15000\n99, [Not Found], [N/A]\nNo running processes found\n\n5, a, b, 7\n"
    assert host.parse_gpu_processes(text) == [
        {"pid": 1234, "process": "/usr/bin/python3", "used_mib": 15000},
        {"pid": 99, "process": "[Not Found]", "used_mib": None},
        {"pid": 5, "process": "a,b", "used_mib": 7},
    ]


@given(st.text())
def test_no_text_makes_the_parsers_fail(text: str) -> None:
    host.parse_memory(text)
    host.parse_gpu_processes(text)
    host.service_of(text)
