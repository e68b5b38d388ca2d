# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets in the hosts that send their journals, by TLS with a certificate on both sides, and passes on what they send to systemd-journal-remote on the
loopback interface. That program asks for no certificate itself as Debian builds it: there it logs "Certificate checking disabled".

    llm-journal-gate.py --listen ADDRESS:PORT --to PORT --folder FOLDER --state FILE --senders NAME ...

FOLDER has authority.pem, host.pem and host.key. FILE tells when each of the senders last sent something, in seconds since 1970; of one that never has, since
when it is waited for. Python 3.8 with nothing but the standard library.
"""

import argparse
import asyncio
import contextlib
import json
import os
import socket
import ssl
import time

LOOPBACK = "127.0.0.1"
# What comes all the time is not written all the time.
WRITE_SECONDS = 5
# Where the program behind takes a connection and ends it at once, what a host says on one after the other arrives nowhere.
SETTLED_SECONDS = 10


class Senders:
    """When each host last sent something, kept in a file."""

    def __init__(self, path, names):
        self.path, self.written = path, 0
        try:
            with open(path) as stream:
                before = json.load(stream)
        except (OSError, ValueError, RecursionError):
            before = {}
        now = time.time()
        before = before if isinstance(before, dict) else {}
        self.last = {name: at if isinstance(at := before.get(name), (int, float)) else now for name in names}
        self.write(now)

    def sent(self, name):
        now = time.time()
        if name in self.last:
            self.last[name] = now
        # A clock that was set back
        if not 0 <= now - self.written < WRITE_SECONDS:
            self.write(now)

    def write(self, now):
        self.written = now
        # The folder may be another user's, who does not know the name that it is written under.
        incoming = "{0}.{1}.new".format(self.path, os.urandom(8).hex())
        with open(incoming, "x") as stream:
            json.dump(self.last, stream)
            os.fchmod(stream.fileno(), 0o644)
        os.replace(incoming, self.path)


def context(folder):
    """Only who has a certificate of the authority is let in."""
    found = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=os.path.join(folder, "authority.pem"))
    found.minimum_version = ssl.TLSVersion.TLSv1_2
    found.verify_mode = ssl.CERT_REQUIRED
    found.load_cert_chain(os.path.join(folder, "host.pem"), os.path.join(folder, "host.key"))
    return found


def name_of(writer):
    """Whose certificate it is."""
    subject = dict(pair for entry in writer.get_extra_info("peercert")["subject"] for pair in entry)
    return subject.get("commonName", "")


async def pass_on(reader, writer, note=None):
    while True:
        data = await reader.read(65536)
        if not data:
            return
        if note:
            note()
        writer.write(data)
        await writer.drain()


async def serve(reader, writer, port, senders):
    """One connection, until either side ends it."""
    name = name_of(writer)
    print("{} sends its journal".format(name), flush=True)
    # A host that has lost its power says nothing.
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    ways, inner = [], None
    began = time.monotonic()

    def note():
        if time.monotonic() - began >= SETTLED_SECONDS:
            senders.sent(name)

    try:
        inner_reader, inner = await asyncio.open_connection(LOOPBACK, port)
        ways = [
            asyncio.ensure_future(pass_on(reader, inner, note)),
            asyncio.ensure_future(pass_on(inner_reader, writer)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    except OSError as error:
        print("port {}: {}".format(port, error), flush=True)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for each in filter(None, (inner, writer)):
            with contextlib.suppress(OSError, RuntimeError):
                each.close()


async def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", required=True)
    parser.add_argument("--to", required=True, type=int)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--state", required=True)
    parser.add_argument("--senders", nargs="*", default=[])
    asked = parser.parse_args()
    senders = Senders(asked.state, asked.senders)
    address, _colon, port = asked.listen.rpartition(":")

    async def accept(reader, writer):
        await serve(reader, writer, asked.to, senders)

    server = await asyncio.start_server(accept, address.strip("[]") or None, int(port), ssl=context(asked.folder))
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
