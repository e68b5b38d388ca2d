# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the model of this host for one token and restarts what is dead. systemd runs it every few seconds, on the head.

A container that ended is the engine's business (restart policy), one that somebody stopped is left alone, and a start is given
the time that it needs: the weights' bytes on disk by the rate at which this host has been seen to read. Only what has failed several
times in a row, without having computed anything in between, is restarted. What it found goes to the journal and a state file.
"""

import argparse
import glob
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

# How much of the weights is read to measure the disk, and what a start takes besides reading: imports, graphs, warm-up.
SAMPLE_BYTES = 256 << 20
BASE_SECONDS = 300
# Of the measured rate, which is one reader on an idle disk, this part is counted on.
RATE_SHARE = 0.5
# How many times as long a start may take before it is judged dead. vLLM gives up by itself after 600 s without progress
# (VLLM_ENGINE_READY_TIMEOUT_S in vllm/envs.py); the probe is for what does not even do that.
PATIENCE = 2
# What failed is asked again soon, not at the next time of the timer.
AGAIN_SECONDS = 5
# How long the counters of what was computed may take to come.
COUNTERS_SECONDS = 5
# In /proc/net/tcp: include/net/tcp_states.h of Linux.
ESTABLISHED = "01"
COUNTERS = re.compile(r"^vllm:(?:prompt|generation)_tokens_total(?:\{[^}]*\})? ([0-9.e+]+)$", re.MULTILINE)


def measured_rate(folder, sample_bytes=SAMPLE_BYTES):
    """Bytes a second at which the largest file of a folder is read from its disk, not from memory."""
    sizes = {path: os.path.getsize(path) for path in glob.glob(os.path.join(folder, "*")) if os.path.isfile(path)}
    if not sizes:
        return None
    descriptor = os.open(max(sizes, key=sizes.get), os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        started, done = time.monotonic(), 0
        while done < sample_bytes:
            chunk = os.read(descriptor, 4 << 20)
            if not chunk:
                break
            done += len(chunk)
        return done / max(time.monotonic() - started, 1e-6) if done else None
    finally:
        os.close(descriptor)


def start_seconds(folder, rate):
    """How long a start should take at most."""
    size = sum(os.path.getsize(path) for path in glob.glob(os.path.join(folder, "*")) if os.path.isfile(path))
    return BASE_SECONDS + (size / (rate * RATE_SHARE) if rate else 0)


def decide(state, seen, now, failures_allowed):
    """What to do, and the new state. Pure: the tests call it with made-up states.

    ``seen``: container (its start as text, "" if it does not run), phase (waiting or starting), phase_since, answer (token, busy or
    none), computed (tokens since it runs), detail, grace. Returns the action (none or restart), a line for the journal, and the state to keep.
    """
    state = dict(state)
    if state.get("container") != seen["container"]:
        state.update(container=seen["container"], served=False, failures=0)
    if not seen["container"]:
        return "none", "stopped: the container does not run; the engine or an operator has to start it", state
    if seen["answer"] == "token":
        line = "serving" if state["served"] else "serving, {0:.0f} s after the start".format(now - seen["phase_since"])
        state.update(served=True, failures=0, restarts=0)
        return "none", line, state
    if seen["answer"] == "busy":
        state.update(failures=0)
        return "none", "busy: no token for the probe, but others were computed", state
    if seen["computed"]:
        state["served"] = True  # somebody else's tokens, before this one looked
    if not state["served"] and seen["phase"] == "waiting":
        state["waited_until"] = now
        return "none", "waiting: hosts of the plan, or GPUs of theirs, are missing", state
    # Without Ray the start goes on inside of vLLM when the last host comes.
    age = now - max(seen["phase_since"], state.get("waited_until", 0))
    if not state["served"] and age < seen["grace"]:
        return "none", "loading: {0:.0f} s of at most {1:.0f} s".format(age, seen["grace"]), state
    state["failures"] = state.get("failures", 0) + 1
    line = "failed {0} of {1}: {2}".format(state["failures"], failures_allowed, seen["detail"])
    if state["failures"] < failures_allowed:
        return "none", line, state
    state.update(failures=0, restarts=state.get("restarts", 0) + 1)
    return "restart", line, state


def ask(url, model, key, timeout):
    """One token. Returns what came and a word about it."""
    body = json.dumps({"model": model, "prompt": "Hello", "max_tokens": 1, "temperature": 0}).encode()
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = "Bearer " + key
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url + "/v1/completions", body, headers), timeout=timeout
        ) as response:
            if json.load(response)["usage"]["completion_tokens"] > 0:
                return "token", ""
            return "none", "an answer without a token"
    except urllib.error.HTTPError as error:
        return "none", "{0} answered {1}".format(url, error.code)
    except (OSError, ValueError, KeyError) as error:
        return "none", "{0}: {1}".format(url, error)


def computed(url, timeout):
    """Tokens that the engine has computed so far; null if it does not say."""
    try:
        with urllib.request.urlopen(url + "/metrics", timeout=timeout) as response:
            found = COUNTERS.findall(response.read().decode(errors="replace"))
    except (OSError, ValueError):
        return None
    return sum(float(value) for value in found) if found else None


def connected(port, folder="/proc/net"):
    """How many other hosts have a connection to this port."""
    others = set()
    for name in ("tcp", "tcp6"):
        for line in read(os.path.join(folder, name)).splitlines()[1:]:
            cells = line.split()
            local, own_port = cells[1].split(":")
            remote = cells[2].split(":")[0]
            if int(own_port, 16) == port and cells[3] == ESTABLISHED and remote != local:
                others.add(remote)
    return len(others)


def docker(*arguments):
    """Output of a docker command; empty if it fails."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def read(path):
    try:
        with open(path) as stream:
            return stream.read()
    except OSError:
        return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", required=True, help="folder of the model")
    parser.add_argument("--state", required=True, help="file")
    parser.add_argument(
        "--tell-start", action="store_true", help="print how many seconds a start should take at most, and end"
    )
    parser.add_argument("--start-seconds", type=float, help="instead of the computed time")
    parser.add_argument("--url")
    parser.add_argument("--model")
    parser.add_argument("--key", help="file")
    parser.add_argument("--phase", help="file that the server's container writes")
    parser.add_argument("--followers", type=int, default=0, help="other hosts that take part without Ray")
    parser.add_argument("--meeting-port", type=int, help="where they are connected while they do")
    parser.add_argument("--failures", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=30)
    parser.add_argument("--below", help="container below the server's, restarted with it when that alone did not help")
    options = parser.parse_args()
    try:
        state = json.loads(read(options.state) or "{}")
    except ValueError:
        state = {}
    if not state.get("bytes_per_second"):
        state["bytes_per_second"] = measured_rate(options.weights)
    start = options.start_seconds or start_seconds(options.weights, state["bytes_per_second"])
    if options.tell_start:
        keep(options.state, state)
        print(int(start + 1))
        return 0
    while True:
        action, line, state = decide(state, look(options, start * PATIENCE), time.time(), options.failures)
        kind = re.split("[:,]", line)[0]
        if kind != state.get("kind") or kind.startswith("failed"):
            print(line, flush=True)
        state.update(checked=time.time(), said=line, kind=kind)
        keep(options.state, state)
        if action == "restart":
            restart(options, state)
        if action == "restart" or not kind.startswith("failed"):
            return 0
        time.sleep(AGAIN_SECONDS)


def look(options, grace):
    """What `decide` has to know."""
    container = docker("inspect", "--format", "{{if .State.Running}}{{.State.StartedAt}}{{end}}", "llm-vllm")
    before = computed(options.url, COUNTERS_SECONDS)
    answer, detail = ask(options.url, options.model, read(options.key).strip() if options.key else "", options.timeout)
    tokens = computed(options.url, COUNTERS_SECONDS)
    if answer == "none" and before is not None and (tokens or 0) > before:
        answer = "busy"
    here = not options.followers or connected(options.meeting_port) >= options.followers
    return {
        "container": container,
        "phase": read(options.phase).strip() if here else "waiting",
        "phase_since": os.path.getmtime(options.phase) if os.path.exists(options.phase) else time.time(),
        "answer": answer,
        "computed": tokens or 0,
        "detail": detail,
        "grace": grace,
    }


def restart(options, state):
    """The server; every second time in a row what lies below, too."""
    names = ["llm-vllm"] if not options.below or state["restarts"] % 2 else [options.below, "llm-vllm"]
    print("restarting {0}".format(" and ".join(names)), flush=True)
    subprocess.run(["docker", "restart", *names], check=True, stdout=subprocess.DEVNULL)


def keep(path, state):
    """Write the state so that a reader never sees half of it."""
    with open(path + ".new", "w") as stream:
        json.dump(state, stream, indent=1)
    os.replace(path + ".new", path)


if __name__ == "__main__":
    sys.exit(main())
