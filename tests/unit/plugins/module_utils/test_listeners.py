"""Whose ports a firewall leaves open: from trees like /proc, and from this machine's own sockets."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _connectivity as connectivity
from ansible_collections.baremetal.llm.plugins.module_utils import _host as host
from ansible_collections.baremetal.llm.plugins.module_utils import _listeners as listeners

OURS, THEIRS = "ab" * 32, "cd" * 32
ANY, LOOPBACK = "00000000", "0100007F"
ANY6, MAPPED_LOOPBACK = "0" * 32, "0000000000000000FFFF00000100007F"


def table(*rows: tuple[str, int, int]) -> str:
    lines = [
        f"{at}: {address}:{port:04X} 0:0 0A 0:0 0:0 0 0 0 {inode} 1" for at, (address, port, inode) in enumerate(rows)
    ]
    return "\n".join(["sl local_address", *lines, ""])


def process(proc: Path, pid: int, comm: str, parent: int, *inodes: int, environ: str = "", cgroup: str = "") -> None:
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    for name, text in (("comm", comm), ("environ", environ), ("cgroup", f"0::/{cgroup}")):
        (folder / name).write_text(text + "\n")
    (folder / "status").write_text(f"Name:\t{comm}\nPPid:\t{parent}\n")
    for inode in inodes:
        os.symlink(f"socket:[{inode}]", folder / f"fd/{inode}")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text(
        table((ANY, 50022, 1), (LOOPBACK, 6010, 2), (ANY, 2222, 3), (ANY, 49152, 4), (ANY, 40000, 5), (ANY, 45000, 6))
    )
    (tmp_path / "net/tcp6").write_text(table((ANY6, 50022, 7), (MAPPED_LOOPBACK, 41000, 8), (ANY6, 42000, 9)))
    process(tmp_path, 1, "systemd", 0, 3)
    process(tmp_path, 10, "sshd", 1, 1, 2, 7, environ="LANG=C\0")
    process(tmp_path, 11, "bash", 10, environ="A=B\0SSH_CONNECTION=10.0.0.9 55555 10.0.0.1 2200\0")
    process(tmp_path, 12, "sudo", 11)
    process(tmp_path, 20, "glusterfsd", 1, 4, 8)
    process(tmp_path, 30, "VLLM::Worker", 1, 5, cgroup=f"docker/{OURS}")
    process(tmp_path, 40, "other", 1, 6, cgroup=f"docker/{THEIRS}")
    return tmp_path


def test_what_ends_while_it_is_looked_at_is_nobodys(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 42000 in listeners.foreign_ports(32768, 60999, str(proc), "/nowhere")  # nobody has it, and it stays

    def moment(_seconds: float) -> None:
        (proc / "net/tcp6").write_text(table((ANY6, 50022, 7), (MAPPED_LOOPBACK, 41000, 8)))

    monkeypatch.setattr("ansible_collections.baremetal.llm.plugins.module_utils._proc.time.sleep", moment)
    found = listeners.foreign_ports(32768, 60999, str(proc), "/nowhere")
    assert 42000 not in found
    assert 49152 in found  # whose program is known


def test_sshd_and_systemd_and_the_login_itself(proc: Path) -> None:
    assert listeners.ssh_ports(str(proc), 12) == [2200, 2222, 50022]
    assert listeners.ssh_ports(str(proc), 1) == [2222, 50022]


def test_no_login_no_port(proc: Path) -> None:
    assert listeners.login_port(str(proc), 20) == 0
    assert listeners.login_port(str(proc), 4711) == 0


def test_ports_of_others(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connectivity, "_deployment", lambda container, engine: "tiny" if container == OURS else "")
    # 42000 is the kernel's, as those of NFS are
    assert listeners.foreign_ports(32768, 49152, str(proc)) == [42000, 45000, 49152]


@pytest.mark.parametrize("ended", [False, True])
def test_of_a_silent_engine_its_files_say_what_is_ours(
    proc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    """Its containers go on. Of a host without an engine, whatever holds its processes, nothing is ours."""
    monkeypatch.setattr(connectivity, "DAEMON_JSON", str(tmp_path / "daemon.json"))
    engine = str(tmp_path / "engine")
    assert listeners.foreign_ports(32768, 49152, str(proc), engine) == [40000, 42000, 45000, 49152]
    (tmp_path / "daemon.json").write_text(json.dumps({"data-root": str(tmp_path / "docker")}))
    for container, labels in ((OURS, {connectivity.LABEL: "tiny"}), (THEIRS, {})):
        (tmp_path / "docker/containers" / container).mkdir(parents=True)
        (tmp_path / "docker/containers" / container / "config.v2.json").write_text(
            json.dumps({"ID": container, "Config": {"Labels": labels}})
        )
    with socket.socket(socket.AF_UNIX) as silent:
        if ended:
            silent.bind(engine)  # as one that was killed leaves it
        assert listeners.foreign_ports(32768, 49152, str(proc), engine) == [42000, 45000, 49152]


def test_the_listener_that_an_interrupted_check_left_is_none_of_others(tmp_path: Path) -> None:
    control = connectivity.CONTROL + f".test{os.getpid()}".encode()
    port = connectivity.start_listener("gpu01", "token", {"net": "0.0.0.0"}, [], 20, control)["port"]
    try:
        with socket.create_server(("0.0.0.0", 0)) as server:
            other = server.getsockname()[1]
            found = listeners.foreign_ports(1024, 65535, engine=str(tmp_path / "none"))
            taken = [entry["port"] for entry in host.listeners(host.Processes())]
        assert (other in found, other in taken) == (True, True)
        assert (port in found, port in taken) == (False, False)
    finally:
        connectivity.stop_listener(control)


RUN = """
import sys, time
from ansible_collections.baremetal.llm.plugins.module_utils import _connectivity as connectivity
first = int(sys.argv[1])
ports = [{"variable": "vllm_port", "first": first, "last": first}]
found = connectivity.start_listener("gpu01", "old", {"127.0.0.0/8": "127.0.0.3"}, ports, 600, connectivity.CONTROL + sys.argv[2].encode())
print(found["port"], len(found["taken"]), flush=True)
time.sleep(600)
"""


def test_a_run_that_was_killed_in_the_middle_of_the_check_blocks_the_next_one_for_no_second() -> None:
    """Its listeners live on, as nobody is left who would ask them to end: preflight takes them for nobody's, and the check that follows ends them."""
    suffix = f".killed{os.getpid()}"
    control = connectivity.CONTROL + suffix.encode()
    with socket.socket() as channel:
        channel.bind(("127.0.0.3", 0))
        wanted = channel.getsockname()[1]
    with subprocess.Popen(
        [sys.executable, "-c", RUN, str(wanted), suffix],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        own, taken = map(int, run.stdout.readline().split())
        run.kill()
    try:
        assert (run.wait(), taken) == (-signal.SIGKILL, 0)
        with socket.create_connection(("127.0.0.3", wanted), 10):
            pass  # the listener is still there
        assert not {wanted, own} & {entry["port"] for entry in host.listeners(host.Processes())}
        ports = [{"variable": "vllm_port", "first": wanted, "last": wanted}]
        again = connectivity.start_listener("gpu01", "new", {"127.0.0.0/8": "127.0.0.3"}, ports, 20, control)
        assert again["taken"] == []
    finally:
        connectivity.stop_listener(control)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.3", own), 1)


def test_a_program_that_has_the_name_of_the_listener_and_never_ends_is_left() -> None:
    """Everybody on a host may bind such a name."""
    control = connectivity.CONTROL + f".endless{os.getpid()}".encode()

    def talk(server: socket.socket) -> None:
        with server.accept()[0] as connection, contextlib.suppress(OSError):
            while True:
                connection.sendall(b"x" * 65536)

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(control)
        server.listen()
        threading.Thread(target=talk, args=(server,), daemon=True).start()
        assert connectivity.stop_listener(control) is None


def test_this_machine(tmp_path: Path) -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        assert port in listeners.foreign_ports(port, port, engine=str(tmp_path / "none"))
        environment = {**os.environ, "SSH_CONNECTION": f"192.0.2.1 1 192.0.2.2 {port}"}
        with subprocess.Popen([sys.executable, "-c", "input()"], env=environment, stdin=subprocess.PIPE) as login:
            assert port in listeners.ssh_ports(pid=login.pid)
            login.communicate(b"\n")
