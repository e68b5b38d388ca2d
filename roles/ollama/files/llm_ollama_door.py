# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs HAProxy in front of Ollama, as the only task of a unit, tells it of another key, and lets Ollama load its model.

usage: llm_ollama_door.py HAPROXY CONFIG PORT MODEL [DIGESTS KEY]

Ollama, on PORT of 127.0.0.1, loads a model when somebody asks for it, and gives up when who asked goes away before it is there (WaitUntilRunning in
llm/llama_server.go). A client or a probe that waits for less than that would never see an answer. So this program asks first, and waits as long as it takes;
HAProxy lets nobody through before.

KEY is the file of the API key. Beside it may lie that of gateways (KEY.gateway) and former keys (KEY.previous), one a line. DIGESTS is where HAProxy reads the
SHA-256 of each, so that no key is in its memory. The files are looked at each second. While KEY cannot be read or holds no key, what was known last stands;
at the start there is nothing known, and the program ends: without a key the API would be open to everybody. Without DIGESTS and KEY nobody is asked for one.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

LOOK_SECONDS = 1.0
# From one look at the loaded models to the next, and how long an answer to that may take.
LOAD_SECONDS, ANSWER_SECONDS = 2.0, 10
# Visible characters of ASCII, as the check of the inventory lets keys through.
_KEY = re.compile(rb"[!-~]+")


def lines_of(path):
    """The keys in a file; none where it cannot be read."""
    try:
        with open(path, "rb") as stream:
            return [line.strip() for line in stream if _KEY.fullmatch(line.strip())]
    except OSError:
        return []


def digests(key_file):
    """The content of the file of digests; empty where the first file holds no key."""
    keys = lines_of(key_file)
    if not keys:
        return ""
    keys += lines_of(key_file + ".gateway") + lines_of(key_file + ".previous")
    found = dict.fromkeys(hashlib.sha256(key).hexdigest().upper() for key in keys)
    return "".join(digest + "\n" for digest in found)


def write(path, text):
    incoming = path + ".new"
    with os.fdopen(os.open(incoming, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        stream.write(text)
    os.replace(incoming, path)


def asked(port, method, path, body=None, seconds=None):
    """What Ollama answers, as JSON. OSError or ValueError where it does not, or says that it cannot."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
        if answer.status != 200:
            raise ValueError("{0} {1}: {2}".format(path, answer.status, text[:300]))
        return json.loads(text)
    except (http.client.HTTPException, RecursionError) as error:
        raise ValueError("{0}: {1!r}".format(path, error)) from error
    finally:
        connection.close()


def keep_loaded(port, model):
    """Ask for the model without a prompt, which loads it, whenever Ollama has none. It says why it cannot once, until that changes."""
    said = ""
    while True:
        try:
            if not asked(port, "GET", "/api/ps", seconds=ANSWER_SECONDS).get("models"):
                asked(port, "POST", "/api/generate", json.dumps({"model": model, "stream": False}))
                print("loaded {0}".format(model), flush=True)
            why = ""
        except (OSError, ValueError, AttributeError) as error:
            why = str(error)
        if why and why != said:
            print("not loaded: {0}".format(why), file=sys.stderr, flush=True)
        said = why
        time.sleep(LOAD_SECONDS)


def main(words):
    """Returns HAProxy's exit status, or 1 where there is no key."""
    haproxy, config, port, model = words[:4]
    places = words[4:]
    known = digests(places[1]) if places else ""
    if places:
        if not known:
            print(
                "error: {0} holds no key; without one the API would be open to everybody".format(places[1]),
                file=sys.stderr,
            )
            return 1
        write(places[0], known)
    process = subprocess.Popen([haproxy, "-W", "-f", config])
    signal.signal(signal.SIGTERM, lambda *_more: process.terminate())
    threading.Thread(target=keep_loaded, args=(int(port), model), daemon=True).start()
    while True:
        try:
            return process.wait(LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        found = digests(places[1]) if places else ""
        if found and found != known:
            write(places[0], found)
            known = found
            # The master process reads everything again, and lets the former one end what it has begun.
            process.send_signal(signal.SIGUSR2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
