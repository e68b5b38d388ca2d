# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts what each key of the gateway costs in tokens, and stops keys that are over their limit of a minute.

The replicas count (/usage of the server's middleware); each has processes, which begin at 0. Here the differences between two looks are added
up: in a state file, in a CSV for each month, and in a file for node_exporter where there is a folder of it. HAProxy refuses the keys that
stand in its map "spent.map", which is written through its socket.
"""

import argparse
import collections
import concurrent.futures
import csv
import http.client
import io
import itertools
import json
import os
import re
import socket
import sys
import time

KINDS = ("requests", "prompt_tokens", "completion_tokens", "estimated")
TOKENS = ("prompt_tokens", "completion_tokens")
MINUTE, SECONDS = 60, 3
STATE = "usage.json"
# Names of keys, the gateway's own and that of the page included; what is none stands in no command for HAProxy.
KEY = re.compile(r"-?[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z")
MONTH = re.compile(r"\d{4}-\d{2}\Z")
# An answer that is longer is none of a replica.
ANSWER_BYTES = 1 << 24
# Of a replica the processes that are remembered: the last ones that answered.
PROCESSES = 32
HELP = "Requests and tokens of each key since counting began; estimated are answers that did not state their tokens"


def is_count(value):
    """Whether a value counts something: a whole number that is not below 0, and not longer than 18 digits."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**18


def counted(keys):
    """What of a replica's words can be counted: by key, each kind that is a count. What is anything else is left out."""
    found = {}
    for key, counts in keys.items() if isinstance(keys, dict) else ():
        if isinstance(counts, dict) and KEY.match(key):
            found[key] = {kind: counts[kind] for kind in KINDS if is_count(counts.get(kind))}
    return found


def known_processes(value):
    """What a state says of the processes of each replica, as far as it has the form that this program gives it."""
    replicas = value.items() if isinstance(value, dict) else ()
    return {
        replica: {process: counted(keys) for process, keys in processes.items() if isinstance(keys, dict)}
        for replica, processes in replicas
        if isinstance(processes, dict)
    }


def known_months(value):
    """What a state says of the months, by month, key and model: every kind of count."""
    found = {}
    for month, keys in value.items() if isinstance(value, dict) else ():
        if not MONTH.match(month) or not isinstance(keys, dict):
            continue
        for key, models in keys.items():
            for model, counts in models.items() if isinstance(models, dict) and KEY.match(key) else ():
                if isinstance(counts, dict):
                    mine = {kind: counts[kind] if is_count(counts.get(kind)) else 0 for kind in KINDS}
                    found.setdefault(month, {}).setdefault(key, {})[model] = mine
    return found


def known_recent(value):
    """What a state says of the last minute: when which key used how many tokens."""
    rows = value if isinstance(value, list) else ()
    return [
        (row[0], row[1], row[2])
        for row in rows
        if isinstance(row, list)
        and len(row) == 3
        and isinstance(row[0], (int, float))
        and isinstance(row[1], str)
        and is_count(row[2])
    ]


class Usage:
    """What is known. ``state`` is what a later process of this program has to know as well: of one that is damaged it takes what it can read."""

    def __init__(self, state):
        state = state if isinstance(state, dict) else {}
        self.processes = known_processes(state.get("processes"))
        self.months = known_months(state.get("months"))
        # When which key used how many tokens: what a limit looks at.
        self.recent = collections.deque(known_recent(state.get("recent")))

    def state(self):
        return {"processes": self.processes, "months": self.months, "recent": list(self.recent)}

    def add(self, replica, model, said, now):
        """Take over what a process of a replica says. True if that was anything new."""
        known = self.processes.setdefault(replica, {})
        process = str(said["process"])
        first = process not in known
        before = known.pop(process, {})
        keys = counted(said["keys"])
        known[process] = keys
        for old in list(known)[:-PROCESSES]:
            del known[old]
        changed = first
        for key, counts in keys.items():
            past = before.get(key) or {}
            more = {kind: max(0, counts.get(kind, 0) - past.get(kind, 0)) for kind in KINDS}
            if not any(more.values()):
                continue
            changed = True
            month = self.months.setdefault(time.strftime("%Y-%m", time.gmtime(now)), {})
            mine = month.setdefault(key, {}).setdefault(model, dict.fromkeys(KINDS, 0))
            for kind in KINDS:
                mine[kind] += more[kind]
            # What a process did before it was first seen may be long ago.
            if not first:
                self.recent.append((now, key, sum(more[kind] for kind in TOKENS)))
        return changed

    def spent(self, limits, now):
        """The keys that used up their tokens of the last minute. A limit of 0 is none."""
        while self.recent and self.recent[0][0] <= now - MINUTE:
            self.recent.popleft()
        used = collections.Counter()
        for _at, key, count in self.recent:
            used[key] += count
        return {key for key, limit in limits.items() if 0 < limit <= used[key]}

    def rows(self, month):
        """The lines of a month: key, model and the counts."""
        found = self.months.get(month) or {}
        return [
            dict(found[key][model], month=month, key=key, model=model)
            for key in sorted(found)
            for model in sorted(found[key])
        ]

    def metrics(self):
        """All months together, as node_exporter reads them."""
        totals = collections.Counter()
        for month in self.months:
            for row in self.rows(month):
                for kind in KINDS:
                    totals[kind, row["key"], row["model"]] += row[kind]
        lines = ["# HELP llm_gateway_usage_total " + HELP, "# TYPE llm_gateway_usage_total counter"]
        for (kind, key, model), count in sorted(totals.items()):
            lines.append(
                'llm_gateway_usage_total{{key="{0}",model="{1}",kind="{2}"}} {3}'.format(key, model, kind, count)
            )
        return "\n".join(lines) + "\n"


def table(rows):
    """CSV with a line of names."""
    text = io.StringIO()
    writer = csv.DictWriter(text, ("month", "key", "model", *KINDS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def keep(path, text):
    """Write so that nobody reads half of it. The folder may be another user's, who does not know the name that it is written under."""
    incoming = "{0}.{1}.new".format(path, os.urandom(8).hex())
    with open(incoming, "x") as stream:
        stream.write(text)
        os.fchmod(stream.fileno(), 0o644)
    os.replace(incoming, path)


def read(path):
    try:
        with open(path) as stream:
            return json.load(stream)
    except (OSError, ValueError, RecursionError):
        return {}


def key_of(path):
    """What opens the replicas: another one from one look to the next, where it was changed. Empty where it cannot be read."""
    try:
        with open(path) as stream:
            return [*stream.read().split(), "", ""][1]
    except (OSError, ValueError):
        return ""


def keep_all(usage, asked, now):
    """All that others read. False where it could not be written: it is tried again at the next look."""
    month = time.strftime("%Y-%m", time.gmtime(now))
    try:
        keep(os.path.join(asked["folder"], "usage-" + month + ".csv"), table(usage.rows(month)))
        keep(os.path.join(asked["folder"], STATE), json.dumps(usage.state()))
        if os.path.isdir(asked["textfile_folder"]):
            keep(os.path.join(asked["textfile_folder"], "llm_gateway.prom"), usage.metrics())
    except OSError as error:
        print("What was counted is not written: {0}".format(error), file=sys.stderr, flush=True)
        return False
    return True


def ask(replica, key):
    """A replica, and what it says at /usage; None where it says nothing that can be counted."""
    connection = http.client.HTTPConnection(replica["address"], replica["port"], timeout=SECONDS)
    try:
        connection.request("GET", "/usage", headers={"Authorization": "Bearer " + key})
        response = connection.getresponse()
        said = json.loads(response.read(ANSWER_BYTES).decode(errors="replace"))
        good = response.status == 200 and isinstance(said["process"], str) and isinstance(said["keys"], dict)
        return replica, said if good else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError, http.client.HTTPException):
        return replica, None
    finally:
        connection.close()


def command(line, admin):
    """What HAProxy answers on its socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(SECONDS)
        connection.connect(admin)
        connection.sendall(line.encode() + b"\n")
        parts = iter(lambda: connection.recv(1 << 16), b"")
        return b"".join(parts).decode()


def tell(spent, path, admin):
    """Bring HAProxy's map to hold these keys and no others. After a reload it is empty, so it is asked each time.

    Last it says that it has looked: a gateway that has not heard that for a while lets no key with a limit of tokens in."""
    held = {line.split()[1] for line in command("show map " + path, admin).splitlines() if len(line.split()) == 3}
    for key in sorted(spent - held):
        command("add map {0} {1} 1".format(path, key), admin)
    for key in sorted(held - spent):
        command("del map {0} {1}".format(path, key), admin)
    command("set table counting key counted data.gpt0 1", admin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, help="JSON: replicas, limits of keys, the folders and files")
    parser.add_argument("--once", action="store_true", help="look once, and end")
    options = parser.parse_args()
    with open(options.config) as stream:
        asked = json.load(stream)
    usage = Usage(read(os.path.join(asked["folder"], STATE)))
    replicas, kept = asked["replicas"], True
    with concurrent.futures.ThreadPoolExecutor(max(1, len(replicas))) as pool:
        while True:
            now = time.time()
            answers = list(pool.map(ask, replicas, itertools.repeat(key_of(asked["key_file"]))))
            news = [
                usage.add(replica["name"], replica["model"], said, now) for replica, said in answers if said is not None
            ]
            # First, so that a disk that is full opens no limit.
            try:
                tell(usage.spent(asked["limits"], time.time()), asked["spent_map"], asked["admin"])
            except OSError as error:
                # It is being restarted, or is not there.
                print("HAProxy does not answer: {0}".format(error), file=sys.stderr, flush=True)
            if any(news) or not kept:
                kept = keep_all(usage, asked, now)
            if options.once:
                return 0
            time.sleep(asked["seconds"])


if __name__ == "__main__":
    sys.exit(main())
