"""Models of real vLLM and llama.cpp behind one address: what OpenAI's client gets, what a person sees in a browser, and what is left where a process
is killed.

node1 and node2 serve the model tiny by vLLM, node3 the model other by llama.cpp; the gateway and the page are on node1. The models are random: what they
say means nothing.
"""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import testinfra
import yaml

from lab.config import CHECKOUT, STATE, load
from tests.support import clients
from tests.support.browser import browser
from tests.support.drills import users_environment

LAB = load()
GATEWAY = LAB.nodes["node1"].mgmt
URL, PAGE = f"https://{GATEWAY}", f"https://{GATEWAY}:8443"
ROOT = STATE / "secrets/gateway_ca.crt"
PICTURE = STATE / "reports/web-ui.png"
BROWSE = Path(__file__).parents[1] / "files/browse.py"
# The container of the deployment other.
OTHER = "llm-llama_cpp"
QUESTION = "Which model are you, and on which host?"
CHAT: Any = [{"role": "user", "content": QUESTION}]
REFUSALS = {
    "wrong_key": (401, "invalid_api_key"),
    "unknown_model": (404, "model_not_found"),
    "over_limit": (429, "rate_limit_exceeded"),
}
DATA, PROGRAM = "/var/lib/llm-web-ui", "python3 /opt/llm/web-ui/llm-web-ui.py"
COUNT = "python3 -c \"import sqlite3; print(sqlite3.connect('file:{}/webui.db?mode=ro', uri=True).execute('SELECT count(*) FROM chat').fetchone()[0])\""


def on(name: str) -> Any:
    return testinfra.get_host(f"ssh://{name}", ssh_config=str(STATE / "ssh/config"))


def secret(name: str) -> str:
    return (STATE / "secrets" / name).read_text().strip()


def trusting() -> httpx2.Client:
    return httpx2.Client(verify=ssl.create_default_context(cafile=str(ROOT)), timeout=120)


def client(name: str = "alice", api_key: str = "") -> openai.OpenAI:
    key = api_key or secret(f"gateway_key_{name}")
    return openai.OpenAI(base_url=f"{URL}/v1", api_key=key, http_client=trusting(), max_retries=0)


def chat(model: str = "tiny", name: str = "alice", tokens: int = 4) -> Any:
    """So many tokens: a random model may also say that it has ended."""
    more: Any = {"extra_body": {"ignore_eos": True}}
    return client(name).chat.completions.create(model=model, messages=CHAT, max_tokens=tokens, **more)


def requests() -> list[dict[str, Any]]:
    """What the access log says of requests to models, oldest first."""
    lines = on("node1").check_output("journalctl --unit llm-gateway --output cat").splitlines()
    found = [json.loads(line[line.index("{") :]) for line in lines if '"request_id"' in line]
    return [each for each in found if each["model"] != "-"]


def wait_for(what: Callable[[], Any], seconds: int = 120) -> float:
    """How long it took to become true."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < seconds, what
        time.sleep(0.5)
    return time.monotonic() - began


def works(what: Callable[[], Any]) -> Callable[[], bool]:
    def tried() -> bool:
        try:
            return bool(what())
        except (openai.APIError, httpx2.HTTPError):
            return False

    return tried


def page_status() -> int:
    with trusting() as web:
        return int(web.get(f"{PAGE}/health").status_code)


def test_three_hosts_serve_two_models() -> None:
    assert [on(name).check_output("hostname") for name in LAB.nodes] == ["node1", "node2", "node3"]
    said = json.loads(on("node1").check_output("python3 /opt/llm/gateway/llm-gateway.py status"))
    assert {each["replica"]: each["status"] for each in said} == {"first": "UP", "second": "UP", "other": "UP"}
    for name, container, program in (
        ("node1", "llm-vllm", "vllm serve"),
        ("node2", "llm-vllm", "vllm serve"),
        ("node3", OTHER, "llama-server"),
    ):
        assert program in on(name).check_output(f"docker top {container} -eo pid,args"), "a real server"


def test_one_table_shows_both_engines() -> None:
    play("status", llm_gateway="node1", llm_web_ui="node1")
    rows = json.loads((STATE / "reports/status.json").read_text())["rows"]
    shown = {(row["host"], row["deployment"], row["state"]) for row in rows}
    assert shown == {("node1", "first", "serving"), ("node2", "second", "serving"), ("node3", "other", "serving")}
    images = {row["host"]: row["image"] for row in rows}
    assert "vllm" in images["node1"]
    assert "llama" in images["node3"]


# -- OpenAI's client --------------------------------------------------------------------------------------------------
def test_each_model_answers_and_both_replicas_have_their_turn() -> None:
    assert [model.id for model in client().models.list()] == ["other", "tiny"]
    before = len(requests())
    for model in ("other", *["tiny"] * 6):
        answer = chat(model)
        assert answer.model == model
        assert answer.usage.completion_tokens == 4
    wait_for(lambda: len(requests()) >= before + 7)
    assert {(each["model"], each["replica"]) for each in requests()[before:]} >= {
        ("other", "other"),
        ("tiny", "first"),
        ("tiny", "second"),
    }


def test_a_stream_arrives_in_parts() -> None:
    more: Any = {"stream_options": {"include_usage": True}, "extra_body": {"ignore_eos": True}}
    parts = list(client().chat.completions.create(model="tiny", messages=CHAT, max_tokens=16, stream=True, **more))
    assert parts[-1].usage
    assert parts[-1].usage.completion_tokens == 16
    assert len(parts) > 8


def test_the_client_is_told_why() -> None:
    with pytest.raises(openai.AuthenticationError):
        client(api_key="nobody" * 6).models.list()
    with pytest.raises(openai.NotFoundError) as unknown:
        chat("nosuch")
    assert unknown.value.code == "model_not_found"
    assert "GET /v1/models names those" in unknown.value.message
    with pytest.raises(openai.PermissionDeniedError):
        chat("other", name="bob")
    assert chat(name="bob").usage
    for _dummy in range(3):
        chat(name="carol", tokens=1)
    with pytest.raises(openai.RateLimitError) as refused:
        chat(name="carol", tokens=1)
    assert refused.value.code == "rate_limit_exceeded"
    with pytest.raises(openai.BadRequestError):
        client().completions.create(model="tiny", prompt="x " * 3000, max_tokens=4)


@pytest.mark.parametrize("run", [clients.node, clients.langchain])
def test_other_clients_get_the_same(run: Any) -> None:
    """OpenAI's client for Node, and LangChain. What carol may ask in a minute was used up above, or is now."""
    settings = {
        "GATEWAY_URL": f"{URL}/v1",
        "GATEWAY_KEY": secret("gateway_key_alice"),
        "LIMITED_KEY": secret("gateway_key_carol"),
    }
    said = run(clients.install(), settings, ROOT)
    assert {name: (said[name]["status"], said[name]["code"]) for name in REFUSALS} == REFUSALS
    assert isinstance(said["chat"], str)
    assert isinstance(said["stream"], list)
    if run is clients.node:
        assert said["models"] == ["other", "tiny"]
        assert isinstance(said["completion"], str)


def test_curl_gets_a_stream() -> None:
    body = {"model": "other", "messages": CHAT, "max_tokens": 4, "stream": True, "ignore_eos": True}
    command = ["curl", "--silent", "--show-error", "--fail", "--no-buffer", "--cacert", str(ROOT), "--header", "@-"]
    said = subprocess.run(
        [*command, "--json", json.dumps(body), f"{URL}/v1/chat/completions"],
        input=f"Authorization: Bearer {secret('gateway_key_alice')}\n",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    parts = [line.removeprefix("data: ") for line in said.splitlines() if line]
    assert parts[-1] == "[DONE]"
    assert {json.loads(part)["model"] for part in parts[:-1]} == {"other"}


# -- a planned change -------------------------------------------------------------------------------------------------
def ask_until(done: threading.Event, once: Callable[[], Any], said: Counter[str]) -> None:
    """Ask all the time, and count what came of it."""
    while not done.is_set():
        try:
            said["answers"] += bool(once())
        except (openai.APIError, httpx2.HTTPError) as error:
            said[f"{type(error).__name__}: {error}"] += 1
        time.sleep(0.2)


def whole_stream() -> bool:
    """A stream that is long enough to be under way when its server is to be restarted. It ends with what it cost, or it was cut."""
    more: Any = {"stream_options": {"include_usage": True}, "extra_body": {"ignore_eos": True}}
    parts = list(client().chat.completions.create(model="tiny", messages=CHAT, max_tokens=64, stream=True, **more))
    if not parts or not parts[-1].usage or parts[-1].usage.completion_tokens != 64:
        raise openai.APIError("cut", request=httpx2.Request("POST", URL), body=None)  # type: ignore[arg-type]
    return True


@pytest.mark.parametrize(
    "change",
    [{"vllm_max_num_seqs": 16}, {"vllm_max_num_seqs": 8, "vllm_max_num_batched_tokens": 1024}],
    ids=["one", "several"],
)
def test_a_planned_change_of_both_replicas_loses_no_request(change: dict[str, int]) -> None:
    def started() -> list[str]:
        look = "docker inspect --format '{{.State.StartedAt}}' llm-vllm"
        return [on(name).check_output(look) for name in ("node1", "node2")]

    before, done = started(), threading.Event()
    said: dict[str, Counter[str]] = {"plain": Counter(), "stream": Counter()}
    asking = [
        threading.Thread(target=ask_until, args=(done, lambda: chat(tokens=8).usage, said["plain"])),
        threading.Thread(target=ask_until, args=(done, whole_stream, said["stream"])),
    ]
    for thread in asking:
        thread.start()
    try:
        # The model other has one replica, and is left as it is.
        options = ["--limit", "first,second", "--extra-vars", json.dumps(change)]
        play("serve", *options, llm_gateway="node1", llm_web_ui="node1")
    finally:
        done.set()
        for thread in asking:
            thread.join()
    assert not set(before) & set(started()), "both were started anew"
    failed = {kind: {what: n for what, n in found.items() if what != "answers"} for kind, found in said.items()}
    assert failed == {"plain": {}, "stream": {}}, said
    assert min(found["answers"] for found in said.values()) >= 10, said
    marks = [on(name).file("/run/llm-probe/restarting").exists for name in ("node1", "node2")]
    assert marks == [False, False]


# -- the page ---------------------------------------------------------------------------------------------------------
def test_nobody_can_sign_up_and_nobody_gets_in_without_the_password() -> None:
    form = {"email": "eve@example.org", "password": "long-enough-0123", "name": "Eve"}
    with trusting() as web:
        assert web.post(f"{PAGE}/api/v1/auths/signup", json=form).status_code == 403
        assert web.post(f"{PAGE}/api/v1/auths/signin", json=form).status_code == 400
        assert web.get(f"{PAGE}/api/models").status_code == 401
        said = web.get(f"{PAGE}/api/config").json()
    assert said["features"]["enable_signup"] is False
    assert said["features"]["auth"] is True


def test_a_person_signs_in_chooses_a_model_and_gets_an_answer() -> None:
    assert browser(), "prepare.yml installs one"
    before = len(requests())
    seen = clients.browse(
        clients.install(),
        BROWSE,
        {
            "PAGE": "https://llm.lab:8443/",
            "RESOLVE": f"llm.lab {GATEWAY}",
            "EMAIL": "admin@llm.lab",
            "PASSWORD": secret("web_ui_admin_password"),
            "MODEL": "other",
            "QUESTION": QUESTION,
            "PICTURE": str(PICTURE),
            "BROWSER": browser(),
        },
    )
    assert seen["models"] == ["other", "tiny"]
    assert seen["question"].startswith(QUESTION)
    assert seen["answer"]
    # A page that gets no answer in time connects again.
    sockets = seen["sockets"]
    assert {each["url"] for each in sockets} == {"wss://llm.lab:8443/ws/socket.io/"}, (
        f"they go to the gateway: {sockets}"
    )
    assert sum(each["events"] for each in sockets) > 0, f"the answer comes through them: {sockets}"
    assert seen["hosts"] == ["llm.lab:8443"], "the browser asks nobody else"
    (asked,) = [each for each in requests()[before:] if each["key"] == "-web-ui"]
    assert (asked["model"], asked["replica"], asked["status"]) == ("other", "other", 200)
    assert PICTURE.read_bytes().startswith(b"\x89PNG")


def test_it_is_no_root_and_shows_no_secret() -> None:
    host = on("node1")
    inspected = host.check_output("docker inspect llm-web-ui")
    processes = host.check_output("ps -eo args")
    for name in ("gateway_web_ui_key", "web_ui_session_key", "web_ui_admin_password"):
        assert secret(name) not in inspected + processes
    assert set(host.check_output("docker top llm-web-ui -eo pid,uid").split()[3::2]) == {"70001"}
    said = json.loads(inspected)[0]["HostConfig"]
    assert said["ReadonlyRootfs"]
    assert said["CapDrop"] == ["ALL"]
    assert said["Memory"] == 2**30
    listening = host.check_output("ss --listening --tcp --numeric --no-header")
    assert re.findall(r"(\S+):8480\s", listening) == ["127.0.0.1"]
    for log in (host.check_output("docker logs llm-web-ui 2>&1"), host.check_output("journalctl --unit llm-gateway")):
        assert QUESTION not in log


def test_a_copy_brings_back_what_was_lost() -> None:
    host = on("node1")
    host.check_output("systemctl start llm-web-ui-backup.service")
    # The timer has made one as well where it is night. Names are dates.
    copy = max(host.check_output("ls /var/backups/llm-web-ui/*.tar.gz").split())
    assert host.check_output(COUNT.format(DATA)) == "1"
    host.check_output("docker stop llm-web-ui")
    host.check_output(f"rm -rf {DATA}/webui.db {DATA}/uploads")
    host.check_output(f"{PROGRAM} restore --data {DATA} --owner 70001 {copy}")
    host.check_output("docker start llm-web-ui")
    wait_for(works(lambda: page_status() == 200))
    assert host.check_output(COUNT.format(DATA)) == "1"
    form = {"email": "admin@llm.lab", "password": secret("web_ui_admin_password")}
    with trusting() as web:
        assert web.post(f"{PAGE}/api/v1/auths/signin", json=form).json()["role"] == "admin"


def test_no_host_asked_anybody_outside() -> None:
    done = subprocess.run([sys.executable, "-m", "lab", "exits"], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    assert done.stdout.strip() == "none"


# -- what is left where a process is killed ---------------------------------------------------------------------------
@pytest.fixture
def effects() -> Iterator[list[str]]:
    said: list[str] = []
    yield said
    with (STATE / "reports/web-ui-killed.txt").open("a") as file:
        file.writelines(f"{line}\n" for line in said)


def killed(name: str, container: str) -> None:
    on(name).check_output(f"kill -9 $(docker inspect --format '{{{{.State.Pid}}}}' {container})")


def test_without_the_page_s_process_the_gateway_says_so_and_models_answer(effects: list[str]) -> None:
    on("node1").check_output("docker stop --time 0 llm-web-ui")
    with trusting() as web:
        answer = web.get(f"{PAGE}/")
    assert (answer.status_code, "does not run" in answer.text) == (503, True)
    assert chat().usage
    on("node1").check_output("docker start llm-web-ui")
    wait_for(works(lambda: page_status() == 200))
    killed("node1", "llm-web-ui")
    seconds = wait_for(works(lambda: page_status() == 200))
    effects.append(f"page killed: back by itself after {seconds:.0f} s, models answered meanwhile")


def test_without_the_gateway_s_process_nothing_answers_for_a_moment(effects: list[str]) -> None:
    on("node1").check_output(
        "kill -9 $(systemctl show --property MainPID --value llm-gateway) && pkill -9 -x haproxy || true"
    )
    seconds = wait_for(works(lambda: chat().usage), 60)
    assert page_status() == 200
    effects.append(f"gateway killed: back after {seconds:.0f} s")


def test_without_the_count_of_tokens_models_answer(effects: list[str]) -> None:
    host = on("node1")
    before = host.check_output("systemctl show --property MainPID --value llm-gateway-usage")
    host.check_output(f"kill -9 {before}")
    assert chat().usage
    seconds = wait_for(
        lambda: host.check_output("systemctl show --property MainPID --value llm-gateway-usage") not in ("0", before)
    )
    effects.append(f"count of tokens killed: back after {seconds:.0f} s, models answered meanwhile")


def test_without_one_replica_the_other_answers_and_a_model_without_another_is_away(effects: list[str]) -> None:
    killed("node2", "llm-vllm")
    failed = 0
    for _dummy in range(20):
        failed += not works(lambda: chat(tokens=1).usage)()
    assert failed <= 2, "what had begun there, and no more"
    before = len(requests())
    assert chat().usage
    assert chat(tokens=1).usage
    wait_for(lambda: len(requests()) >= before + 2)
    assert {each["replica"] for each in requests()[before:]} == {"first"}
    # Its probe would start it again.
    on("node3").check_output(f"systemctl stop llm-probe.service && docker stop --time 2 {OTHER}")

    def away() -> bool:
        with pytest.raises(openai.InternalServerError) as refused:
            chat("other")
        return int(refused.value.status_code) == 503

    wait_for(away, 30)
    assert chat().usage
    on("node3").check_output(f"docker start {OTHER} && systemctl start llm-probe.service")
    effects.append(
        f"replica killed: {failed} of 20 requests failed, the other replica answered; the only server of a model stopped: 503 for it, others answer"
    )


@pytest.mark.parametrize(
    ("name", "container", "process"), [("node2", "llm-vllm", "vllm serve"), ("node3", OTHER, "llama-server")]
)
def test_a_server_of_either_engine_that_is_killed_or_frozen_is_back(
    effects: list[str], name: str, container: str, process: str
) -> None:
    """Killed, by the container engine; frozen, by the probe, which has to be sure first."""
    host, replica = on(name), "second" if name == "node2" else "other"

    def started() -> str:
        return str(host.check_output(f"docker inspect --format '{{{{.State.StartedAt}}}}' {container}"))

    def serves() -> bool:
        """The probe has seen a token of this start, and the gateway sends requests there."""
        state = json.loads(host.check_output("cat /run/llm-probe/state.json"))
        (seen,) = (each for each in state.values() if isinstance(each, dict) and "container" in each)
        said = json.loads(on("node1").check_output("python3 /opt/llm/gateway/llm-gateway.py status"))
        up = {each["replica"] for each in said if each["status"] == "UP"}
        return replica in up and seen["served"] and seen["container"] == started()

    def back_after(command: str) -> float:
        wait_for(serves, 300)
        before, began = started(), time.monotonic()
        host.check_output(command)
        wait_for(lambda: started() != before, 300)
        wait_for(serves, 300)
        return time.monotonic() - began

    start = back_after(f"docker restart --time 2 {container}")
    seconds = {
        how: back_after(f"pkill -{signal} --full '{process}'")
        for how, signal in (("killed", "KILL"), ("frozen", "STOP"))
    }
    effects.append(
        f"{container}: a start took {start:.0f} s; killed and back after {seconds['killed']:.0f} s, frozen and back after {seconds['frozen']:.0f} s"
    )
    assert seconds["killed"] <= 1.5 * start + 30, effects
    assert seconds["frozen"] <= 1.5 * start + 90, effects


def play(name: str, *options: str, **groups: str) -> None:
    """A playbook with these options and groups of services, each of one host."""
    inventory = CHECKOUT / "molecule/web_ui/inventory"
    said = yaml.safe_load((inventory / "hosts.yml").read_text())
    for group in ("llm_gateway", "llm_web_ui"):
        del said["all"]["children"][group]
    said["all"]["children"] |= {group: {"hosts": {host: None}} for group, host in groups.items()}
    # Beside the other file, for the sake of the folder's variables.
    other = inventory / "other.yml"
    other.write_text(yaml.safe_dump(said))
    kept = users_environment()
    command = ["ansible-playbook", "-i", str(other), f"playbooks/{name}.yml", *options]
    try:
        done = subprocess.run(command, cwd=CHECKOUT, env=kept, capture_output=True, text=True)
    finally:
        other.unlink()
    assert done.returncode == 0, done.stdout[-3000:]


def only_data_and_copies_are_left() -> None:
    host = on("node1")
    assert "llm-web-ui" not in host.check_output("docker ps --all --format '{{.Names}}'")
    assert host.check_output("systemctl list-unit-files 'llm-web-ui*' --no-legend || true") == ""
    assert not any(host.file(path).exists for path in ("/etc/llm-web-ui", "/opt/llm/web-ui"))
    assert host.file(f"{DATA}/webui.db").exists
    assert host.check_output("ls /var/backups/llm-web-ui")


def test_a_host_that_leaves_the_group_keeps_data_and_copies_only() -> None:
    wait_for(works(lambda: chat("other").usage), 180)
    play("gateway", llm_gateway="node1")
    with trusting() as web, pytest.raises(httpx2.ConnectError):
        web.get(f"{PAGE}/health")
    only_data_and_copies_are_left()
    assert chat().usage
