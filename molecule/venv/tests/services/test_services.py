"""Ray and vLLM as services of systemd: the pair from environments that its hosts have, node3 from one that it made of wheels of the bundle. The pair was
broken and healed; node3 was changed, went to a container, and came back."""

from __future__ import annotations

import json
import re
from typing import Any

import openai
import pytest
import testinfra

from lab.config import STATE, load
from tests.support import openai_client

DATA = {name: node.data for name, node in load().nodes.items()}
UNITS = {
    "node1": ["llm-ray.service", "llm-vllm.service"],
    "node2": ["llm-ray.service"],
    "node3": ["llm-vllm.service"],
}
HEADS = {"node1": "tiny_split", "node3": "tiny_single"}
PAIR = ["node1", "node2"]
CACHE = "/opt/llm/cache/venv-0.32.0-7.0"
# As docs/security.md says it, with room for what releases of systemd count differently. Of a unit without any of its settings,
# systemd-analyze security says 9.6.
MOST_EXPOSURE = 2.0
testinfra_hosts = [f"ssh://{name}" for name in UNITS]


def on(name: str) -> Any:
    return testinfra.get_host(f"ssh://{name}", ssh_config=str(STATE / "ssh/config"))


@pytest.fixture
def single() -> Any:
    return on("node3")


def name_of(host: Any) -> str:
    return str(host.check_output("hostname"))


def secret(name: str) -> str:
    return (STATE / "secrets" / name).read_text().strip()


def client(head: str) -> openai.OpenAI:
    url = f"http://{DATA[head]}:8000/v1"
    return openai.OpenAI(base_url=url, api_key=secret(f"{HEADS[head]}_api_key"), max_retries=0, timeout=120)


def main_process(host: Any, unit: str) -> str:
    return str(host.check_output(f"systemctl show --property=MainPID --value {unit}"))


def processes(host: Any, unit: str) -> dict[str, str]:
    """The numbers of a service's processes with their users."""
    found = host.check_output(f"grep --files-with-matches --no-messages /{unit} /proc/[0-9]*/cgroup; true").split()
    pids = [path.split("/")[2] for path in found]
    lines = host.check_output(f"ps -o pid=,user= -p {','.join(pids)}").splitlines()
    return {line.split()[0]: line.split()[1] for line in lines}


def environment(host: Any) -> str:
    """The folder of the only environment."""
    [wheels, folder] = sorted(host.check_output("ls -d /opt/llm/venvs/*").splitlines(), reverse=True)
    assert wheels == f"{folder}.wheels"
    return str(folder)


def test_three_hosts_are_looked_at() -> None:
    assert [name_of(on(name)) for name in UNITS] == ["node1", "node2", "node3"]


@pytest.mark.parametrize("head", HEADS)
def test_openai_client_chats_at_once_and_token_by_token(head: str) -> None:
    openai_client.chats_at_once_and_token_by_token(client(head))


def test_openai_client_gets_the_call_of_a_tool() -> None:
    openai_client.gets_the_call_of_a_tool(client("node3"))


@pytest.mark.parametrize("head", HEADS)
def test_openai_client_is_refused_with_another_key(head: str) -> None:
    openai_client.is_refused_with_another_key(client(head))


def test_each_host_runs_its_units_now_and_at_boot(host: Any) -> None:
    units = UNITS[name_of(host)]
    for unit in (*units, "llm-probe.timer"):
        assert host.service(unit).is_running
        assert host.service(unit).is_enabled
    there = host.check_output("ls /etc/systemd/system").split()
    ours = [name for name in there if name.startswith(("llm-ray", "llm-vllm")) and name.endswith(".service")]
    assert sorted(ours) == units


@pytest.mark.parametrize("head", HEADS)
def test_the_probe_watches_it(head: str) -> None:
    state = json.loads(on(head).file("/run/llm-probe/state.json").content_string)
    assert state["llm-vllm"]["kind"] == "serving"
    invocation = on(head).check_output("systemctl show --property=InvocationID --value llm-vllm.service")
    assert state["llm-vllm"]["container"] == invocation
    assert "llm-ray.service" not in UNITS[head] or state["llm-ray"]["kind"] == "running"


def test_no_process_is_roots_or_has_a_capability(host: Any) -> None:
    for unit in UNITS[name_of(host)]:
        found = processes(host, unit)
        assert len(found) > 1
        assert set(found.values()) == {"llm-vllm"}
        wanted = {f"Cap{kind}:\t{0:016x}" for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} | {"NoNewPrivs:\t1"}
        for pid in found:
            status = host.run(f"cat /proc/{pid}/status").stdout.splitlines()
            # One that has ended since has none.
            assert not status or wanted <= set(status)


def test_the_units_are_hardened(host: Any) -> None:
    for unit in UNITS[name_of(host)]:
        said = host.run(f"systemd-analyze security --no-pager {unit}").stdout
        exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
        assert exposure, said
        assert float(exposure.group(1)) <= MOST_EXPOSURE, said


def test_secrets_are_where_root_and_the_services_read_them_and_nowhere_else(host: Any) -> None:
    name = name_of(host)
    files = {"ray_token": "tiny_split_ray_token"} if name in PAIR else {}
    files |= {"vllm_api_key": f"{HEADS[name]}_api_key"} if name in HEADS else {}
    folder = host.file("/opt/llm/secrets")
    assert (folder.user, folder.group, folder.mode) == ("root", "llm-vllm", 0o2750)
    shown = host.check_output("journalctl --no-pager --output=cat; cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    for unit in UNITS[name]:
        variables = host.file(f"/opt/llm/secrets/{unit.removesuffix('.service')}.env")
        assert (variables.user, variables.mode) == ("root", 0o600)
        shown += host.check_output(f"systemctl cat {unit}; systemctl show {unit}") + variables.content_string
    for there, here in files.items():
        file = host.file(f"/opt/llm/secrets/{there}")
        assert (file.user, file.group, file.mode) == ("root", "llm-vllm", 0o640)
        assert file.content_string.strip() == secret(here)
        assert secret(here) not in shown


@pytest.mark.parametrize("head", HEADS)
def test_variables_arrive_as_they_were_written(head: str) -> None:
    host = on(head)
    said = host.check_output(f"cat /proc/{main_process(host, 'llm-vllm.service')}/environ").split("\0")
    assert 'LAB_TOKEN=a "b" \\c $HOME %n `d`' in said
    assert "%n `d`" not in host.check_output("systemctl cat llm-vllm.service")


def test_the_records_have_evidence_of_it(host: Any) -> None:
    for unit in UNITS[name_of(host)]:
        role = unit.removeprefix("llm-").removesuffix(".service")
        evidence = json.loads(host.file(f"/opt/llm/records/{role}.json").content_string)["evidence"]
        assert evidence["units"][unit]["ActiveState"] == "active"
        assert evidence["started"][unit] == {"has_read": True}
        assert f"/etc/systemd/system/{unit}" in evidence["paths"]


@pytest.mark.parametrize("deployment", HEADS.values())
def test_the_controller_keeps_what_the_start_measured(deployment: str) -> None:
    kept = json.loads((STATE / f"reports/observations/{deployment}-0.32.0.json").read_text())
    assert kept["truth"]["kv_cache_tokens"] > 0


def test_the_server_runs_from_it_as_a_user_who_cannot_change_it(single: Any) -> None:
    top = environment(single)
    pid = main_process(single, "llm-vllm.service")
    assert f"{top}/bin" in single.check_output(f"tr '\\0' '\\n' </proc/{pid}/environ")
    assert top in single.check_output(f"tr '\\0' ' ' </proc/{pid}/cmdline; cat /proc/{pid}/maps")
    assert single.run(f"runuser -u llm-vllm -- touch {top}/mark").rc != 0
    assert single.check_output(f"find {top} ! -user root -o ! -type l -perm /022") == ""
    assert single.check_output(f"find {top} ! -type l ! -perm -004") == ""


def test_its_packages_are_those_of_the_lock(single: Any) -> None:
    top = environment(single)
    lock = single.file(f"{top}.wheels/requirements.txt").content_string.splitlines()
    program = (
        "import importlib.metadata as m; [print(d.metadata['Name'] + '==' + d.version) for d in m.distributions()]"
    )
    found = single.check_output(f'{top}/bin/python3 -I -c "{program}"').splitlines()
    assert len(found) == len(lock) > 50

    def plain(lines: list[str]) -> list[str]:
        return sorted(line.split(" ")[0].lower().replace("_", "-").replace(".", "-") for line in lines)

    assert plain(found) == plain(lock)


def test_it_writes_to_its_caches_and_nowhere_else(single: Any) -> None:
    pid = main_process(single, "llm-vllm.service")
    inside = f"nsenter --target {pid} --mount runuser -u llm-vllm -- sh -c"
    assert single.run(f"{inside} 'touch {CACHE}/mark && rm {CACHE}/mark'").rc == 0
    for folder in (environment(single), "/opt/llm", "/etc", "/var", "/usr/local"):
        assert single.run(f"{inside} 'touch {folder}/mark'").rc != 0
    cache = single.file(CACHE)
    assert (cache.user, cache.mode) == ("llm-vllm", 0o700)
    assert single.check_output(f"find {CACHE} -type f | head -1")


def test_the_record_has_evidence_of_its_environment(single: Any) -> None:
    evidence = json.loads(single.file("/opt/llm/records/vllm.json").content_string)["evidence"]
    top = environment(single)
    assert evidence["environments"] == {top: {"whole": True}}
    assert f"{top}/llm-environment.json" in evidence["paths"]


def test_nothing_is_left_of_the_container(single: Any) -> None:
    assert single.check_output("docker ps --all --format '{{.Names}}'") == ""


@pytest.mark.parametrize("name", PAIR)
def test_the_pair_ran_on(name: str) -> None:
    now = on(name).check_output("systemctl show --property=Id,InvocationID llm-ray.service llm-vllm.service")
    assert now == on(name).file("/root/marks").content_string.strip()


@pytest.mark.parametrize("name", PAIR)
def test_the_ranks_run_on_both_hosts(name: str) -> None:
    pids = processes(on(name), "llm-ray.service")
    said = on(name).check_output(f"ps -o args= -p {','.join(pids)}")
    assert len([line for line in said.splitlines() if line.startswith("ray::RayWorker")]) == 1, said


@pytest.mark.parametrize("name", PAIR)
def test_the_session_of_ray_is_seen_by_its_user_only(name: str) -> None:
    folder = on(name).file("/var/lib/llm-vllm")
    assert (folder.user, folder.mode) == ("llm-vllm", 0o700)
    assert len(on(name).check_output("ls -d /var/lib/llm-vllm/ray/session_2*").splitlines()) == 1
    assert not on(name).file("/tmp/ray").exists


@pytest.mark.parametrize("name", PAIR)
def test_nobody_joins_without_the_token(name: str) -> None:
    asks = f"/opt/vllm/bin/python3 /opt/llm/scripts/cluster.py {DATA['node1']}:6379"
    assert on(name).run(f"env RAY_AUTH_MODE=token RAY_AUTH_TOKEN=wrong timeout 60 {asks}").rc != 0


@pytest.mark.parametrize(("name", "port"), [("node1", 6379), ("node1", 6380), ("node2", 6380), ("node2", 6385)])
def test_members_reach_the_ports_of_ray_and_another_host_does_not(name: str, port: int) -> None:
    tries = f"timeout 3 bash -c '</dev/tcp/{DATA[name]}/{port}'"
    member = next(other for other in PAIR if other != name)
    assert on(member).run(tries).rc == 0
    assert on("node3").run(tries).rc != 0


@pytest.mark.parametrize("name", PAIR)
def test_no_name_server_is_needed_to_know_the_other_ranks(name: str) -> None:
    """torch asks for the name behind each address, in this form."""
    host = on(name)
    pid = main_process(host, "llm-ray.service")
    for other in PAIR:
        said = host.check_output(f"nsenter --target {pid} --mount getent -s hosts:files hosts ::ffff:{DATA[other]}")
        assert said.split() == [f"::ffff:{DATA[other]}", f"{other}.rank"]
    assert ".rank" not in host.file("/etc/hosts").content_string


def test_the_benchmark_measured_the_pair_beside_the_server() -> None:
    [file] = (STATE / "reports/benchmarks/tiny_split").glob("*.json")
    found = json.loads(file.read_text())
    assert (found["num_prompts"], found["completed"], found["max_concurrency"]) == (8, 8, 4)
    assert found["total_output_tokens"] == 8 * 16
    assert 0 < found["median_ttft_ms"] <= found["p99_ttft_ms"]
