# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets in the hosts that send their journals, by TLS with a certificate on both sides, and passes on what they send to systemd-journal-remote on the
loopback interface. That program asks for no certificate itself as Debian builds it: there it logs "Certificate checking disabled".

    llm-journal-gate.py --listen ADDRESS:PORT --to PORT --folder FOLDER

FOLDER has authority.pem, host.pem and host.key. Python 3.8 with nothing but the standard library.
"""

import argparse
import asyncio
import contextlib
import os
import socket
import ssl

LOOPBACK = "127.0.0.1"


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


async def pass_on(reader, writer):
    while True:
        data = await reader.read(65536)
        if not data:
            return
        writer.write(data)
        await writer.drain()


async def serve(reader, writer, port):
    """One connection, until either side ends it."""
    print("{} sends its journal".format(name_of(writer)), flush=True)
    # A host that has lost its power says nothing.
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    ways, inner = [], None
    try:
        inner_reader, inner = await asyncio.open_connection(LOOPBACK, port)
        ways = [asyncio.ensure_future(pass_on(reader, inner)), asyncio.ensure_future(pass_on(inner_reader, writer))]
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
    asked = parser.parse_args()
    address, _colon, port = asked.listen.rpartition(":")

    async def accept(reader, writer):
        await serve(reader, writer, asked.to)

    server = await asyncio.start_server(accept, address.strip("[]") or None, int(port), ssl=context(asked.folder))
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
