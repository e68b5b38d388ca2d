"""The probe as systemd runs it: a process, real sockets, a server that does what each test says, and a stand-in of the docker command.

Only its numbers of seconds are smaller. What they are, and how they are counted, is in test_probe.py.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import programs

FILES = Path(__file__).parents[3] / "roles/common/files"
FORM = 2
# A second stands for about a minute.
DRIVER = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("llm_probe", {str(FILES / "llm-probe.py")!r})
probe = importlib.util.module_from_spec(spec)
spec.loader.exec_module(probe)
probe.__dict__.update(AGAIN_SECONDS=0.05, RUN_SECONDS=2, ERROR_SECONDS=0.6, FROZEN_SECONDS=0.6, UNKNOWN_SECONDS=60, SILENCE_LEAST=0.8,
                      SILENCE_MOST=0.8, ASK_MOST=0.3, COUNTERS_SECONDS=0.3, DOCKER_SECONDS=5, RESTART_SECONDS=5)
probe.__dict__.update(eval(sys.argv.pop(1)))
sys.exit(probe.main())
"""
DOCKER = """#!/bin/sh
cd {folder}
echo "$@" >>calls
[ -e hangs ] && exec sleep 60
case $1 in
  container) [ -e stopped-$5 ] && echo "Error response from daemon: No such container: $5" && exit 1; cat container ;;
  restart) echo "running $(cat pid) after the restart $(wc -l <calls)" | tr ' ' - | sed 's/-/ /;s/-/ /;s/$/ sha256:1/' >container ;;
  exec) cat exec ;;
  logs) cat logs ;;
esac
"""
COUNTERS = 'vllm:prompt_tokens_total{engine="0"} 7.0\nvllm:generation_tokens_total{engine="0"} 1e1\nother_total %d\n'
Answer = Callable[["Handler"], None]


class Handler(http.server.BaseHTTPRequestHandler):
    token: Answer
    counters: Answer
    asked: list[tuple[str, Any]]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append((self.path, self.headers["Authorization"]))
        type(self).token(self)

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Authorization"]))
        type(self).counters(self)

    def log_message(self, *arguments: Any) -> None:
        pass


def says(body: str | bytes, code: int = 200, **headers: str) -> Answer:
    def answer(handler: Handler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body if isinstance(body, bytes) else body.encode())

    return answer


def raw(data: bytes) -> Answer:
    """What is no HTTP at all, and the end of the connection."""
    return lambda handler: handler.wfile.write(data) and None


def hangs(handler: Handler) -> None:
    with contextlib.suppress(OSError):
        handler.connection.recv(1)  # until the probe goes away


def drips(handler: Handler) -> None:
    """Each byte comes in time, the answer never."""
    with contextlib.suppress(OSError):
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
        while True:
            handler.wfile.write(b" ")
            time.sleep(0.02)


TOKEN = says('{"usage": {"completion_tokens": 1}}')
STILL = says(COUNTERS % 1)


class Quiet(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def handle_error(self, *_dummy: Any) -> None:
        pass  # the probe went away


@contextlib.contextmanager
def serving(token: Answer, counters: Answer = STILL) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """A server's address, and what it is asked: path and authorization."""
    kind = type("Scripted", (Handler,), {"token": staticmethod(token), "counters": staticmethod(counters), "asked": []})
    with Quiet(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", kind.asked  # type: ignore[attr-defined]
        server.shutdown()


class Host:
    """This machine, with a process that stands for the main one of the container."""

    def __init__(self, folder: Path, main: subprocess.Popen[bytes]) -> None:
        self.folder, self.main = folder, main
        self.state, self.measured = folder / "run/state.json", folder / "measured.json"
        for name in ("run", "weights"):
            (folder / name).mkdir()
        (folder / "docker").write_text(DOCKER.format(folder=folder))
        (folder / "docker").chmod(0o755)
        (folder / "pid").write_text(str(main.pid))
        (folder / "calls").touch()
        (folder / "exec").write_text("a warning")
        (folder / "logs").write_text("INFO all is well\n")
        (folder / "key").write_text("secret\n")
        self.container("first")
        self.measured.write_text(json.dumps({"bytes_per_second": 1e9, "start_seconds": 1}))

    def container(self, started: str) -> None:
        (self.folder / "container").write_text(f"running {self.main.pid} {started} sha256:1\n")

    def calls(self, verb: str) -> list[str]:
        return [line for line in (self.folder / "calls").read_text().splitlines() if line.startswith(verb)]

    def keeps(self, **state: Any) -> None:
        """It has served, as the container that runs."""
        about = {"container": "first", "served": True, "failures": 0, "silence": 0, "loading": 0, "starts": 0}
        counted = {"prompt_tokens_total": 7.0, "generation_tokens_total": 10.0}
        known = {**about, "causes": [], "counters": counted, "turns": {}, **state}
        self.state.write_text(json.dumps({"form": FORM, "llm-vllm": known}))

    @contextlib.contextmanager
    def probe(self, *more: str, environment: dict[str, str] | None = None, **numbers: Any) -> Iterator[Any]:
        arguments = ["--weights", str(self.folder / "weights"), "--measured", str(self.measured)]
        if "--state" not in more:
            arguments += ["--state", str(self.state)]
        variables = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", **(environment or {})}
        command = [sys.executable, "-c", DRIVER, repr(numbers), *arguments, *more]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=variables
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def runs(self, *more: str, **settings: Any) -> str:
        """What it says until it ends by itself."""
        with self.probe(*more, **settings) as process:
            said: str = process.communicate(timeout=60)[0]
            assert process.returncode == 0, said
        return said

    def hears(self, url: str, *more: str, **settings: Any) -> str:
        """What it says of a server that answers, however slowly this machine runs."""
        patience = {"ASK_MOST": 20, "COUNTERS_SECONDS": 20, "DOCKER_SECONDS": 20, "RUN_SECONDS": 40}
        return self.runs("--url", url, "--model", "tiny", "--timeout", "20", *more, **{**patience, **settings})

    def says_until(self, condition: Callable[[], Any], *more: str, **settings: Any) -> str:
        """What it says until this is so; it would go on."""
        with self.probe(*more, **{"RUN_SECONDS": 60, **settings}) as process:
            wait_for(condition)
            process.terminate()
            said: str = process.communicate(timeout=30)[0]
        return said

    def restarts(self, *more: str, **settings: Any) -> tuple[list[str], float]:
        """What it restarts first, and after how many seconds."""
        began = time.monotonic()
        with self.probe(*more, **{"RUN_SECONDS": 30, **settings}) as process:
            while not self.calls("restart") and process.poll() is None:
                time.sleep(0.02)
            took = time.monotonic() - began
            process.terminate()
            said = process.communicate(timeout=30)[0]
        (call, *_more) = self.calls("restart") or [f"restart -t 2 nothing: {said}"]
        return call.split()[3:], took


def wait_for(condition: Callable[[], Any]) -> Any:
    """What the condition says, once that is something."""
    deadline = time.monotonic() + 30
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    program = "import time\nwhile True: time.sleep(0.01)"
    with subprocess.Popen([sys.executable, "-c", program]) as main:
        try:
            yield Host(tmp_path, main)
        finally:
            main.kill()


def server(url: str, *more: str) -> list[str]:
    return ["--url", url, "--model", "tiny", "--timeout", "0.3", *more]


# -- what is left alone -----------------------------------------------------------------------------------------------
def test_who_generates_a_token_serves(host: Host) -> None:
    with serving(TOKEN) as (url, asked):
        said = host.hears(url, "--key", str(host.folder / "key"))
    assert said == "llm-vllm: serving, 0 s after the start\n"
    assert asked == [("/v1/completions", "Bearer secret"), ("/metrics", "Bearer secret")]
    assert host.calls("restart") == []
    assert host.calls("exec") == ["exec llm-vllm rm -f /var/tmp/llm-vllm.starts"], "it was no start that failed"
    state = json.loads(host.state.read_text())
    assert (state["llm-vllm"]["kind"], state["llm-vllm"]["pid"]) == ("serving", host.main.pid)


@pytest.mark.parametrize(
    ("kind", "path", "good", "bad"),
    [
        ("embedding", "/v1/embeddings", {"embedding": [0.5, -0.25, 0.125, 1]}, {"embedding": []}),
        ("score", "/v1/score", {"score": 0.75}, {"score": None}),
        ("class", "/classify", {"probs": [0.25, 0.75]}, {"probs": [float("nan")]}),
        ("pooled", "/pooling", {"data": [[0.5], [0.25]]}, {"data": [[]]}),
    ],
)
def test_a_model_that_generates_nothing_serves_with_what_it_answers(
    host: Host, kind: str, path: str, good: dict[str, Any], bad: dict[str, Any]
) -> None:
    command = [sys.executable, str(FILES / "ask.py"), f"--kind={kind}"]
    for data, well in ((good, True), (bad, False)):
        answer = says(json.dumps({"data": [data], "usage": {"prompt_tokens": 2}}))
        with serving(answer) as (url, asked):
            # What is wrong once would be asked for again until the end.
            said = host.hears(url, "--kind", kind, RUN_SECONDS=0)
            done = subprocess.run(
                [*command, url, "tiny", "Hello", "1"], capture_output=True, text=True, timeout=60, check=False
            )
        assert ("serving" in said) == well, said
        assert (done.returncode == 0) == well, done.stderr
        assert asked[0][0] == asked[-1][0] == path
    assert f"an answer without a {kind}" in said or "Error" in said


def test_a_deployment_beside_others_has_containers_of_its_own(host: Host) -> None:
    with serving(TOKEN) as (url, _asked):
        said = host.hears(url, "--suffix=-two")
    assert said == "llm-vllm: serving, 0 s after the start\n"
    assert host.calls("exec") == ["exec llm-vllm-two rm -f /var/tmp/llm-vllm.starts"]
    assert "llm-vllm" in json.loads(host.state.read_text()), "who reads the state knows it under one name"


@pytest.mark.parametrize("code", [401, 403, 404, 429])
def test_what_answers_below_500_is_left_alone(host: Host, code: int) -> None:
    host.keeps()
    with serving(says("no", code)) as (url, _asked):
        said = host.hears(url)
    assert said == f"llm-vllm: refused: {url} answered {code}; the server answers, so it is left alone\n"
    assert host.calls("restart") == []


def test_the_key_goes_to_nobody_else(host: Host) -> None:
    """Neither to a proxy of the environment nor to where an answer points."""
    host.keeps()
    with serving(TOKEN) as (elsewhere, others), serving(says("", 302, Location=f"{elsewhere}/")) as (url, asked):
        proxies = dict.fromkeys(("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"), elsewhere)
        said = host.hears(url, "--key", str(host.folder / "key"), environment=proxies)
        command = [sys.executable, str(FILES / "ask.py"), url, "tiny", "Hello", "1", str(host.folder / "key")]
        done = subprocess.run(
            command, env={**os.environ, **proxies}, capture_output=True, text=True, timeout=60, check=False
        )
    assert "answered 302" in said
    assert done.stderr.startswith(f"{url} answered 302")
    assert [authorization for path, authorization in asked if path == "/v1/completions"] == ["Bearer secret"] * 2
    assert others == []


@pytest.mark.parametrize("key", ["secret\nsecret", "secret secret", "secret\u00e9", "\x7fsecret", ""])
def test_a_file_that_holds_no_key_is_named_and_its_content_is_not(host: Host, key: str) -> None:
    file = host.folder / "key"
    file.write_text(key)
    with serving(TOKEN) as (url, _asked):
        said = host.hears(url, "--key", str(file)) if key else "refused"
        command = [sys.executable, str(FILES / "ask.py"), url, "tiny", "Hello", "1", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "refused" in said
    assert done.stderr == f"{file} holds no usable key\n"
    assert (done.returncode, done.stdout, "secret" in said) == (1, "", False)


@pytest.mark.slow
def test_who_computes_for_others_is_busy(host: Host) -> None:
    """Full load, or a long prompt in chunks: nothing comes back in time, and only the cache fills."""
    host.keeps(counters={"prompt_tokens_total": 7.0, "kv_cache_usage_perc": 0.0})
    looks = []

    def fills(handler: Handler) -> None:
        looks.append(1)
        says(f"vllm:prompt_tokens_total 7.0\nvllm:kv_cache_usage_perc {len(looks) / 1e3}\n")(handler)

    with serving(hangs, fills) as (url, _asked):
        for _run in range(4):
            # Its counters come, however slowly this machine runs.
            host.runs(*server(url), COUNTERS_SECONDS=20, RUN_SECONDS=40)
    assert len(looks) == 5, "it looks again at once only the first time"
    assert host.calls("restart") == []
    assert json.loads(host.state.read_text())["llm-vllm"]["kind"] == "busy"


@pytest.mark.slow
def test_what_takes_the_request_and_then_stands_still_is_looked_at_again_at_once(host: Host) -> None:
    """As an engine does one of whose ranks is frozen: the request is counted, and nothing follows."""
    host.keeps(counters={"prompt_tokens_total": 6.0, "generation_tokens_total": 10.0})
    with serving(hangs) as (url, _asked):
        assert host.restarts(*server(url))[0] == ["llm-vllm"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["VLLM::EngineCore", "VLLM::Worker_TP0"])
def test_a_process_below_the_server_that_is_stopped_is_seen_sooner_than_silence(host: Host, name: str) -> None:
    """The main one goes on."""
    host.keeps()
    below = f"import time; open('/proc/self/comm', 'w').write('{name}')\nwhile True: time.sleep(0.01)"
    program = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {below!r}])"
    with subprocess.Popen([sys.executable, "-c", program]) as main, serving(hangs) as (url, _asked):
        try:
            host.main.kill()
            host.main = main
            host.container("first")
            child = int(wait_for(lambda: Path(f"/proc/{main.pid}/task/{main.pid}/children").read_text()))
            wait_for(lambda: Path(f"/proc/{child}/comm").read_text() == name[:15] + "\n")
            os.kill(child, signal.SIGSTOP)
            names, seconds = host.restarts(*server(url), SILENCE_MOST=60, SILENCE_LEAST=60)
            os.kill(child, signal.SIGKILL)
        finally:
            main.kill()
    assert names == ["llm-vllm"]
    assert seconds < 30


@pytest.mark.slow
@pytest.mark.parametrize("counters", [hangs, drips, says("process_cpu_seconds_total 1\n"), says("no", 500)])
def test_counters_that_do_not_come_are_no_proof(host: Host, counters: Answer) -> None:
    host.keeps()
    with serving(hangs, counters) as (url, _asked):
        said = host.runs(*server(url), RUN_SECONDS=3)
    assert "of 60 s: " in said
    assert host.calls("restart") == []


@pytest.mark.slow
def test_what_loads_and_what_was_stopped_is_left_alone(host: Host) -> None:
    said = host.runs(*server("http://127.0.0.1:9"))
    assert said == "llm-vllm: loading: 0 s of at most 600 s\n"
    (host.folder / "container").write_text("exited 0 first sha256:1\n")
    assert "stopped" in host.runs(*server("http://127.0.0.1:9"))
    (host.folder / "stopped-llm-vllm").touch()
    host.runs(*server("http://127.0.0.1:9"))
    assert host.calls("restart") == []


# -- what is restarted ------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_what_hangs_is_restarted_once(host: Host) -> None:
    """It takes connections and says nothing, as vLLM does whose ranks lost each other."""
    host.keeps()

    def counts(handler: Handler) -> None:
        says("vllm:prompt_tokens_total 0.0\n" if host.calls("restart") else COUNTERS % 1)(handler)

    with serving(hangs, counts) as (url, _asked):
        said = host.runs(*server(url), RUN_SECONDS=4)
    assert [call.split()[3:] for call in host.calls("restart")] == [["llm-vllm"]]
    assert "restarting llm-vllm" in said
    assert said.splitlines()[-1].startswith("llm-vllm: loading")
    assert json.loads(host.state.read_text())["llm-vllm"]["restarts"] == 1


@pytest.mark.slow
def test_errors_at_once_have_to_last(host: Host) -> None:
    host.keeps()
    with serving(says("EngineDeadError", 500)) as (url, _asked):
        # On a busy machine no process has its turn for a while.
        names, seconds = host.restarts(*server(url), ERROR_SECONDS=3, FROZEN_SECONDS=60)
    assert names == ["llm-vllm"]
    assert seconds > 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "odd",
    [
        *(says(body) for body in (b"", b"null", b"[]", b'{"usage": null}', b"<html>", b"\xff\xfe", b"[" * 100_000)),
        says('{"usage": {"completion_tokens": 0}}'),
        *(raw(data) for data in (b"no HTTP\r\n\r\n", b"HTTP/1.0 200 OK\r\nContent-Length: 99\r\n\r\n{", b"\r\n")),
        drips,
    ],
)
def test_odd_answers_end_nothing_but_the_server(host: Host, odd: Answer) -> None:
    host.keeps()
    with serving(odd, says(b"\xff")) as (url, _asked):
        # An answer that never ends proves as little as none.
        assert host.restarts(*server(url), UNKNOWN_SECONDS=2)[0] == ["llm-vllm"]


@pytest.mark.slow
def test_a_disk_that_takes_nothing_prevents_no_restart(host: Host) -> None:
    """Not even the state's: this process remembers."""
    host.measured.unlink()
    (host.folder / "file").touch()
    unwritable = (
        "--state",
        str(host.folder / "file/state.json"),
        "--measured",
        str(host.folder / "file/measured.json"),
    )
    answers = iter([TOKEN] * 2)
    with serving(lambda handler: next(answers, hangs)(handler)) as (url, _asked):
        names, _seconds = host.restarts(*server(url), *unwritable)
        assert names == ["llm-vllm"]


@pytest.mark.slow
def test_a_docker_that_hangs_does_not_stop_the_probe(host: Host) -> None:
    """Its restart is tried, and then the process itself is ended, for Docker's restart policy."""
    with serving(TOKEN) as (url, _asked):
        host.hears(url)
    (host.folder / "hangs").touch()
    with serving(hangs) as (url, _asked):
        said = host.says_until(host.main.poll, *server(url), DOCKER_SECONDS=0.2, RESTART_SECONDS=0.2)
    assert "Docker did not: no end within 0.2 s" in said
    assert host.main.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_process_that_only_has_the_same_number_is_not_ended(host: Host) -> None:
    host.keeps(pid=host.main.pid, born="1")
    (host.folder / "hangs").touch()

    def looks_again() -> bool:
        return any(call.startswith("restart") for call in host.calls("")[:-1])

    with serving(hangs) as (url, _asked):
        said = host.says_until(looks_again, *server(url), DOCKER_SECONDS=0.2, RESTART_SECONDS=0.2)
    assert "Docker did not" in said
    assert host.main.poll() is None


def test_the_counters_of_llama_cpp_are_read_with_its_key() -> None:
    page = "llamacpp:prompt_tokens_total 10\nllamacpp:tokens_predicted_total 17\nllamacpp:requests_processing 1\nllamacpp:kv 2\n"
    with serving(TOKEN, says(page)) as (url, asked):
        found = programs.load("common/files/llm-probe.py").counters(url, 5, "secret")
    assert found == {"prompt_tokens_total": 10, "tokens_predicted_total": 17, "requests_processing": 1}
    assert asked == [("/metrics", "Bearer secret")]


def test_the_counters_of_sglang_move_with_parts_of_an_answer() -> None:
    labels = 'engine_type="unified",model_name="m"'
    page = f"sglang:prompt_tokens_total{{{labels}}} 10.0\nsglang:inter_token_latency_seconds_count{{{labels}}} 7.0\n"
    page += (
        f'sglang:num_running_reqs{{{labels}}} 1.0\nsglang:inter_token_latency_seconds_bucket{{le="0.1",{labels}}} 7.0\n'
    )
    with serving(TOKEN, says(page)) as (url, _asked):
        found = programs.load("common/files/llm-probe.py").counters(url, 5)
    assert found == {"prompt_tokens_total": 10, "inter_token_latency_seconds_count": 7, "num_running_reqs": 1}


def test_a_stopped_server_is_frozen_even_without_counters(host: Host) -> None:
    host.keeps()
    host.main.send_signal(signal.SIGSTOP)
    with serving(hangs, hangs) as (url, _asked):
        assert host.restarts(*server(url))[0] == ["llm-vllm"]


# -- members ----------------------------------------------------------------------------------------------------------
def test_a_rank_of_which_ray_knows_that_it_died_is_not_waited_for(host: Host) -> None:
    host.keeps()
    (host.folder / "exec").write_text('a warning\n{"lost": ["RayWorkerWrapper on node2"]}\n')
    with serving(hangs) as (url, _asked):
        names, seconds = host.restarts(
            *server(
                url, "--cluster", "docker exec llm-ray python3 /llm/cluster.py 10.0.0.1:6379", "--below", "llm-ray"
            ),
            SILENCE_MOST=60,
            SILENCE_LEAST=60,
        )
    assert names == ["llm-vllm"]
    assert seconds < 30
    assert host.calls("exec") == ["exec llm-ray python3 /llm/cluster.py 10.0.0.1:6379"]


def test_ray_is_restarted_too_where_the_server_alone_did_not_help(host: Host) -> None:
    host.keeps(restarts=1)
    with serving(says("", 500)) as (url, _asked):
        assert host.restarts(*server(url, "--below", "llm-ray"))[0] == ["llm-ray", "llm-vllm"]


def test_a_follower_that_starts_anew_was_lost(host: Host) -> None:
    """Its connection to the head ends with it, whatever it was computing."""
    with serving(TOKEN) as (url, _asked), socket.create_server(("127.0.0.1", 0)) as meeting:
        port = str(meeting.getsockname()[1])
        follows = ["--followers", "1", "--meeting-port", port]

        def connect() -> socket.socket:
            return socket.create_connection(meeting.getsockname(), source_address=("127.0.0.2", 0))

        with connect():
            assert "serving" in host.hears(url, *follows)
        with connect(), serving(hangs) as (dead, _others):
            names, seconds = host.restarts(*server(dead, *follows), SILENCE_MOST=60, SILENCE_LEAST=60)
    assert names == ["llm-vllm"]
    assert seconds < 30


@pytest.mark.slow
@pytest.mark.parametrize(
    ("above", "stopped", "restarted"),
    [([], [], []), (["llm-vllm"], [], ["restart -t 2 llm-vllm"]), (["llm-vllm"], ["llm-vllm"], [])],
)
def test_a_frozen_member_is_ended_by_its_own_host(
    host: Host, above: list[str], stopped: list[str], restarted: list[str]
) -> None:
    """At once, for Docker to start it anew: a gentle end would drain the node that comes after it."""
    arguments = ["--watch", "llm-ray:raylet,gcs_server", *(f"--above={name}" for name in above)]
    for name in stopped:
        (host.folder / f"stopped-{name}").touch()
    assert host.runs(*arguments) == "llm-ray: running\n"
    host.main.send_signal(signal.SIGSTOP)
    assert host.runs(*arguments) == ""  # it moved since the last look
    with host.probe(*arguments, RUN_SECONDS=30):
        assert host.main.wait(20) == -signal.SIGKILL
        if restarted:
            wait_for(lambda: host.calls("restart"))
    assert host.calls("restart") == restarted


@pytest.mark.slow
def test_ray_without_its_raylet_is_ended_too(host: Host) -> None:
    raylet = "import time; open('/proc/self/comm', 'w').write('raylet')\nwhile True: time.sleep(0.01)"
    program = f"import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', {raylet!r}])\nwhile True: time.sleep(0.01)"
    with subprocess.Popen([sys.executable, "-c", program]) as main:
        try:
            host.main.kill()
            host.main = main
            host.container("first")
            child = int(wait_for(lambda: Path(f"/proc/{main.pid}/task/{main.pid}/children").read_text()))
            wait_for(lambda: Path(f"/proc/{child}/comm").read_text() == "raylet\n")
            watched = ["--watch", "llm-ray:raylet,gcs_server"]
            assert host.runs(*watched) == "llm-ray: running\n"
            os.kill(child, signal.SIGKILL)
            said = host.runs(*watched)
            assert main.wait(20) == -signal.SIGKILL
        finally:
            main.kill()
    assert "standing still" in said
    assert f"raylet, which ended\nending process {main.pid}; Docker starts llm-ray anew\n" in said


# -- what it leaves for people ----------------------------------------------------------------------------------------
def test_a_crash_loop_is_told_with_its_cause(host: Host) -> None:
    (host.folder / "logs").write_text(
        "ERROR ValueError: No available memory for the cache blocks.\n"
        "Traceback (most recent call last):\n"
        "ERROR RuntimeError: Engine core initialization failed. See root cause above.\nINFO again\n"
    )
    said = ""
    for start in range(4):
        host.container(f"start {start}".replace(" ", "-"))
        said += host.runs(*server("http://127.0.0.1:9"), RUN_SECONDS=0)
    lines = [line for line in said.splitlines() if "crashing" in line]
    cause = "ERROR ValueError: No available memory for the cache blocks."
    assert lines == [f"llm-vllm: crashing: {count} starts without a token; last: {cause}" for count in (3, 4)]
    assert json.loads(host.state.read_text())["llm-vllm"]["causes"] == [cause]
    assert host.calls("restart") == []


@pytest.mark.slow
def test_weights_that_the_disk_does_not_give_stop_no_probe(host: Host) -> None:
    """What nobody may read at its first address is a file whose read fails with EIO."""
    (host.folder / "weights").mkdir(exist_ok=True)
    (host.folder / "weights" / "model.safetensors").symlink_to("/proc/self/mem")
    host.measured.unlink()
    host.keeps()
    with serving(hangs) as (url, _asked):
        more = ("--weights", str(host.folder / "weights"), "--failures", "1", "--timeout", "1")
        said = host.hears(url, *more, RUN_SECONDS=1)
    assert "failed 1 of 1" in said


def test_it_tells_how_long_a_start_may_take(host: Host) -> None:
    host.measured.write_text(json.dumps({"bytes_per_second": 1e9, "start_seconds": 400}))
    assert json.loads(host.runs("--tell-start")) == {"most_seconds": 601, "reading_seconds": 0, "last_seconds": 400}
    host.measured.write_text("no JSON")
    (host.folder / "weights/model.safetensors").write_bytes(bytes(1 << 20))
    told = json.loads(host.runs("--tell-start"))
    rate = json.loads(host.measured.read_text())["bytes_per_second"]
    assert told == {"most_seconds": 301, "reading_seconds": pytest.approx((1 << 20) / rate), "last_seconds": None}


def test_it_keeps_how_long_a_start_should_take(host: Host) -> None:
    """By weights and disk, whatever was learned: who compares it with what a start took wants to hear of a slow one."""
    host.measured.write_text(json.dumps({"bytes_per_second": 1e9, "start_seconds": 4000}))
    with serving(TOKEN) as (url, _asked):
        assert "serving" in host.hears(url)
    kept = json.loads(host.state.read_text())["llm-vllm"]
    assert kept["start_expected"] == pytest.approx(300, abs=1)
    assert kept["image"] == "sha256:1"


@pytest.mark.parametrize("odd", ['{"form": 0, "llm-vllm": {"container": "first"}}', "[]", "{", "\x00"])
def test_a_state_of_another_form_is_not_read(host: Host, odd: str) -> None:
    host.state.write_text(odd)
    with serving(TOKEN) as (url, _asked):
        assert "serving" in host.hears(url)


def test_the_last_word_on_a_container_that_left_the_plan_is_dropped(host: Host) -> None:
    host.state.write_text(json.dumps({"form": FORM, "llm-ray": {"kind": "failed"}, "measured": {"start_seconds": 3}}))
    with serving(TOKEN) as (url, _asked):
        host.hears(url)
    state = json.loads(host.state.read_text())
    assert sorted(state) == ["form", "gpus", "llm-vllm", "measured"]
    assert state["llm-vllm"]["kind"] == "serving"


# -- a unit in place of a container -----------------------------------------------------------------------------------
SYSTEMCTL = """#!/bin/sh
cd {folder}
echo "$@" >>calls
[ "$1" = show ] && echo "MainPID=$(cat pid)" && cat unit
exit 0
"""


@pytest.fixture
def unit(host: Host) -> Host:
    """The same host, whose server is a unit: no Docker is there."""
    for name, text in (("systemctl", SYSTEMCTL), ("journalctl", "#!/bin/sh\ncat {folder}/logs\n")):
        (host.folder / name).write_text(text.format(folder=host.folder))
        (host.folder / name).chmod(0o755)
    (host.folder / "docker").write_text("#!/bin/sh\nexit 1\n")
    (host.folder / "unit").write_text("InvocationID=first\nActiveState=active\n")
    return host


def of_unit(url: str, *more: str) -> list[str]:
    return [*server(url), "--units", *more]


def test_a_unit_that_generates_a_token_serves_and_its_starts_are_forgotten(unit: Host) -> None:
    starts = unit.folder / "llm-vllm-starts"
    starts.touch()
    with serving(TOKEN) as (url, _asked):
        said = unit.hears(url, "--units", UNIT_STARTS=str(unit.folder / "{0}-starts"))
    assert said == "llm-vllm: serving, 0 s after the start\n"
    assert not starts.exists()
    state = json.loads(unit.state.read_text())["llm-vllm"]
    assert (state["kind"], state["pid"], state["container"]) == ("serving", unit.main.pid, "first")
    assert unit.calls("restart") == []


def test_a_unit_that_hangs_is_ended_and_restarted(unit: Host) -> None:
    unit.keeps(born="")
    with serving(hangs) as (url, _asked):
        said = unit.says_until(lambda: unit.calls("restart"), *of_unit(url, "--failures", "2", "--interval", "1"))
    assert unit.calls("restart")[0] == "restart -- llm-vllm.service"
    assert unit.main.wait(timeout=10) == -signal.SIGKILL
    assert "systemd starts llm-vllm anew" in said


def test_a_unit_that_somebody_stopped_is_left_alone(unit: Host) -> None:
    (unit.folder / "unit").write_text("InvocationID=\nActiveState=inactive\n")
    unit.keeps()
    with serving(hangs) as (url, _asked):
        said = unit.runs(*of_unit(url), RUN_SECONDS=0)
    assert "stopped" in said
    assert unit.calls("restart") == []
    assert unit.main.poll() is None


def test_a_unit_that_crashes_is_told_with_its_cause(unit: Host) -> None:
    (unit.folder / "logs").write_text("INFO begins\nValueError: no such model\n")
    unit.keeps(container="before", served=False, starts=2)
    with serving(says("", 503), says("", 503)) as (url, _asked):
        said = unit.runs(*of_unit(url), RUN_SECONDS=0)
    assert "crashing: 3 starts without a token; last: ValueError: no such model" in said


def test_a_unit_of_ray_that_stands_still_is_ended_for_systemd_to_start_it(unit: Host) -> None:
    arguments = ["--units", "--watch", "llm-ray:raylet,gcs_server", "--above=llm-vllm"]
    assert unit.runs(*arguments) == "llm-ray: running\n"
    assert unit.calls("show")[0].endswith(" -- llm-ray.service")
    unit.main.send_signal(signal.SIGSTOP)
    assert unit.runs(*arguments) == ""  # it moved since the last look
    with unit.probe(*arguments, RUN_SECONDS=30):
        assert unit.main.wait(20) == -signal.SIGKILL
        wait_for(lambda: unit.calls("restart"))
    assert unit.calls("restart") == ["restart -- llm-vllm.service"]


@pytest.mark.slow
def test_ray_in_a_unit_is_asked_for_ranks_that_died_and_restarted_where_vllm_alone_did_not_help(unit: Host) -> None:
    unit.keeps(restarts=1)
    asks = unit.folder / "asks"
    asks.write_text('#!/bin/sh\necho \'{"lost": ["RayWorkerProc on node2"]}\'\n')
    asks.chmod(0o755)
    with serving(hangs) as (url, _asked):
        said = unit.says_until(
            lambda: unit.calls("restart"), *of_unit(url, "--cluster", f"{asks} 'two words'", "--below", "llm-ray")
        )
    assert unit.calls("restart")[0] == "restart -- llm-ray.service llm-vllm.service"
    assert "lost RayWorkerProc on node2" in said


# -- a port that strangers have filled --------------------------------------------------------------------------------
def answers_inside(folder: Path, body: str, done: threading.Event) -> None:
    """The server's own program, as llm_api_paths.py does it."""
    while not done.is_set():
        with contextlib.suppress(OSError, ValueError):
            asked = json.loads((folder / "run/question.json").read_text())
            (folder / "answer.new").write_text(json.dumps({"id": asked["id"], "status": 200, "body": body}))
            (folder / "answer.new").rename(folder / "inner/llm-probe.answer")
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "restarted"),
    [('{"usage": {"completion_tokens": 1}}', False), ('{"usage": {"completion_tokens": 0}}', True), ("", True)],
    ids=["computes", "generates nothing", "hangs"],
)
def test_a_full_port_restarts_no_server_that_generates_tokens(host: Host, body: str, restarted: bool) -> None:
    (host.folder / "inner").mkdir()
    host.keeps()
    done = threading.Event()
    thread = threading.Thread(target=answers_inside, args=(host.folder, body, done))
    if body:
        thread.start()
    try:
        with serving(hangs, hangs) as (url, _asked):
            more = ("--url", url, "--model", "tiny", "--timeout", "0.2", "--inner", str(host.folder / "inner"))
            said = host.runs(*more, INNER_SECONDS=0.5, UNKNOWN_SECONDS=0.5, RUN_SECONDS=4)
    finally:
        done.set()
        if body:
            thread.join()
    assert bool(host.calls("restart")) is restarted, said
    assert ("its port is full" in said) is not restarted
