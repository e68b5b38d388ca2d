"""What counts as leaving the lab: the filter that the kernel runs, followed here instruction by instruction, and what is said of a packet."""

from __future__ import annotations

import ipaddress
import struct

import pytest

from lab.files import watch_exits

LAB = [ipaddress.IPv4Network("172.31.240.0/24"), ipaddress.IPv4Network("172.31.241.0/25")]


def frame(destination: str, ethertype: int = 0x0800, protocol: int = 17, port: int = 53) -> bytes:
    packed = [ipaddress.IPv4Address(text).packed for text in ("172.31.240.11", destination)]
    header = bytes([0x45, 0, 0, 28, 0, 0, 0, 0, 64, protocol, 0, 0]) + b"".join(packed)
    return bytes(12) + struct.pack("!H", ethertype) + header + struct.pack("!HHHH", 4000, port, 8, 0)


def passes(data: bytes) -> bool:
    """Classic BPF, as far as the program uses it."""
    program, place, held = watch_exits.program(LAB), 0, 0
    while True:
        code, jump_true, jump_false, value = program[place]
        place += 1
        if code == watch_exits.RETURN:
            return value > 0
        if code == watch_exits.LOAD_HALF:
            held = struct.unpack_from("!H", data, value)[0]
        elif code == watch_exits.LOAD_WORD:
            held = struct.unpack_from("!I", data, value)[0]
        elif code == watch_exits.AND:
            held &= value
        elif code == watch_exits.EQUAL:
            place += jump_true if held == value else jump_false
        elif code == watch_exits.AT_LEAST:
            place += jump_true if held >= value else jump_false


@pytest.mark.parametrize("inside", ["172.31.240.12", "172.31.241.1", "224.0.0.251", "255.255.255.255"])
def test_what_stays_in_the_lab_is_not_told(inside: str) -> None:
    assert not passes(frame(inside))


@pytest.mark.parametrize("outside", ["8.8.8.8", "172.31.241.128", "172.31.239.1", "10.0.0.1", "0.0.0.1"])
def test_what_wants_to_leave_is(outside: str) -> None:
    assert passes(frame(outside))
    assert watch_exits.describe(frame(outside)) == f"172.31.240.11 {outside} udp 53"
    assert not passes(frame(outside, ethertype=0x0806))


def test_protocols_have_names() -> None:
    assert watch_exits.describe(frame("8.8.8.8", protocol=6, port=443)).endswith("8.8.8.8 tcp 443")
    assert watch_exits.describe(frame("8.8.8.8", protocol=1)).endswith("8.8.8.8 icmp 0")
