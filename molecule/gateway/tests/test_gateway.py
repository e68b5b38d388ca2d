"""The gateway as its clients see it: OpenAI's own client and curl, while replicas, the gateway and its keys come and go.

node1 and node2 serve the model tiny, node3 the model other; the gateways are on node2 and node3 and share an address. Most tests ask that of node2,
whichever holds it. The replicas are programs without a model (files/replica.py),
behind the real program that answers for vLLM. Everything between them and the clients is real.
"""

from __future__ import annotations

import csv
import http.client
import itertools
import json
import os
import re
import shlex
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import testinfra
import yaml

from lab.config import STATE, load
from tests.support import clients

CHECKOUT = Path(__file__).resolve().parents[3]
INVENTORY = CHECKOUT / "molecule/gateway/inventory"
LAB = load()
GATEWAY = LAB.nodes["node2"].mgmt
PAIR = ("node2", "node3")
SHARED = GATEWAY.rpartition(".")[0] + ".50"
URL = f"https://{GATEWAY}"
ROOT = STATE / "secrets/gateway_ca.crt"
PROMPT = "the-prompt-that-no-log-may-hold"
CHAT: Any = [{"role": "user", "content": PROMPT}]


def on(name: str) -> Any:
    return testinfra.get_host(f"ssh://{name}", ssh_config=str(STATE / "ssh/config"))


def key(name: str) -> str:
    return (STATE / "secrets" / f"gateway_key_{name}").read_text().strip()


def client(name: str = "alice", **more: Any) -> openai.OpenAI:
    trusted = httpx2.Client(verify=ssl.create_default_context(cafile=str(ROOT)))
    return openai.OpenAI(
        base_url=f"{URL}/v1", api_key=more.pop("api_key", None) or key(name), http_client=trusted, max_retries=0
    )


def curl(path: str, *options: str, url: str = URL) -> tuple[int, dict[str, str], str]:
    """Status, headers and body."""
    command = [
        "curl",
        "--silent",
        "--show-error",
        "--include",
        "--http1.1",
        "--cacert",
        str(ROOT),
        *options,
        url + path,
    ]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
    said = said.removeprefix("HTTP/1.1 100 Continue\n\n")
    head, _blank, body = said.partition("\n\n")
    first, *lines = head.splitlines()
    headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
    return int(first.split()[1]), headers, body


def healthy() -> bool:
    """Whether the gateway answers. One that starts again refuses connections first."""
    try:
        return curl("/health")[0] == 200
    except subprocess.CalledProcessError:
        return False


def who_answers(count: int = 12) -> Counter[str]:
    """The replicas of tiny that answer."""
    mine = client()
    return Counter(
        str(mine.completions.create(model="tiny", prompt="x", max_tokens=1).system_fingerprint)
        for _dummy in range(count)
    )


@dataclass
class Load:
    """Clients that ask without pause, each on a connection of its own, and what became of their requests."""

    statuses: Counter[str] = field(default_factory=Counter)
    address: str = GATEWAY
    seconds: int = 30
    # When an answer came, by time.monotonic().
    answered: list[float] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def ask(self) -> None:
        body = json.dumps({"model": "tiny", "prompt": "x", "max_tokens": 2, "seed": 5})
        headers = {"Authorization": f"Bearer {key('alice')}", "Content-Type": "application/json"}
        trusted = ssl.create_default_context(cafile=str(ROOT))
        while not self.ended.is_set():
            connection = http.client.HTTPSConnection(self.address, context=trusted, timeout=self.seconds)
            try:
                # A few requests each, so that connections also begin anew.
                for _dummy in range(20):
                    connection.request("POST", "/v1/completions", body, headers)
                    response = connection.getresponse()
                    response.read()
                    self.statuses[str(response.status)] += 1
                    self.answered.append(time.monotonic())
                    if response.getheader("connection") == "close" or self.ended.is_set():
                        break
            except (OSError, http.client.HTTPException) as error:
                self.statuses[type(error).__name__] += 1
            finally:
                connection.close()


@contextmanager
def under_load(clients: int = 4, address: str = GATEWAY, seconds: int = 30) -> Iterator[Load]:
    found = Load(address=address, seconds=seconds)
    threads = [threading.Thread(target=found.ask) for _dummy in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        found.ended.set()
        for thread in threads:
            thread.join()


def playbook(name: str, *arguments: str, inventory: Path = INVENTORY) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "ansible",
        "playbook",
        str(CHECKOUT / f"playbooks/{name}.yml"),
        "-i",
        str(inventory),
    ]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MOLECULE_", "PYTEST_"))}
    environment = {**kept, "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
    # What the bundle holds was compared with its manifest when the scenario converged.
    command += ["-e", "preflight_bundle_required=false", *arguments]
    return subprocess.run(
        command,
        cwd=CHECKOUT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=900,
    )


def curl_works(address: str) -> bool:
    done = subprocess.run(
        [
            "curl",
            "--silent",
            "--output",
            "/dev/null",
            "--fail",
            "--max-time",
            "2",
            "--cacert",
            str(ROOT),
            f"https://{address}/health",
        ],
        check=False,
    )
    return done.returncode == 0


def wait_for(what: Any, seconds: int = 30) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, what
        time.sleep(0.5)


def status() -> dict[str, str]:
    """What the gateway says of each replica."""
    said = on("node2").check_output("python3 /opt/llm/gateway/llm-gateway.py status")
    return {each["replica"]: each["status"] for each in json.loads(said)}


def holders() -> list[str]:
    """The gateways that hold the virtual address."""
    return [name for name in PAIR if on(name).check_output(f"ip -oneline address show to {SHARED}")]


def holder() -> str:
    """The gateway that holds it, once it is one: a moment after it has moved there may be none or two."""
    found: list[str] = []

    def one() -> bool:
        found[:] = holders()
        return len(found) == 1

    wait_for(one)
    return found[0]


def reached(name: str) -> bool:
    """Whether a host accepts connections of ssh."""
    try:
        socket.create_connection((LAB.nodes[name].mgmt, 22), 2).close()
    except OSError:
        return False
    return True


def longest_silence(answered: list[float]) -> float:
    times = sorted(answered)
    return max(after - before for before, after in itertools.pairwise(times))


def test_three_hosts_and_two_gateways() -> None:
    assert [on(name).check_output("hostname") for name in LAB.nodes] == ["node1", "node2", "node3"]
    assert len(holders()) == 1
    assert status() == {"first": "UP", "second": "UP", "other": "UP"}


# -- clients that nobody here wrote -----------------------------------------------------------------------------------
def test_openai_client_lists_the_models_of_all_deployments() -> None:
    assert [model.id for model in client().models.list()] == ["other", "tiny"]
    assert client().models.retrieve("tiny").id == "tiny"


def test_openai_client_chats_with_each_model_and_meets_both_replicas() -> None:
    answer = client().chat.completions.create(model="other", messages=CHAT, max_tokens=3)
    assert answer.choices[0].message.content == " 0 1 2"
    assert answer.system_fingerprint == "node3"
    assert set(who_answers()) == {"node1", "node2"}


def test_openai_client_streams_token_by_token() -> None:
    began = time.monotonic()
    times, words = [], []
    for chunk in client().chat.completions.create(model="tiny", messages=CHAT, max_tokens=5, seed=200, stream=True):
        times.append(time.monotonic() - began)
        words.append(chunk.choices[0].delta.content)
    assert words == [" 0", " 1", " 2", " 3", " 4"]
    assert times[-1] - times[0] > 0.5, "the first token comes while the others are still computed"


def test_openai_client_gets_the_reason() -> None:
    with pytest.raises(openai.AuthenticationError):
        client(api_key="nobody" * 6).models.list()
    with pytest.raises(openai.NotFoundError) as unknown:
        client().chat.completions.create(model="nosuch", messages=CHAT)
    assert unknown.value.code == "model_not_found"
    assert "GET /v1/models" in unknown.value.message
    with pytest.raises(openai.PermissionDeniedError):
        client("bob").chat.completions.create(model="other", messages=CHAT)
    assert client("bob").chat.completions.create(model="tiny", messages=CHAT).choices


ERRORS = {
    "wrong_key": {"status": 401, "code": "invalid_api_key"},
    "unknown_model": {"status": 404, "code": "model_not_found"},
    "over_limit": {"status": 429, "code": "rate_limit_exceeded"},
}


@pytest.fixture(scope="module")
def installed() -> Path:
    return clients.install()


@pytest.mark.parametrize(("run", "limited"), [(clients.node, "frank"), (clients.langchain, "grace")])
def test_other_clients_get_the_same(installed: Path, run: Any, limited: str) -> None:
    """Each uses up a limit of its own, through the address that both gateways share."""
    settings = {"GATEWAY_URL": f"https://{SHARED}/v1", "GATEWAY_KEY": key("alice"), "LIMITED_KEY": key(limited)}
    said = run(installed, settings, ROOT)
    refused = {name: {part: said[name][part] for part in ("status", "code")} for name in ERRORS}
    assert refused == ERRORS
    assert said["chat"] == " 0 1 2"
    assert said["stream"] == [" 0", " 1", " 2"]
    if run is clients.node:
        assert said["models"] == ["other", "tiny"]
        assert said["completion"] == " 0 1"


def test_a_key_has_its_requests_a_minute_and_no_more() -> None:
    mine = client("carol")
    for _dummy in range(3):
        mine.completions.create(model="tiny", prompt="x", max_tokens=1)
    with pytest.raises(openai.RateLimitError) as refused:
        mine.completions.create(model="tiny", prompt="x", max_tokens=1)
    assert int(refused.value.response.headers["retry-after"]) > 0
    assert who_answers(1), "others are not concerned"


def counted() -> dict[str, dict[str, int]]:
    """What this month's CSV of each key says, of the model tiny."""
    (path,) = on("node2").check_output("ls /var/lib/llm-gateway/usage-*.csv").split()
    rows = csv.DictReader(on("node2").check_output(f"cat {path}").splitlines())
    kinds = ("requests", "prompt_tokens", "completion_tokens", "estimated")
    return {row["key"]: {kind: int(row[kind]) for kind in kinds} for row in rows if row["model"] == "tiny"}


def test_a_key_has_its_tokens_a_minute_and_each_gateway_knows() -> None:
    mine = client("erin")
    before = Counter(counted().get("erin", {}))
    assert mine.completions.create(model="tiny", prompt="x", max_tokens=40).usage
    wait_for(lambda: counted().get("erin", {}) != before)
    assert Counter(counted()["erin"]) - before == {"requests": 1, "prompt_tokens": 1, "completion_tokens": 40}
    # The replica's stream does not say its tokens: its events are counted.
    assert len(list(mine.completions.create(model="tiny", prompt="x", max_tokens=20, stream=True))) == 20
    refused: list[openai.RateLimitError] = []

    def over_limit() -> bool:
        try:
            mine.completions.create(model="tiny", prompt="x", max_tokens=1)
        except openai.RateLimitError as error:
            refused.append(error)
        return bool(refused)

    wait_for(over_limit)
    assert "tokens" in refused[0].message
    assert int(refused[0].response.headers["retry-after"]) > 0
    # A reload empties HAProxy's map, and it is filled again.
    on("node2").check_output("systemctl reload llm-gateway")
    time.sleep(3)
    wait_for(over_limit)
    body = ("--header", f"Authorization: Bearer {key('erin')}", "--data", '{"model": "tiny", "prompt": "x"}')
    wait_for(lambda: curl("/v1/completions", *body, url=f"https://{LAB.nodes['node3'].mgmt}")[0] == 429)
    assert counted()["erin"]["estimated"] == before["estimated"] + 1
    assert who_answers(1), "others are not concerned"


def test_a_client_names_no_other_key_and_reads_no_counts() -> None:
    before = counted()
    mine = ("--header", f"Authorization: Bearer {key('bob')}", "--header", "Content-Type: application/json")
    body = ("--header", "X-LLM-Key: mallory", "--data", '{"model": "tiny", "prompt": "x", "max_tokens": 9}')
    assert curl("/v1/completions", *mine, *body)[0] == 200
    wait_for(lambda: counted().get("bob") != before.get("bob"))
    assert "mallory" not in counted()
    assert curl("/usage", *mine)[0] == 404


def test_curl_is_sent_to_tls_and_gets_only_what_is_offered() -> None:
    code, headers, _body = curl("/v1/models?x=1", url=f"http://{GATEWAY}")
    assert (code, headers["location"]) == (308, f"https://{GATEWAY}/v1/models?x=1")
    assert curl("/health")[0] == 200
    mine = ("--header", f"Authorization: Bearer {key('alice')}")
    assert curl("/v1/models")[0] == 401
    assert curl("/v1/models", *mine)[0] == 200
    for path in ("/invocations", "/metrics", "/pause", "/docs", "/ready", "/v1/completions/../../metrics"):
        assert curl(path, "--path-as-is", *mine, "--data", '{"model": "tiny"}')[0] == 404, path
    old = subprocess.run(["curl", "--silent", "--tls-max", "1.1", "--cacert", str(ROOT), URL + "/health"], check=False)
    assert old.returncode == 35, "no handshake below TLS 1.2"


def test_a_large_request_passes_and_a_larger_one_is_refused(tmp_path: Path) -> None:
    mine = ("--header", f"Authorization: Bearer {key('alice')}", "--header", "Content-Type: application/json")
    for mib, expected in ((1.9, 200), (2.1, 413)):
        file = tmp_path / "body.json"
        # The model comes last, where only who reads all of it finds it.
        file.write_text(json.dumps({"prompt": "x" * int(mib * (1 << 20)), "max_tokens": 1, "model": "tiny"}))
        assert curl("/v1/completions", *mine, "--data-binary", f"@{file}")[0] == expected
        chunked = ("--header", "Transfer-Encoding: chunked", "--data-binary", f"@{file}")
        assert curl("/v1/completions", *mine, *chunked)[0] == expected
    assert curl("/v1/completions", *mine, "--data", "no json")[0] == 400


def test_the_request_s_id_goes_through_to_the_replica() -> None:
    response = client().completions.with_raw_response.create(
        model="tiny", prompt="x", extra_headers={"X-Request-Id": "trace-42"}
    )
    assert response.headers["x-request-id"] == "trace-42"
    assert response.parse().id == "cmpl-trace-42"


# -- what may come and go ---------------------------------------------------------------------------------------------
def test_a_replica_is_drained_without_a_lost_request_and_comes_back() -> None:
    with under_load() as load:
        done = playbook("drain", "-e", "gateway_replica=first")
        assert done.returncode == 0, done.stdout
        on("node1").check_output("systemctl restart replica")
        assert set(who_answers()) == {"node2"}, "it is still drained, although it runs"
        # A reload takes over what is known of the replicas.
        on("node2").check_output("systemctl reload llm-gateway")
        assert set(who_answers()) == {"node2"}
        done = playbook("drain", "-e", "gateway_replica=first", "-e", "gateway_undrain=true")
        assert done.returncode == 0, done.stdout
    assert set(load.statuses) == {"200"}, load.statuses
    assert load.statuses["200"] > 500
    assert set(who_answers()) == {"node1", "node2"}


def test_only_what_a_replica_had_taken_fails_when_it_is_killed() -> None:
    mine = client()
    streams = [
        mine.completions.create(model="tiny", prompt="x", max_tokens=50, seed=100, stream=True) for _dummy in range(6)
    ]
    began = [str(next(iter(stream)).system_fingerprint) for stream in streams]
    with under_load() as load:
        on("node1").check_output("systemctl kill --signal KILL replica")
        time.sleep(3)
    outcome = []
    for stream in streams:
        try:
            outcome.append(sum(1 for _chunk in stream) == 49)
        except (openai.APIError, httpx2.HTTPError):
            outcome.append(False)
    try:
        assert outcome == [host == "node2" for host in began]
        assert set(began) == {"node1", "node2"}
        # One request of each client at most was with that replica; all others are sent to the other one.
        failed = sum(count for status, count in load.statuses.items() if status != "200")
        assert failed <= 4, load.statuses
        assert load.statuses["200"] > 100
        wait_for(lambda: status()["first"] == "DOWN")
    finally:
        on("node1").check_output("systemctl reset-failed replica; systemctl start replica")
    wait_for(lambda: status()["first"] == "UP")


def test_a_replica_without_a_token_gets_nothing() -> None:
    """It answers, but its probe has had no token for long: the file that the stand-in writes as the probe would is out of its reach."""
    node = on("node1")
    node.check_output("mkdir /run/llm-probe/state.new && sed --in-place 's/serving/failed/' /run/llm-probe/state.json")
    try:
        wait_for(lambda: status()["first"] == "DOWN")
        assert set(who_answers()) == {"node2"}
    finally:
        node.check_output("rmdir /run/llm-probe/state.new; systemctl restart replica")
    wait_for(lambda: status()["first"] == "UP")


def test_reloads_lose_nothing() -> None:
    with under_load() as load:
        for _dummy in range(5):
            on("node2").check_output("systemctl reload llm-gateway")
            time.sleep(0.5)
    assert set(load.statuses) == {"200"}, load.statuses


def test_keys_come_and_go_without_a_restart() -> None:
    before = on("node2").check_output("systemctl show --property MainPID llm-gateway")
    keys = [{"name": "alice"}, {"name": "bob", "models": ["tiny"]}, {"name": "dave"}]
    with under_load() as load:
        done = playbook("gateway", "-e", json.dumps({"gateway_keys": keys}))
        assert done.returncode == 0, done.stdout
    assert set(load.statuses) == {"200"}, load.statuses
    assert client("dave").completions.create(model="tiny", prompt="x").choices
    with pytest.raises(openai.AuthenticationError):
        client("carol").models.list()
    assert on("node2").check_output("systemctl show --property MainPID llm-gateway") == before
    assert "Gateway on node2: https://llm.lab" in done.stdout
    assert "keys: alice, bob, dave" in done.stdout


def test_what_haproxy_would_refuse_never_replaces_what_runs() -> None:
    before = on("node2").check_output("sha256sum /etc/llm-gateway/haproxy.cfg")
    done = playbook("gateway", "-e", '{"gateway_affinity_header": "no ) header"}')
    assert done.returncode != 0
    assert "gateway_affinity_header" in done.stdout
    assert on("node2").check_output("sha256sum /etc/llm-gateway/haproxy.cfg") == before
    assert who_answers(1)


def test_a_gateway_that_another_run_changes_is_left_alone() -> None:
    node = on("node2")
    holder = {"run": {"machine": "another", "pid": 1, "started": "1"}, "who": "ops@laptop", "since": 0}
    other = json.dumps({"format": 1, "given_back": 0, "holder": holder})
    before = node.check_output("sha256sum /etc/llm-gateway/haproxy.cfg")
    free = node.check_output("cat /opt/llm/lock.json")
    node.check_output(f"echo {shlex.quote(other)} > /opt/llm/lock.json")
    done = playbook("gateway", "-e", '{"gateway_keys": [{"name": "erin"}]}')
    held = node.check_output("cat /opt/llm/lock.json")
    node.check_output(f"echo {shlex.quote(free)} > /opt/llm/lock.json")
    assert held == other
    assert done.returncode != 0
    assert "node2 is being changed by another run, of ops@laptop" in done.stdout
    assert node.check_output("sha256sum /etc/llm-gateway/haproxy.cfg") == before
    # Nor is the other one of the pair held by the run that was refused.
    assert json.loads(on("node3").check_output("cat /opt/llm/lock.json"))["holder"] is None


def test_a_worker_that_is_killed_comes_back() -> None:
    node = on("node2")
    node.check_output("pkill --signal KILL --newest --exact haproxy")
    wait_for(healthy)
    wait_for(lambda: status().get("second") == "UP")
    assert who_answers(1)


# -- one address for two gateways -------------------------------------------------------------------------------------
def test_the_other_gateway_takes_the_address_over_when_one_ends() -> None:
    first = holder()
    (second,) = set(PAIR) - {first}
    with under_load(address=SHARED, seconds=3) as load:
        time.sleep(1)
        on(first).check_output("systemctl stop llm-gateway")
        wait_for(lambda: holders() == [second])
        time.sleep(2)
    print(f"HAProxy ended: {longest_silence(load.answered):.1f} s without an answer, {dict(load.statuses)}")
    assert longest_silence(load.answered) < 30
    on(first).check_output("systemctl start llm-gateway")
    wait_for(lambda: curl("/health", url=f"https://{LAB.nodes[first].mgmt}")[0] == 200)
    time.sleep(12)
    assert holders() == [second], "it stays where it is"


def test_the_other_gateway_takes_the_address_over_when_a_host_is_gone() -> None:
    """Nothing says goodbye: the host's link in the network of the address is down."""
    first = holder()
    (second,) = set(PAIR) - {first}
    with under_load(address=SHARED, seconds=3) as load:
        time.sleep(1)
        # Nobody can reach the host without its link, so the host itself brings the link up again.
        link = on(first).check_output(f"ip -oneline address show to {LAB.nodes[first].mgmt}").split()[1]
        cut = f"sleep 1; ip link set {link} down; sleep 20; ip link set {link} up"
        on(first).check_output(f"systemd-run --unit gone sh -c {shlex.quote(cut)}")
        wait_for(lambda: bool(on(second).check_output(f"ip -oneline address show to {SHARED}")))
        time.sleep(2)
    print(f"host gone: {longest_silence(load.answered):.1f} s without an answer, {dict(load.statuses)}")
    assert longest_silence(load.answered) < 30
    wait_for(lambda: reached(first), 60)
    wait_for(lambda: len(holders()) == 1)
    assert curl("/health", url=f"https://{SHARED}")[0] == 200


def test_one_still_holds_the_address_where_none_answers() -> None:
    """As where all hosts are overloaded: the address has to be somewhere when they come back."""
    try:
        for name in PAIR:
            on(name).check_output("systemctl stop llm-gateway")
        time.sleep(12)
        assert len(holders()) == 1
    finally:
        for name in PAIR:
            on(name).check_output("systemctl start llm-gateway")
    wait_for(lambda: curl_works(SHARED))


@pytest.mark.parametrize("process", ["keepalived", "haproxy"])
def test_a_killed_process_of_the_pair_comes_back(process: str) -> None:
    first = holder()
    on(first).check_output(f"pkill --signal KILL --exact {process}")
    wait_for(lambda: curl_works(SHARED))
    wait_for(lambda: len(holders()) == 1)
    for name in PAIR:
        wait_for(lambda name=name: on(name).run("systemctl is-active llm-gateway llm-gateway-address").rc == 0)


def test_a_run_finds_two_that_do_not_hear_each_other() -> None:
    # As a switch does that lets only TCP, UDP and ICMP through. A route into nowhere would not do: keepalived binds its socket to a device, and the
    # kernel then takes the other gateway for a neighbour (ip_route_output_key_hash_rcu in net/ipv4/route.c).
    policy = "ip xfrm policy {0} dir in proto 112"
    try:
        for name in PAIR:
            on(name).check_output(policy.format("add") + " action block")
        wait_for(lambda: len(holders()) == 2)
        done = playbook("gateway")
        assert done.returncode != 0
        assert "2 gateways hold the virtual address" in done.stdout
        assert "VRRP (IP protocol 112)" in done.stdout
    finally:
        for name in PAIR:
            on(name).run(policy.format("delete"))
    wait_for(lambda: len(holders()) == 1)


# -- what nobody may read ---------------------------------------------------------------------------------------------
def test_no_key_and_no_prompt_is_left_on_the_gateway() -> None:
    node = on("node2")
    values = [key(name) for name in ("alice", "bob", "carol", "dave")]
    pattern = "|".join([*values, PROMPT])
    found = node.run(
        f"grep --recursive --extended-regexp '{pattern}' /etc/llm-gateway /run/llm-gateway/servers.state /opt/llm"
    )
    assert found.stdout == ""
    log = node.check_output("journalctl --unit llm-gateway --output cat --no-pager")
    assert not re.search(pattern, log)
    requests = [json.loads(line) for line in log.splitlines() if line.startswith('{"time"')]
    assert len(requests) > 500
    traced = [each for each in requests if each["request_id"] == "trace-42"]
    assert {(each["key"], each["model"], each["status"]) for each in traced} == {("alice", "tiny", 200)}
    assert node.check_output(
        "stat --format '%a %U' /etc/llm-gateway /etc/llm-gateway/keys.map /etc/llm-gateway/tls/gateway.pem"
    ) == ("700 root\n600 root\n600 root")
    assert node.check_output("ps -o user= -C haproxy | sort -u").split() == ["haproxy", "root"]


# -- the end of a gateway ---------------------------------------------------------------------------------------------
def test_a_host_that_leaves_the_group_is_no_gateway_any_more() -> None:
    said = yaml.safe_load((INVENTORY / "hosts.yml").read_text())
    del said["all"]["children"]["llm_gateway"]["hosts"]["node3"]
    # Beside the other file, for the sake of the folder's variables.
    other = INVENTORY / "one-gateway.yml"
    other.write_text(yaml.safe_dump(said))
    try:
        done = playbook("gateway", "-e", "gateway_virtual_address=", inventory=other)
    finally:
        other.unlink()
    assert done.returncode == 0, done.stdout[-3000:]
    left = on("node3")
    assert left.check_output("systemctl list-unit-files 'llm-gateway*' --no-legend || true") == ""
    assert not any(left.file(path).exists for path in ("/etc/llm-gateway", "/opt/llm/gateway"))
    assert left.run("ps -C haproxy,keepalived").rc != 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LAB.nodes["node3"].mgmt, 443), timeout=10).close()
    # The counts are what a bill is made of.
    assert left.file("/var/lib/llm-gateway").listdir()
    assert curl_works(GATEWAY)
