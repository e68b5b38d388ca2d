# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the gateway of this host: whether it is alive, how its replicas are, whether one is drained, and for a token as a client would."""

import argparse
import csv
import http.client
import json
import re
import socket
import ssl
import sys

ADMIN = "/run/llm-gateway/admin.sock"
LOOPBACK = "127.0.0.1"
SECONDS, SECONDS_ALIVE = 10, 6
# What HAProxy calls a server that gets nothing new: its check said 404, somebody said so by hand, or it is away.
DRAINED = ("NOLB", "DRAIN", "DOWN", "MAINT")
ASKED = ("address", "port", "name", "model", "certificate")
# Of ssl, where Python knows it (3.10): a certificate that is named itself needs no root.
PARTIAL_CHAIN = 0x80000
# What engines call the requests that they compute, and those that wait.
REQUESTS = re.compile(
    r"^[a-z]+:(?:(?:num_)?requests_(?:running|waiting|processing|deferred)|num_(?:running|queue)_reqs)(?:\{[^}]*\})? ([0-9.e+]+)$",
    re.MULTILINE,
)


def command(line, admin=ADMIN):
    """What HAProxy answers on its socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(SECONDS)
        connection.connect(admin)
        connection.sendall(line.encode() + b"\n")
        parts = iter(lambda: connection.recv(1 << 16), b"")
        return b"".join(parts).decode()


def replicas(text):
    """The servers of models in `show stat`, which is CSV with a first line of names. The page for people is none."""
    rows = csv.DictReader(text.lstrip("# ").splitlines())
    return [
        {
            "model": row["pxname"],
            "replica": row["svname"],
            "status": row["status"],
            "requests": int(row["scur"] or 0),
            "waiting": int(row["qcur"] or 0),
            "address": row["addr"],
            "check": row["check_status"],
        }
        for row in rows
        if row["svname"] not in ("FRONTEND", "BACKEND") and row["addr"] and row["pxname"] != "web_ui"
    ]


def outstanding(address):
    """Requests that a replica computes or keeps waiting, by its own count; None if it does not say."""
    connection = http.client.HTTPConnection(address, timeout=SECONDS)
    try:
        connection.request("GET", "/metrics")
        counts = REQUESTS.findall(connection.getresponse().read().decode(errors="replace"))
        return sum(float(count) for count in counts) if counts else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def is_drained(name, found, count=outstanding):
    """Whether a replica gets nothing new and has ended what it had begun, also for a gateway that was reloaded meanwhile."""
    mine = [each for each in found if each["replica"] == name]
    quiet = all(each["status"].split(" ")[0] in DRAINED and not each["requests"] for each in mine)
    return bool(mine) and quiet and not any(count(each["address"]) for each in mine)


def bare(address):
    """An address without the brackets of IPv6."""
    return address.replace("[", "").replace("]", "")


def is_back(name, found, at=""):
    """Whether a replica gets requests again. With ``at``, where its server is, also one whose requests still go elsewhere: nothing is to come back there."""
    mine = [each for each in found if each["replica"] == name]
    if at and mine and all(bare(each["address"]) != bare(at) for each in mine):
        return True
    return bool(mine) and all(each["status"].split(" ")[0] == "UP" for each in mine)


def others(name, found):
    """The other replicas of its model that get requests."""
    models = {each["model"] for each in found if each["replica"] == name}
    mates = {each["replica"] for each in found if each["model"] in models} - {name}
    return sorted(mate for mate in mates if is_back(mate, found))


# What is asked of a model, by what it answers with.
QUESTIONS = {
    "token": ("/v1/completions", {"prompt": "Hello", "max_tokens": 1}),
    "embedding": ("/v1/embeddings", {"input": "Hello"}),
    "score": ("/v1/score", {"text_1": "Hello", "text_2": "Hello"}),
}


def ask(address, port, name, model, certificate, key, kind="token"):
    """One token, or what the model answers with, through TLS, from the gateway at an address, by a name that its certificate is for."""
    path, question = QUESTIONS[kind]
    context = ssl.create_default_context(cafile=certificate)
    context.verify_flags |= PARTIAL_CHAIN
    raw = socket.create_connection((address, port), SECONDS)
    with context.wrap_socket(raw, server_hostname=name) as connection:
        asking = http.client.HTTPSConnection(name, timeout=SECONDS * 6)
        asking.sock = connection
        body = json.dumps(dict(question, model=model))
        headers = {"Authorization": "Bearer " + key, "Content-Type": "application/json"}
        asking.request("POST", path, body, headers)
        response = asking.getresponse()
        said = response.read().decode(errors="replace")
    if response.status != 200:
        raise ValueError("{0} {1}".format(response.status, said))
    answer = json.loads(said)
    return answer["usage"]["completion_tokens"] if kind == "token" else len(answer["data"])


def alive(port):
    """Whether HAProxy answers on this host, as it would a client; for keepalived, which has to know soon."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # it asks itself
    asking = http.client.HTTPSConnection(LOOPBACK, port, timeout=SECONDS_ALIVE, context=context)
    try:
        asking.request("GET", "/health")
        return asking.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        asking.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("status", help="print the replicas as JSON")
    commands.add_parser("save", help="keep what is known of them over a reload").add_argument("path")
    commands.add_parser("drained", help="fail unless this replica is drained").add_argument("replica")
    commands.add_parser("others", help="print as JSON who answers in place of this replica").add_argument("replica")
    asking = commands.add_parser("back", help="fail unless this replica gets requests")
    asking.add_argument("replica")
    asking.add_argument("--at", default="", help="where its server is, as ADDRESS:PORT")
    commands.add_parser("alive", help="fail unless it answers on this host").add_argument("port", type=int)
    asking = commands.add_parser("ask", help="ask for a token")
    asking.add_argument("address", help="on which it listens")
    asking.add_argument("port", type=int)
    asking.add_argument("name", help="by which clients know it")
    asking.add_argument("model")
    asking.add_argument("certificate", help="file with the gateway's own")
    asking.add_argument("key", help="file with the key to ask with")
    asking.add_argument("--kind", choices=sorted(QUESTIONS), default="token", help="what the model answers with")
    options = parser.parse_args()
    if options.command == "ask":
        with open(options.key) as stream:
            key = stream.readline().strip()
        print(ask(*(getattr(options, name) for name in ASKED), key, options.kind))
        return 0
    if options.command == "alive":
        return 0 if alive(options.port) else 1
    if options.command == "save":
        with open(options.path, "w") as stream:
            stream.write(command("show servers state"))
        return 0
    if options.command == "others":
        try:
            print(json.dumps(others(options.replica, replicas(command("show stat")))))
        except OSError:  # no gateway runs here
            print("[]")
        return 0
    found = replicas(command("show stat"))
    print(json.dumps(found, indent=1))
    if options.command == "drained":
        return 0 if is_drained(options.replica, found) else 1
    if options.command == "back":
        return 0 if is_back(options.replica, found, options.at) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
