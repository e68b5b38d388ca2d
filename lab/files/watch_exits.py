# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in a container beside the hosts, in this machine's network: says which host sent what to somewhere outside of the lab.

usage: watch_exits.py BRIDGE... -- NETWORK...

Nothing has to be refused for that: the lab's networks have no way out. The kernel filters, so that the lab's own traffic costs nothing.
"""

from __future__ import annotations

import ctypes
import ipaddress
import select
import socket
import struct
import sys

ETH_P_ALL, SO_ATTACH_FILTER = 0x0003, 26
LOAD_HALF, LOAD_WORD, AND, EQUAL, AT_LEAST, RETURN = 0x28, 0x20, 0x54, 0x15, 0x35, 0x06
IPV4, ETHERTYPE, DESTINATION, MULTICAST = 0x0800, 12, 30, 0xE0000000


def program(networks: list[ipaddress.IPv4Network]) -> list[tuple[int, ...]]:
    """Classic BPF: IPv4 to a single address that is in none of the networks. IPv6 has no addresses here but link-local ones."""
    checks: list[tuple[int | None, ...]] = [
        (LOAD_HALF, 0, 0, ETHERTYPE),
        (EQUAL, 0, None, IPV4),
        (LOAD_WORD, 0, 0, DESTINATION),
    ]
    checks.append((AT_LEAST, None, 0, MULTICAST))
    for network in networks:
        checks.append((LOAD_WORD, 0, 0, DESTINATION))
        checks.append((AND, 0, 0, int(network.netmask)))
        checks.append((EQUAL, None, 0, int(network.network_address)))
    checks += [(RETURN, 0, 0, 0x40000), (RETURN, 0, 0, 0)]
    # A jump that is still open leads to the last instruction, which drops the packet.
    last = len(checks) - 1
    return [
        tuple(last - place - 1 if cell is None else cell for cell in instruction)
        for place, instruction in enumerate(checks)
    ]


def attach(sock: socket.socket, instructions: list[tuple[int, ...]]) -> None:
    """Let the kernel drop what the program does not want."""
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(code)
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", len(instructions), ctypes.addressof(buffer)))


def describe(frame: bytes) -> str:
    """source, destination, protocol and port of an IPv4 packet in an Ethernet frame."""
    packet = frame[14:]
    header = (packet[0] & 15) * 4
    source, target = (socket.inet_ntoa(packet[start : start + 4]) for start in (12, 16))
    name = {1: "icmp", 6: "tcp", 17: "udp"}.get(packet[9], str(packet[9]))
    port = struct.unpack("!H", packet[header + 2 : header + 4])[0] if name in ("tcp", "udp") else 0
    return f"{source} {target} {name} {port}"


def main() -> None:
    cut = sys.argv.index("--")
    bridges, networks = sys.argv[1:cut], [ipaddress.IPv4Network(text) for text in sys.argv[cut + 1 :]]
    sockets = []
    for bridge in bridges:
        # Without a protocol it hears nothing yet; with one it would hear all bridges until it is bound to this one.
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        attach(sock, program(networks))
        sock.bind((bridge, ETH_P_ALL))
        sockets.append(sock)
    print("watching", *bridges, flush=True)
    while True:
        for sock in select.select(sockets, [], [])[0]:
            frame, address = sock.recvfrom(2048)
            if address[2] != socket.PACKET_OUTGOING:  # what this machine sends into the lab is no exit
                print(describe(frame), flush=True)


if __name__ == "__main__":
    main()
