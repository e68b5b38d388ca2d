"""Hosts that are network namespaces: the kernel's own network and firewall between them, without a machine for each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

# Who knocks where: source and destination address, and port.
Door = tuple[str, str, int]

LISTEN = """
import socket, sys
held = []
for port in map(int, sys.argv[1:]):
    one = socket.socket(socket.AF_INET6)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    one.bind(("::", port))
    one.listen(64)
    held.append(one)
print("ready", flush=True)
sys.stdin.read()
"""
KNOCK = """
import concurrent.futures, json, socket, sys
def passes(door):
    source, address, port = door
    try:
        socket.create_connection((address, port), timeout=1, source_address=(source, 0)).close()
    except TimeoutError:
        return False
    return True
doors = json.load(sys.stdin)
with concurrent.futures.ThreadPoolExecutor(len(doors)) as pool:
    print(json.dumps([door for door, passed in zip(doors, pool.map(passes, doors)) if passed]))
"""


def run(*command: str, text: str = "") -> str:
    """What a program prints; it has to succeed."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def why_not(*programs: str) -> str:
    """Why no namespaces can be made here; empty where they can."""
    missing = [name for name in ("ip", *programs) if not shutil.which(name)]
    if missing:
        return f"no program {', '.join(missing)} (Debian: iproute2, nftables)"
    try:
        run("ip", "netns", "add", f"llm-try-{os.getpid()}")
        run("ip", "netns", "del", f"llm-try-{os.getpid()}")
    except RuntimeError as error:
        return f"network namespaces need root: {error}"
    return ""


@contextmanager
def wired(host: str, networks: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> Iterator[str]:
    """A host with a cable into each network: ``{name: (its addresses, those of the others there)}``, with prefix lengths.

    All others of a network are one namespace, which reaches the host's other networks through the host.
    """
    here = f"llm-{os.getpid()}-{host}"
    made: list[str] = []
    try:
        for name in (here, *(f"{here}-{net}" for net in networks)):
            run("ip", "netns", "add", name)
            made.append(name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for net, (own, others) in networks.items():
            there = f"{here}-{net}"
            run("ip", "-n", here, "link", "add", net, "type", "veth", "peer", "name", "eth0", "netns", there)
            for name, link, addresses in ((here, net, own), (there, "eth0", others)):
                run("ip", "-n", name, "link", "set", link, "up")
                for address in addresses:
                    run("ip", "-n", name, "address", "add", address, "dev", link, *_nodad(address))
        for net, (own, _others) in networks.items():
            gates = {":" in address: address.partition("/")[0] for address in own}
            elsewhere = [address for other, (theirs, _more) in networks.items() if other != net for address in theirs]
            for address in elsewhere:
                route = ["route", "add", address.partition("/")[0], "via", gates[":" in address]]
                run("ip", "-n", f"{here}-{net}", *(["-6"] if ":" in address else []), *route)
        yield here
    finally:
        for name in made:
            run("ip", "netns", "del", name)


def _nodad(address: str) -> list[str]:
    """Without it an address of version 6 cannot be used for a second."""
    return ["nodad"] if ":" in address else []


@contextmanager
def listening(namespace: str, ports: Iterable[int]) -> Iterator[None]:
    """Something answers on these ports of every address."""
    command = ["ip", "netns", "exec", namespace, "python3", "-c", LISTEN, *map(str, ports)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise RuntimeError("the listener did not start")
        yield
    finally:
        process.communicate("")


def passed(namespace: str, doors: Iterable[Door]) -> set[Door]:
    """Through which of the doors one comes."""
    asked: Any = [list(door) for door in doors]
    found = json.loads(run("ip", "netns", "exec", namespace, "python3", "-c", KNOCK, text=json.dumps(asked)))
    return {(source, address, port) for source, address, port in found}
