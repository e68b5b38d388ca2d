"""Files from host to host: about one copy leaves the controller, an interrupted run goes on, and what is wrong on the way is named."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import testinfra
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.fanout import LIBTORRENT

from lab.config import STATE
from tests.support.drills import users_environment

CHECKOUT = Path(__file__).resolve().parents[3]
BUNDLE = STATE / "delivery/fanout"
HOSTS = ("node1", "node2", "node3")
MODEL = "/opt/llm/models/lab--wide"
MIB = 1 << 20
FILES, SIZE = 3, 24 * MIB
# Slow enough to look at it while it goes on, in Mbit/s.
SLOW = ("-e", "llm_fanout_limit_mbps=40")


def on(host: str) -> Any:
    return testinfra.get_host(f"ssh://{host}", ssh_config=str(STATE / "ssh/config"))


def record(path: str, kind: str, **fields: str) -> dict[str, Any]:
    content = (BUNDLE / path).read_bytes()
    return {"path": path, "kind": kind, "size": len(content), "sha256": hashlib.sha256(content).hexdigest(), **fields}


def write_manifest() -> None:
    files = [record(f"models/lab--wide/{at}.safetensors", "model", model="lab/wide") for at in range(FILES)]
    (wheel,) = (path.relative_to(BUNDLE) for path in BUNDLE.glob("python/fanout/3.11/*.whl"))
    files.append(record(str(wheel), "python", fanout_python="3.11"))
    (BUNDLE / "manifest.yml").write_text(yaml.safe_dump({"schema": 1, "files": files}))


@pytest.fixture(scope="module", autouse=True)
def bundle() -> None:
    """Random weights, and the wheel for the Python of the lab's hosts."""
    wheels = BUNDLE / "python/fanout/3.11"
    (BUNDLE / "models/lab--wide").mkdir(parents=True, exist_ok=True)
    for at in range(FILES):
        (BUNDLE / f"models/lab--wide/{at}.safetensors").write_bytes(os.urandom(SIZE))
    if not list(wheels.glob("*.whl")):
        release = f"libtorrent=={LIBTORRENT['3.11']}"
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", wheels, release], check=True)
    write_manifest()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Whatever became of a run, the next one has ended all of it: no unit, nothing of it in memory, nothing half on the disk."""
    yield
    for host in HOSTS:
        assert on(host).run("systemctl list-units --all --no-legend 'baremetal-llm-fanout*'").stdout == ""
        assert not on(host).file("/run/baremetal-llm-fanout").exists
        assert not on(host).file("/opt/llm/fanout").exists
        assert on(host).run("ls /opt/llm/models/.incoming").stdout == ""


def command(*arguments: str) -> list[str]:
    playbook = ["playbook", "molecule/delivery/fanout.yml", "-i", str(CHECKOUT / "inventories/lab")]
    return [sys.executable, "-m", "ansible", *playbook, "-e", f"llm_bundle_dir={BUNDLE}", *arguments]


def begin(*arguments: str) -> subprocess.Popen[str]:
    kept = users_environment()
    return subprocess.Popen(
        command(*arguments),
        cwd=CHECKOUT,
        env={**kept, "ANSIBLE_NOCOLOR": "1", "COLUMNS": "400", "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(run: subprocess.Popen[str]) -> str:
    output, _nothing = run.communicate(timeout=400)
    assert run.returncode == 0, output
    return " ".join(output.split())


def copied(output: str) -> dict[str, int]:
    """Files that the controller had to copy after the hosts had passed on what they could."""
    return {host: int(files) for host, files in re.findall(r"copied (node\d) (\d+) files", output)}


def copies(output: str) -> float:
    return float(re.findall(r"the controller sent .*? \(([\d.]+) copies\)", output)[-1])


def forget(*hosts: str) -> None:
    for host in hosts:
        on(host).check_output(f"rm -rf {MODEL} /opt/llm/models/.bundle-state.json")


def check_content() -> None:
    for at in range(FILES):
        wanted = hashlib.sha256((BUNDLE / f"models/lab--wide/{at}.safetensors").read_bytes()).hexdigest()
        for host in HOSTS:
            assert on(host).check_output(f"sha256sum {MODEL}/{at}.safetensors").split()[0] == wanted


def wait_for(question: Callable[[], Any], seconds: float = 120.0) -> Any:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = question()
        if found:
            return found
        time.sleep(0.5)
    raise AssertionError("it did not come to pass")


def arrived(host: str) -> int:
    """Bytes on the host's disk of files that still travel."""
    shown = on(host).run("du --summarize --block-size=1 /opt/llm/models/.incoming").stdout
    return int(shown.split()[0]) if shown else 0


def test_hosts_pass_files_on_and_a_second_run_moves_no_byte() -> None:
    forget(*HOSTS)
    output = finish(begin())
    assert copied(output) == dict.fromkeys(HOSTS, 0)
    assert copies(output) <= 1.3
    assert "CPU-s per GiB" in output
    check_content()
    again = finish(begin())
    assert copied(again) == dict.fromkeys(HOSTS, 0)
    assert "copies" not in again


def test_a_new_host_gets_its_files_from_the_others() -> None:
    forget("node3")
    output = finish(begin())
    assert copied(output) == dict.fromkeys(HOSTS, 0)
    assert copies(output) == 0
    check_content()


def test_an_interrupted_run_goes_on_and_strangers_get_nothing() -> None:
    forget(*HOSTS)
    run = begin(*SLOW)
    try:
        wait_for(lambda: all(arrived(host) > 16 * MIB for host in HOSTS))
        # A stranger on the network: neither in the open nor encrypted does anybody answer.
        listening = on("node1").check_output(
            "ss -tlnpH | grep pid=$(systemctl show --value --property=MainPID 'baremetal-llm-fanout*'),"
        )
        address, port = re.findall(r"([\d.]+)(?:%\w+)?:(\d+) ", listening)[0]
        assert address != "0.0.0.0"
        with socket.create_connection((address, int(port)), 5) as plain, contextlib.suppress(ConnectionError):
            plain.settimeout(10)
            plain.sendall(b"\x13BitTorrent protocol" + bytes(48))
            assert plain.recv(100) == b""
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
    had = min(arrived(host) for host in HOSTS)
    assert had > 16 * MIB
    output = finish(begin())
    assert copied(output) == dict.fromkeys(HOSTS, 0)
    # What was on the hosts was not sent again.
    assert copies(output) < 1 - 12 * MIB / (FILES * SIZE)
    check_content()


def test_a_program_that_is_killed_goes_on() -> None:
    forget(*HOSTS)
    run = begin(*SLOW)
    wait_for(lambda: arrived("node2") > 12 * MIB)
    on("node2").check_output("systemctl kill --signal=SIGKILL 'baremetal-llm-fanout*'")
    output = finish(run)
    assert copied(output) == dict.fromkeys(HOSTS, 0)
    assert copies(output) <= 1.3
    check_content()


def test_a_host_whose_disk_lies_is_named_and_mended() -> None:
    forget("node2", "node3")
    path = f"{MODEL}/0.safetensors"
    # Neither its size nor its time says that anybody wrote to it.
    change = "printf 'wrong' | dd of={0} bs=1 seek=5000000 conv=notrunc"
    on("node1").check_output(f"touch -r {path} /tmp/time; {change.format(path)}; touch -r /tmp/time {path}")
    output = finish(begin())
    assert "node1" in output
    for host in ("node2", "node3"):
        wanted = hashlib.sha256((BUNDLE / "models/lab--wide/0.safetensors").read_bytes()).hexdigest()
        assert on(host).check_output(f"sha256sum {path}").split()[0] == wanted
    forget("node1")
    finish(begin())
    check_content()


def test_two_hosts_with_a_firewall_between_them_are_named() -> None:
    forget(*HOSTS)
    shown = on("node3").check_output("ip -4 -o address show scope global")
    # What node2 says to these goes to a card that nobody has, so neither reaches the other.
    near = [
        (address, found[1])
        for address in re.findall(r"inet ([\d.]+)/", shown)
        if (found := re.search(r"dev (\S+)", on("node2").run(f"ip -o route get {address}").stdout)) and found[1] != "lo"
    ]
    for address, card in near:
        on("node2").check_output(f"ip neigh replace {address} lladdr 02:00:00:00:00:01 dev {card} nud permanent")
    try:
        output = finish(begin())
    finally:
        for address, card in near:
            on("node2").check_output(f"ip neigh delete {address} dev {card}")
    assert re.search(r"node2 \([\d.]+\) and node3 \([\d.]+\) do not reach each other", output)
    assert copied(output) == dict.fromkeys(HOSTS, 0)
    check_content()


def test_where_somebody_else_puts_files_missing_ones_are_refused() -> None:
    finish(begin())
    assert copied(finish(begin("-e", "llm_distribution=exists"))) == dict.fromkeys(HOSTS, 0)
    on("node2").check_output(f"rm {MODEL}/1.safetensors")
    run = begin("-e", "llm_distribution=exists")
    output, _nothing = run.communicate(timeout=200)
    assert run.returncode != 0
    assert "on node2 lacks lab--wide/1.safetensors" in " ".join(output.split())
    finish(begin("-e", "llm_distribution=copy"))
    check_content()
