# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Restarts what is dead on this host, and nothing else. systemd runs it every few seconds.

On the head it asks the model for one token, and `decide` says what to do with the server; on every host of the deployment `watch` says the same of
the container, or the unit of systemd, that takes part in the cluster. Both are pure: what was seen goes in, with the state that they returned last,
and an action comes out.

A container that the engine gave up at boot, because a device or a folder was not there yet, is started: no restart policy does that (exit status 128).

What counts as alive: a generated token, an answer below 500 that is no token (a rotated key, a renamed model), or counters of the engine that
moved since the last look. Time is counted on the boot-time clock, look by look, so that neither a clock that jumps nor a host that slept
makes a silence longer than it was seen to be. A container that ended is the engine's business (restart policy), a unit that ended is systemd's, and
what somebody stopped is left alone. The state is kept in memory and copied to a tmpfs after the restart: a full disk stops nothing.
"""

import argparse
import collections
import contextlib
import glob
import http.client
import json
import os
import re
import shlex
import signal
import socket
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
# How many times as long a start may take before it counts as dead. vLLM gives up by itself after 600 s without progress
# (VLLM_ENGINE_READY_TIMEOUT_S in vllm/envs.py); the probe is for what does not even do that. Another host's disk may be slower than this
# one's: each restart that brought no token doubles the time, at most this many times.
PATIENCE, DOUBLINGS = 2, 3
# What has just started is remembered as taking this many times what it took last time.
LEARNED_MARGIN = 1.5
# A silent engine is given so many seconds and half a start, which is what a restart costs; vLLM itself gives up a step that takes 300 s
# (VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS in vllm/envs.py).
SILENCE_SECONDS, SILENCE_LEAST, SILENCE_MOST = 10, 30, 300
# A server whose counters cannot be read may be busy with others: only after a much longer silence does it count as dead.
UNKNOWN_SECONDS = 600
# An error may come back at once, and one that lasts no longer than this does not count.
ERROR_SECONDS = 30
# A process none of whose threads got a turn on a processor for so long is stopped or stuck: those that are looked at wake up every second
# or so, also where they only wait for a GPU. Two looks see it.
FROZEN_SECONDS, FROZEN_LOOKS = 20, 2
# So many starts without a token are a crash loop.
CRASH_STARTS = 3
# What failed is looked at again soon, not at the next time of the timer, but no run lasts longer than this.
AGAIN_SECONDS, RUN_SECONDS = 5, 240
# How long an answer may take: the first time, and at most; a request that is taken back has lost its place in the queue.
ASK_SECONDS, ASK_MOST = 5, 60
COUNTERS_SECONDS, DOCKER_SECONDS, CLUSTER_SECONDS, RESTART_SECONDS = 5, 10, 30, 60
# A record of /dev/kmsg: "6,339,5140900,-;NVRM: ..." has the number 339. So many are looked at, at most.
KERNEL_RECORD, KERNEL_LINES = re.compile(r"\d+,(\d+),\d+,[^;]*;"), 100000
# The way in that nobody else can fill (roles/common/files/llm_api_paths.py): the file of a question, that of its answer, and how long that may take at least.
QUESTION_FILE, ANSWER_FILE, ANSWER_BYTES, INNER_SECONDS = "question.json", "llm-probe.answer", 1 << 20, 20
FULL = "but its port is full: the engine answers, and nobody gets in"
# The version of the state's file: a file of another version is not read.
FORM = 2
# What counts as dead is not waited for.
STOP_SECONDS = 2
# Where start-vllm.sh counts, in the container.
STARTS = "/var/tmp/llm-vllm.starts"
# The same of a unit, in its RuntimeDirectory.
UNIT_STARTS = "/run/{0}/starts"
# What computes, below the main process of a container, and wakes up by itself: vLLM's engine core and workers (set_process_title in
# vllm/utils/system_utils.py), and those that Ray starts for it (RayWorkerWrapper, RayWorkerProc); SGLang's (setproctitle in sglang/srt/managers/scheduler.py).
RANKS = ("VLLM::", "ray::RayWorker", "sglang::scheduler")
# In /proc/net/tcp: include/net/tcp_states.h of Linux.
ESTABLISHED = "01"
# What the engine says of itself, all of it set by a step of its scheduler, chunks of a long prompt included (vllm/v1/metrics/loggers.py,
# vllm/v1/core/sched/scheduler.py, make_stats; the name gpu_cache_usage_perc is of releases before 0.10). LMDeploy's are called
# alike (lmdeploy/metrics/loggers.py). SGLang counts tokens when a request ends, and a latency with each part of 50 tokens or fewer
# (sglang/srt/observability/metrics_collector.py; DEFAULT_FORCE_STREAM_INTERVAL in sglang/srt/managers/scheduler_components/output_streamer.py), newer
# releases each step (realtime_tokens_total). The last line is llama.cpp's (tools/server/server-context.cpp); of these n_decode_total counts each step.
COUNTERS = re.compile(
    r"^(?:vllm|lmdeploy|llamacpp|sglang):((?:prompt|generation)_tokens_total|iteration_tokens_total_count|num_requests_running|num_requests_waiting"
    r"|(?:kv|gpu)_cache_usage_perc"
    r"|inter_token_latency_seconds_count|realtime_tokens_total|num_running_reqs|num_queue_reqs|token_usage"
    r"|prompt_tokens_cached_total|tokens_predicted_total|n_decode_total|requests_processing|requests_deferred)(?:\{[^}]*\})? ([0-9.]+(?:e[+-]?[0-9]+)?)$",
    re.MULTILINE,
)
TOKENS = ("prompt_tokens_total", "generation_tokens_total", "tokens_predicted_total")
# Lines of a log that may hold the cause of an end, and those that only say that there is one.
CAUSE = re.compile(r"\b\w*(?:Error|Exception)\b|\berror:|out of memory|\bKilled\b|[Nn]o such file|CUDA|NCCL|[Ff]ailed")
NO_CAUSE = re.compile(r"root cause|Engine core initialization failed|Traceback|resource_tracker", re.IGNORECASE)
CAUSES, CAUSE_LENGTH = 5, 400

# failures: failed looks in a row that a restart needs. grace, silence: seconds that a start and a silent engine get. gap: the most
# seconds that are counted between two looks.
Limits = collections.namedtuple("Limits", "failures grace silence gap")
# What a program says that has lost its GPUs while it ran: systemd renewed the rules of control groups without them.
GPUS_GONE = re.compile(r"Failed to initialize NVML: Unknown Error|No CUDA GPUs are available|CUDA unknown error")
# Of an engine: running (when it started, as text; "" if it does not run), pid, born (the process's start, in ticks since boot).
Container = collections.namedtuple("Container", "running pid born image", defaults=("",))
STOPPED = Container("", 0, 0)


# -- what is decided: pure --------------------------------------------------------------------------------------------
def given_up(state):
    """What to do with a container that does not run, and a line about it. ``state``: status, exit_code and error, as the engine tells them.

    One that somebody stopped, or that ended by itself, is the restart policy's business: only what the engine could not start has an error. At boot the
    exit code is 128 then; after a restart that failed it is still that of the end before.
    """
    if state.get("status") in ("exited", "created") and state.get("error"):
        why = " ".join(str(state["error"]).split())[:CAUSE_LENGTH]
        return "restart", "given up: the engine could not start it (exit {0}: {1})".format(state["exit_code"], why)
    return "none", "stopped: the container does not run; Docker or an operator has to start it"


def decide(state, seen, limits):
    """What to do about the server, a line for people, and the new state.

    ``seen``: asleep (stopped, and started on request),
    now (seconds on the boot-time clock), took (seconds of this look), container (its start as text, "" if it does not run, None if
    Docker does not answer), waiting (for hosts or GPUs), answer (token, refused, error or silent), detail, counters (by name; None if
    they did not come), turns (of its processes on a processor, by process), lost (which members died; "" if none), causes (lines of the
    log of the run before).
    Returns the action, none or restart.
    """
    state, passed = _next(state, seen, limits)
    if seen.get("asleep"):
        state.update(container="", served=False, loading=0, failures=0, silence=0, starts=0, restarts=0, counters=None)
        return "none", "asleep: llm-on-request starts the server when somebody asks for it", state
    if seen["container"] is None and not state.get("container"):
        return "none", "unknown: Docker does not answer", state
    if seen["container"] is not None and state.get("container") != seen["container"]:
        if not seen["container"]:
            return (*given_up(seen.get("left") or {}), state)
        state.update(container=seen["container"], served=False, loading=0, failures=0, silence=0)
        state.update(starts=state.get("starts", 0) + 1, causes=seen["causes"], counters=None, turns={})
    moved = None not in (seen["counters"], state["counters"]) and seen["counters"] != state["counters"]
    frozen = still(state["turns"], seen["turns"])
    state.update(counters=seen["counters"] or state["counters"], turns=seen["turns"])
    # Somebody else's tokens, before the probe had one.
    state["served"] |= any((seen["counters"] or {}).get(name) for name in TOKENS)
    if seen["answer"] == "token":
        line = "serving" + (", " + FULL if seen.get("full") else "")
        if not state["served"] or state["starts"]:
            line += ", {0:.0f} s after the start".format(state["loading"])
        if state["loading"]:
            state["start_seconds"] = state["loading"]
        state.update(served=True, failures=0, silence=0, starts=0, restarts=0, loading=0, regained=False)
        return "none", line, state
    if seen["answer"] == "refused" or moved:
        state.update(failures=0, silence=0)
        if moved:
            return "none", "busy: no token for the probe, but the engine computes", state
        return "none", "refused: {0}; the server answers, so it is left alone".format(seen["detail"]), state
    restarts = state.get("restarts", 0)
    grace = limits.grace * 2 ** min(restarts, DOUBLINGS)
    if not state["served"] and not seen["waiting"]:
        state["loading"] += passed
    if not state["served"] and (seen["waiting"] or state["loading"] < grace):
        if state["starts"] >= CRASH_STARTS:
            last = state["causes"][-1] if state["causes"] else "no reason in its log"
            if GPUS_GONE.search(last) and not state.get("regained"):
                # An even number of restarts takes along what lies below, which has lost them first.
                state.update(starts=0, restarts=(restarts | 1) + 1, regained=True)
                return "restart", "lost the GPUs, as after systemctl daemon-reload: {0}".format(last), state
            return "none", "crashing: {0} starts without a token; last: {1}".format(state["starts"], last), state
        if seen["waiting"]:
            return "none", "waiting: hosts of the plan, or GPUs of theirs, are missing", state
        return "none", "loading: {0:.0f} s of at most {1:.0f} s".format(state["loading"], grace), state
    state["failures"] += 1
    # Of the time before the first failure nothing is known.
    state["silence"] += passed if state["failures"] > 1 else min(seen["took"], limits.gap)
    needed, allowed = limits.failures, limits.silence
    if seen["lost"]:
        needed, allowed = (limits.failures, ERROR_SECONDS) if restarts else (1, 0)
    elif frozen:
        needed, allowed = min(limits.failures, FROZEN_LOOKS), FROZEN_SECONDS
    elif seen["answer"] == "error":
        allowed = ERROR_SECONDS
    elif seen["counters"] is None:
        allowed = max(UNKNOWN_SECONDS, limits.silence)
    allowed *= 2 ** min(restarts, DOUBLINGS)
    why = "lost " + seen["lost"] if seen["lost"] else "frozen: " + ", ".join(frozen) if frozen else seen["detail"]
    line = "failed {0} of {1}, silent for {2:.0f} s of {3:.0f} s: {4}".format(
        state["failures"], needed, state["silence"], allowed, why
    )
    if state["failures"] < needed or state["silence"] < allowed:
        return "none", line, state
    state.update(failures=0, silence=0, restarts=restarts + 1)
    return "restart", line, state


def watch(state, seen, limits):
    """The same for a container of which no token can be asked.

    It is dead when a process that always wakes up gets no turn any more, or when one that has to stay ended: Ray's container outlives a
    raylet that ends itself (ray start --block in ray/scripts/scripts.py takes that for an orderly end).
    ``seen``: now, container, turns (by process; empty if unknown), names (of the processes that have to stay: those that are there).
    """
    state, passed = _next(state, seen, limits)
    if seen["container"] is not None and state.get("container") != seen["container"]:
        state.update(container=seen["container"], turns={}, names=[], failures=0, silence=0)
    if not state.get("container"):
        return (*given_up(seen.get("left") or {}), state)
    before, state["turns"] = state["turns"], seen["turns"]
    ended = set(state["names"]) - set(seen["names"])
    state["names"] = sorted(ended.union(seen["names"]))
    dead = still(before, seen["turns"]) + ["{0}, which ended".format(name) for name in sorted(ended)]
    if not dead:
        state.update(failures=0, silence=0)
        # What moves only once between two restarts is no recovery.
        if before:
            state["restarts"] = 0
        return "none", "running", state
    state["failures"] += 1
    state["silence"] += passed
    allowed = FROZEN_SECONDS * 2 ** min(state.get("restarts", 0), DOUBLINGS)
    line = "failed {0} of {1}, standing still for {2:.0f} s of {3:.0f} s: {4}".format(
        state["failures"], limits.failures, state["silence"], allowed, ", ".join(dead)
    )
    if state["failures"] < limits.failures or state["silence"] < allowed:
        return "none", line, state
    state.update(failures=0, silence=0, restarts=state.get("restarts", 0) + 1)
    return "restart", line, state


def still(before, now):
    """The processes that had no turn between two looks."""
    return sorted(process for process, turns in now.items() if before.get(process) == turns)


def _next(state, seen, limits):
    """A copy of the state at the time of this look, and how many seconds of those since the last one count."""
    passed = min(max(seen["now"] - state.get("now", seen["now"]), 0), limits.gap)
    return dict(state, now=seen["now"]), passed


def limits_of(options, measured):
    """What the probe allows, from the options and from what was measured; a start in seconds comes with it."""
    learned = measured.get("start_seconds") or 0
    start = options.start_seconds or max(
        start_seconds(options.weights, measured.get("bytes_per_second")), learned * LEARNED_MARGIN
    )
    silence = min(max(SILENCE_SECONDS + (learned or start) / 2, SILENCE_LEAST), SILENCE_MOST)
    return start, Limits(options.failures, start * PATIENCE, silence, options.interval + ASK_MOST)


# -- what is measured -------------------------------------------------------------------------------------------------
def sizes_in(folder):
    """The files of a folder with their sizes. One that is just being replaced is not counted."""
    sizes = {}
    for path in glob.glob(os.path.join(folder, "*")):
        with contextlib.suppress(OSError):
            if os.path.isfile(path):
                sizes[path] = os.path.getsize(path)
    return sizes


def measured_rate(folder, sample_bytes=SAMPLE_BYTES):
    """Bytes a second at which the largest file of a folder is read from its disk, not from memory. None if the disk does not give it."""
    sizes = sizes_in(folder)
    if not sizes:
        return None
    try:
        descriptor = os.open(max(sizes, key=sizes.get), os.O_RDONLY)
    except OSError:
        return None
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        started, done = time.monotonic(), 0
        while done < sample_bytes:
            chunk = os.read(descriptor, 4 << 20)
            if not chunk:
                break
            done += len(chunk)
        return done / max(time.monotonic() - started, 1e-6) if done else None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def start_seconds(folder, rate):
    """How long a start should take at most."""
    return BASE_SECONDS + (sum(sizes_in(folder).values()) / (rate * RATE_SHARE) if rate else 0)


def measured_start(folder, measured):
    """How long this disk takes for the weights, and how long the last start took; None is unknown."""
    rate = measured.get("bytes_per_second")
    reading = sum(sizes_in(folder).values()) / rate if rate else None
    return {"reading_seconds": reading, "last_seconds": measured.get("start_seconds")}


def clock():
    """Seconds since boot, those that the host slept included; no setting of the time moves it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def numbers(found):
    """Whether these are figures, at least one, and all of them finite."""
    flat = [each for row in found for each in (row if isinstance(row, list) else [row])]
    return bool(flat) and all(isinstance(each, (int, float)) and abs(each) < float("inf") for each in flat)


# What is asked of a model, by what it answers with: the path, the question, and whether an answer is one.
KINDS = {
    "token": (
        "/v1/completions",
        {"prompt": "Hello", "max_tokens": 1, "temperature": 0},
        lambda answer: answer["usage"]["completion_tokens"] > 0,
    ),
    "embedding": ("/v1/embeddings", {"input": "Hello"}, lambda answer: numbers(answer["data"][0]["embedding"])),
    "score": (
        "/v1/score",
        {"text_1": "Hello", "text_2": "Hello"},
        lambda answer: numbers([answer["data"][0]["score"]]),
    ),
    "class": ("/classify", {"input": "Hello"}, lambda answer: numbers(answer["data"][0]["probs"])),
    "pooled": ("/pooling", {"input": "Hello"}, lambda answer: numbers(answer["data"][0]["data"])),
}


# -- what is seen -----------------------------------------------------------------------------------------------------
class NoRedirect(urllib.request.HTTPRedirectHandler):
    """The key goes to the address that was asked, and to no other."""

    def redirect_request(self, *_dummy, **_more):
        return None


# No proxy either, whatever the environment says: it would get the key.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect)
WRONG = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    RecursionError,
    http.client.HTTPException,
)


@contextlib.contextmanager
def within(seconds):
    """Ends what takes longer, also an answer that comes byte by byte."""

    def end(*_dummy):
        raise TimeoutError("no whole answer within {0:.0f} s".format(seconds))

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def ask(url, model, key, timeout, kind="token"):
    """One token, or what a model answers that generates none. Returns token, refused, error or silent, and a word about it."""
    path, asked, is_answer = KINDS[kind]
    body = json.dumps(dict(asked, model=model)).encode()
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = "Bearer " + key
        if not re.match(r"[!-~]+$", key):
            return "refused", "the key's file holds no usable key"
    try:
        request = urllib.request.Request(url + path, body, headers)
        with within(timeout), OPENER.open(request, timeout=timeout) as response:
            answer = json.load(response)
        return ("token", "") if is_answer(answer) else ("error", "an answer without a {0}".format(kind))
    except urllib.error.HTTPError as error:
        return "refused" if error.code < 500 else "error", "{0} answered {1}".format(url, error.code)
    except WRONG as error:
        late = isinstance(getattr(error, "reason", error), (socket.timeout, TimeoutError))
        return "silent" if late else "error", "{0}: {1}: {2}".format(url, type(error).__name__, error)


def ask_inside(options, timeout):
    """The same by the way that nobody else can fill: a question beside the state, an answer in a folder that the server has, too.

    A port may be full of connections that say nothing, while the engine computes for those that came before. Returns token, or silent.
    """
    path, asked, is_answer = KINDS[options.kind]
    number = os.urandom(8).hex()
    question = {"id": number, "now": clock(), "path": path, "question": dict(asked, model=options.model)}
    if keep(os.path.join(os.path.dirname(options.state), QUESTION_FILE), question):
        return "silent"
    end = clock() + timeout
    while clock() < end:
        answer = load_inside(os.path.join(options.inner, ANSWER_FILE))
        if answer.get("id") == number:
            try:
                return "token" if answer["status"] == 200 and is_answer(json.loads(answer["body"])) else "silent"
            except WRONG:
                return "silent"
        time.sleep(0.2)
    return "silent"


def load_inside(path):
    """A JSON file of the server's folder: of no link, and of no size that a lie of the server could have."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, errors="replace") as stream:
            found = json.loads(stream.read(ANSWER_BYTES))
    except WRONG:
        return {}
    return found if isinstance(found, dict) else {}


def counters(url, timeout, key=""):
    """What the engine has counted so far, by name; None if it does not say. Not every engine tells it without its key."""
    request = urllib.request.Request(url + "/metrics", headers={"Authorization": "Bearer " + key} if key else {})
    try:
        with within(timeout), OPENER.open(request, timeout=timeout) as response:
            found = COUNTERS.findall(response.read().decode(errors="replace"))
    except WRONG:
        return None
    sums = {}
    for name, value in found:
        sums[name] = sums.get(name, 0) + float(value)
    return sums if any(name in sums for name in TOKENS) else None


def connections(port, folder="/proc/net"):
    """The connections of other hosts to this port: the ports of each host, by its address as the kernel writes it."""
    others = {}
    for name in ("tcp", "tcp6"):
        for line in read(os.path.join(folder, name)).splitlines()[1:]:
            cells = line.split()
            local, own_port = cells[1].split(":")
            remote, remote_port = cells[2].split(":")
            if int(own_port, 16) == port and cells[3] == ESTABLISHED and remote != local:
                others.setdefault(remote, []).append(remote_port)
    return others


def gone(before, now):
    """The hosts that have none of the connections any more that they had. A member that started anew has others."""
    return sorted(host for host, ports in before.items() if not set(ports) & set(now.get(host, ())))


def program(*command, seconds=None):
    """Exit status (None if it did not end in time) and output of a command."""
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds or DOCKER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, ""
    return done.returncode, done.stdout.decode(errors="replace").strip()


class Containers:
    """Docker, for what runs in containers."""

    called = "Docker"

    def look(self, name):
        """One that runs or is paused, STOPPED, or None if Docker does not answer."""
        form = "{{.State.Status}} {{.State.Pid}} {{.State.StartedAt}} {{.Image}}"
        status, said = program("docker", "container", "inspect", "--format", form, name)
        if status == 0 and len(said.split()) == 4:
            state, pid, started, image = said.split()
            return Container(started, int(pid), born(int(pid)), image) if state in ("running", "paused") else STOPPED
        return STOPPED if "no such container" in said.lower() else None

    def left(self, name):
        """Why one does not run: its status, exit code and the engine's own error."""
        try:
            said = json.loads(program("docker", "container", "inspect", "--format", "{{json .State}}", name)[1])
            return {"status": said["Status"], "exit_code": said["ExitCode"], "error": said["Error"]}
        except WRONG:
            return {}

    def log(self, name):
        return program("docker", "logs", "--tail", "400", name)[1]

    def restart(self, names, found):
        """Restart all of them. Where Docker does not do it in time, the main process of the one that was found dead, the last, is ended."""
        status, said = program("docker", "restart", "-t", str(STOP_SECONDS), *names, seconds=RESTART_SECONDS)
        if status != 0:
            print("Docker did not: {0}".format(said or "no end within {0} s".format(RESTART_SECONDS)), flush=True)
            end(self, names[-1], found)

    def forget_starts(self, name):
        """Those that start-vllm.sh counts."""
        program("docker", "exec", name, "rm", "-f", STARTS)


class Units:
    """systemd, for what runs as one of its units."""

    called = "systemd"

    def look(self, name):
        """The same of a unit, which starts another time with another invocation."""
        status, said = program("systemctl", "show", "--property=ActiveState,MainPID,InvocationID", "--", unit(name))
        found = dict(line.partition("=")[::2] for line in said.splitlines())
        if status != 0 or "MainPID" not in found:
            return None
        pid = int(found["MainPID"])
        runs = found["ActiveState"] == "active" and pid
        return Container(found.get("InvocationID", ""), pid, born(pid)) if runs else STOPPED

    def left(self, _name):
        """systemd tries again by itself."""
        return {}

    def log(self, name):
        return program("journalctl", "--no-pager", "--output=cat", "--lines=400", "--unit=" + unit(name))[1]

    def restart(self, names, found):
        """What counts as dead is not waited for: systemd takes the rest of its processes with the main one."""
        end(self, names[-1], found)
        program("systemctl", "restart", "--", *map(unit, names), seconds=RESTART_SECONDS)

    def forget_starts(self, name):
        with contextlib.suppress(OSError):
            os.remove(UNIT_STARTS.format(name))


def unit(name):
    return name + ".service"


def known(engine, name, state):
    """What Docker or systemd says of a container or a unit, for the state machine, and what was last seen of it if they say nothing."""
    found = engine.look(name)
    if found is None:
        about = (state.get(name) for name in ("born", "image"))
        return None, Container(state.get("container") or "", state.get("pid") or 0, *about)
    return found.running, found


def stat(pid):
    """The fields of a process from its state on (proc(5), /proc/pid/stat, the third and those after it)."""
    line = read("/proc/{0}/stat".format(pid))
    return line.rpartition(")")[2].split()


def born(pid):
    """When a process started, in ticks since boot; another one with its number has another time. Empty if there is none."""
    fields = stat(pid)
    return fields[19] if fields else ""


def turns(pid):
    """How often and how long the threads of a process had a processor: the same twice means not at all in between. None if there is none."""
    fields = stat(pid)
    if not fields:
        return None
    threads = [read(path) for path in glob.glob("/proc/{0}/task/*/status".format(pid))]
    switches = sum(int(count) for text in threads for count in re.findall(r"ctxt_switches:\s+(\d+)", text))
    return [switches, fields[11], fields[12]]


def processes(pid, names=()):
    """The turns of a process, of the ranks below it and of those with one of these names, each by its name and number."""
    parents, called = {}, {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        line = read(path)
        fields = line.rpartition(")")[2].split()
        if fields:
            each = int(line.split(None, 1)[0])
            parents[each], called[each] = int(fields[1]), line.partition("(")[2].rpartition(")")[0]
    looked_at = [each for each, name in called.items() if name in names or name.startswith(RANKS)]
    below = [each for each in looked_at if pid in _ancestors(each, parents)]
    found = {"{0} ({1})".format(called.get(each, ""), each): turns(each) for each in [pid, *below]}
    return {name: value for name, value in found.items() if value}


def _ancestors(pid, parents):
    found = set()
    while pid in parents and parents[pid] not in found:
        pid = parents[pid]
        found.add(pid)
    return found


def causes(log):
    """Lines of the log that may say why the run before ended, the last one last."""
    lines = [line.strip()[:CAUSE_LENGTH] for line in log.splitlines() if CAUSE.search(line)]
    return [line for line in lines if not NO_CAUSE.search(line)][-CAUSES:]


def lost_ranks(command):
    """The ranks that died, as Ray knows from their hosts; empty if it knows of none, or does not answer."""
    _status, said = program(*shlex.split(command), seconds=CLUSTER_SECONDS)
    try:
        return ", ".join(json.loads(said.splitlines()[-1])["lost"])
    except WRONG:
        return ""


def read(path):
    try:
        with open(path, errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def load(path):
    """What a JSON file holds; empty if it holds nothing of use."""
    try:
        found = json.loads(read(path))
    except WRONG:
        return {}
    return found if isinstance(found, dict) else {}


def look(options, state, limits):
    """What `decide` has to know, the container, and who is connected."""
    began = clock()
    running, found = known(options.engine, options.server, state)
    seen = {"container": running, "causes": [], "lost": "", "counters": None, "answer": "error", "detail": ""}
    members = connections(options.meeting_port) if options.followers else {}
    if state.get("served"):
        seen["lost"] = ", ".join(gone(state.get("members") or {}, members))
    if found.running:
        if state.get("container") and running not in (None, state["container"]):
            seen["causes"] = causes(options.engine.log(options.server))
        timeout = options.timeout
        if state.get("failures"):
            # A request that is taken back loses its place in the queue, so the next ones wait longer: until there is something to decide.
            until = FROZEN_SECONDS if state["silence"] < FROZEN_SECONDS else limits.silence
            timeout = min(max(timeout, until - state["silence"]), ASK_MOST)
        key = read(options.key).strip() if options.key else ""
        seen["answer"], seen["detail"] = ask(options.url, options.model, key, timeout, options.kind)
        seen["counters"] = counters(options.url, COUNTERS_SECONDS, key)
        unheard = seen["answer"] in ("silent", "error") and seen["counters"] is None
        if options.inner and state.get("served") and unheard:
            seen["full"] = ask_inside(options, max(timeout, INNER_SECONDS)) == "token"
            if seen["full"]:
                seen["answer"] = "token"
        dumb = seen["counters"] is None or seen["counters"] == state.get("counters")
        if options.cluster and state.get("served") and seen["answer"] == "silent" and dumb:
            seen["lost"] = lost_ranks(options.cluster)
    seen["asleep"] = options.on_request and running == ""
    seen["left"] = options.engine.left(options.server) if running == "" else {}
    seen["waiting"] = "start-vllm.sh" in read("/proc/{0}/cmdline".format(found.pid)) or len(members) < options.followers
    seen["turns"] = processes(found.pid) if found.running else {}
    seen.update(now=clock(), took=clock() - began)
    return seen, found, members


# -- what is done -----------------------------------------------------------------------------------------------------
def restart(engine, names, found):
    """Restart these, the last of which was found dead."""
    print("restarting {0}".format(" and ".join(names)), flush=True)
    engine.restart(names, found)


def end(engine, name, found):
    """End the main process of what has this name at once, for Docker or systemd to start it anew. Returns whether there was one."""
    # The number may be another process's by now.
    if not (found.pid and found.born and born(found.pid) == found.born):
        return False
    print("ending process {0}; {1} starts {2} anew".format(found.pid, engine.called, name), flush=True)
    os.kill(found.pid, signal.SIGKILL)
    return True


def keep(path, state):
    """Write so that a reader never sees half of it. Returns what prevents it, or an empty text."""
    try:
        incoming = "{0}.{1}.new".format(path, os.urandom(8).hex())
        with open(incoming, "x") as stream:
            json.dump(state, stream, indent=1)
        os.replace(incoming, path)
    except OSError as error:
        return str(error)
    return ""


def watch_step(options, described, before):
    """One look at a container or unit of which no token can be asked, and what follows. Returns its new state."""
    name, _colon, names = described.partition(":")
    running, found = known(options.engine, name + options.suffix, before)
    moving = processes(found.pid, names.split(",")) if found.running else {}
    there = [each for each in names.split(",") if any(process.startswith(each + " (") for process in moving)]
    seen = {"now": clock(), "container": running, "turns": moving, "names": there if names else []}
    seen["left"] = options.engine.left(name + options.suffix) if running == "" else {}
    action, line, state = watch(before, seen, options.limits)
    state.update(pid=found.pid, born=found.born, image=found.image)
    tell(before, state, name, line)
    if action == "restart":
        # One that somebody stopped stays stopped.
        name += options.suffix
        above = [each + options.suffix for each in options.above]
        above = [each for each in above if (options.engine.look(each) or STOPPED).running]
        # Not gently: asked to end, Ray lets its head drain the node, and the head asks the next raylet on this port when this one is silent.
        left = above if end(options.engine, name, found) else [name, *above]
        if left:
            restart(options.engine, left, found)
    return state


def serve_step(options, before):
    """The same for the server."""
    seen, found, members = look(options, before, options.limits)
    action, line, state = decide(before, seen, options.limits)
    state.update(pid=found.pid, born=found.born, image=found.image)
    if seen["answer"] == "token":
        state["members"] = members
        if not before.get("served") or before.get("container") != state["container"]:
            # A start that led to a token is none of those in a row for which start-vllm.sh pauses.
            options.engine.forget_starts(options.server)
    tell(before, state, "llm-vllm", line)
    if action == "restart":
        # What lies below it every second time, when the server alone did not help.
        below = [options.below] if options.below and state.get("restarts", 1) % 2 == 0 else []
        restart(options.engine, [*(name + options.suffix for name in below), options.server], found)
        state["members"] = {}
    return state


def kernel_lines(path):
    """The lines of the kernel's log since the boot, each with its number."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return []
    lines = []
    try:
        while len(lines) < KERNEL_LINES:
            try:
                # A record each time, as the kernel gives them; a file gives many at once.
                data = os.read(descriptor, 8192)
            except BrokenPipeError:
                continue  # records that were overwritten meanwhile
            if not data:
                break
            for record in data.decode(errors="replace").splitlines():
                number = KERNEL_RECORD.match(record)
                if number:
                    lines.append((int(number.group(1)), record))
    except OSError:
        pass  # the end: nothing more now
    finally:
        os.close(descriptor)
    return lines


def gpu_step(options, before):
    """Look whether the driver has logged a fault after which a GPU should not serve. If so, the deployment leaves the gateway, until
    somebody brings it back. What was logged before the first look was somebody else's to see. Returns the new state."""
    lines = kernel_lines(options.kernel_log)
    last = max([number for number, _line in lines], default=before.get("number", -1))
    state = dict(before, number=last)
    if "number" not in before:
        return state
    new = [line for number, line in lines if number > before["number"] and "NVRM: Xid" in line]
    if not new:
        return state
    import xid  # beside this program

    for found in filter(None, map(xid.read, new)):
        said = "GPU {0}: Xid {1}, {2}".format(found.bus_id, found.number, found.action)
        print(said, flush=True)
        if found.action in xid.BAD:
            state["bad"] = said
            if options.url:
                print(
                    "the deployment leaves the gateway; playbooks/drain.yml -e gateway_undrain=true brings it back",
                    flush=True,
                )
                with open(os.path.join(os.path.dirname(options.state), "drained"), "w") as stream:
                    stream.write(said + "\n")
    return state


def kinds_of(states):
    return {state.get("kind") for state in states.values() if isinstance(state, dict)}


def tell(before, state, name, line):
    """To the journal, what is new."""
    state["said"], state["kind"] = line, re.split("[:,]| [0-9]", line)[0]
    if state["kind"] != before.get("kind") or state["kind"] == "failed" or state.get("starts") != before.get("starts"):
        print("{0}: {1}".format(name, line), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", required=True, help="folder of the model")
    parser.add_argument("--measured", required=True, help="file of what was measured, kept over a boot")
    parser.add_argument(
        "--tell-start",
        action="store_true",
        help="print as JSON how many seconds a start should take at most, the weights to be read, and the last start took; then end",
    )
    parser.add_argument("--kernel-log", default="/dev/kmsg", help="where the driver's faults are logged")
    parser.add_argument("--start-seconds", type=float, help="instead of the computed time")
    parser.add_argument(
        "--server", default="llm-vllm", help="its container, without the suffix; in the state it is llm-vllm"
    )
    parser.add_argument("--suffix", default="", help="of the containers' names; the state has them without it")
    parser.add_argument("--units", action="store_true", help="of systemd take the place of containers")
    parser.add_argument("--state", default="/run/llm-probe/state.json", help="file, on a tmpfs")
    parser.add_argument(
        "--watch",
        action="append",
        default=[],
        help="CONTAINER:PROCESS,..., beginnings of names; it is dead when one of them, or its main process, does not move",
    )
    parser.add_argument("--above", action="append", default=[], help="container that is restarted with a watched one")
    parser.add_argument("--url", help="of the server, on the head")
    parser.add_argument("--model")
    parser.add_argument("--kind", choices=sorted(KINDS), default="token", help="what the model answers with")
    parser.add_argument("--key", help="file")
    parser.add_argument("--inner", help="folder in which the server answers what stands beside the state")
    parser.add_argument("--cluster", help="command that asks Ray, which knows of ranks that died")
    parser.add_argument("--followers", type=int, default=0, help="other hosts that take part without Ray")
    parser.add_argument("--meeting-port", type=int, help="where they are connected while they do")
    parser.add_argument("--failures", type=int, default=3)
    parser.add_argument("--interval", type=float, default=10, help="seconds between two runs")
    parser.add_argument("--timeout", type=float, default=ASK_SECONDS, help="seconds of the first request")
    parser.add_argument("--on-request", action="store_true", help="one that does not run is asleep, and none of ours")
    parser.add_argument("--below", help="container below the server's, restarted with it when that alone did not help")
    options = parser.parse_args()
    options.engine = Units() if options.units else Containers()
    options.server += options.suffix
    states = load(options.state)
    if states.get("form") != FORM:
        states = {}
    # A container that is not looked at any more, of another plan for instance, would keep its last word for ever.
    looked_at = [described.partition(":")[0] for described in options.watch] + ["llm-vllm"] * bool(options.url)
    states = {name: states[name] for name in [*looked_at, "measured", "gpus"] if name in states}
    states["form"] = FORM
    # What the disk did not take is on the tmpfs.
    measured = dict(load(options.measured), **states.get("measured", {}))
    if (options.tell_start or options.url) and not measured.get("bytes_per_second"):
        measured["bytes_per_second"] = measured_rate(options.weights)
        keep(options.measured, measured)
    if options.tell_start:
        most = int(limits_of(options, measured)[0] + 1)
        print(json.dumps(dict(measured_start(options.weights, measured), most_seconds=most)))
        return 0
    end, complaint = clock() + RUN_SECONDS, ""
    while True:
        began, kinds_before = clock(), kinds_of(states)
        _start, options.limits = limits_of(options, measured)
        with contextlib.suppress(*WRONG, ImportError):
            states["gpus"] = gpu_step(options, states.get("gpus", {}))
        for described in options.watch:
            name = described.partition(":")[0]
            states[name] = watch_step(options, described, states.get(name, {}))
        if options.url:
            states["llm-vllm"] = serve_step(options, states.get("llm-vllm", {}))
            # For who compares it with what the start took.
            expected = options.start_seconds or start_seconds(options.weights, measured.get("bytes_per_second"))
            states["llm-vllm"]["start_expected"] = expected
            learned = states["llm-vllm"].get("start_seconds")
            if learned and learned != measured.get("start_seconds"):
                measured["start_seconds"] = learned
                keep(options.measured, measured)
        # After the restart, so that nothing that cannot be written prevents it. Until it can, this process remembers.
        states["measured"] = measured
        problem = keep(options.state, states)
        if problem and problem != complaint:
            print("the state was not kept: {0}".format(problem), flush=True)
        complaint = problem
        # What moved since the last look may only have been the probe's own request, which was taken and then stands still.
        again = kinds_of(states) & {"failed", "loading"} or "busy" in kinds_of(states) - kinds_before
        if clock() > end or not (again or problem):
            return 0
        time.sleep(max(AGAIN_SECONDS - (clock() - began), 0))


if __name__ == "__main__":
    sys.exit(main())
