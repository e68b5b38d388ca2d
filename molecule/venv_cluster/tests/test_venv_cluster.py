"""Ray and vLLM as services of systemd over two hosts, from a Python environment of each; killed, stopped and healed since."""

from __future__ import annotations

import json
import re
from typing import Any

import openai
import pytest
import testinfra

from lab.config import STATE, load

DATA = {name: load().nodes[name].data for name in ("node1", "node2", "node3")}
UNITS = {"node1": ["llm-ray.service", "llm-vllm.service"], "node2": ["llm-ray.service"]}
testinfra_hosts = [f"ssh://{name}" for name in UNITS]
# As docs/security.md says it, with room for what releases of systemd count differently.
MOST_EXPOSURE = 2.0


def on(name: str) -> Any:
    return testinfra.get_host(f"ssh://{name}", ssh_config=str(STATE / "ssh/config"))


def units_of(host: Any) -> list[str]:
    return UNITS[host.check_output("hostname")]


def key() -> str:
    return (STATE / "secrets/tiny_pair_api_key").read_text().strip()


def processes(host: Any, unit: str) -> dict[str, str]:
    """The numbers of a service's processes with their users."""
    found = host.check_output(f"grep --files-with-matches --no-messages /{unit} /proc/[0-9]*/cgroup; true").split()
    pids = [path.split("/")[2] for path in found]
    lines = host.check_output(f"ps -o pid=,user= -p {','.join(pids)}").splitlines()
    return {line.split()[0]: line.split()[1] for line in lines}


def test_two_hosts_are_looked_at() -> None:
    assert [on(name).check_output("hostname") for name in UNITS] == ["node1", "node2"]


def test_openai_client_gets_a_token() -> None:
    client = openai.OpenAI(base_url=f"http://{DATA['node1']}:8000/v1", api_key=key(), max_retries=0, timeout=120)
    answer = client.completions.create(model="tiny", prompt="Hello", max_tokens=4, temperature=0)
    assert answer.usage
    assert answer.usage.completion_tokens == 4
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="nobody").models.list()


def test_there_is_no_engine(host: Any) -> None:
    assert host.run("command -v docker dockerd containerd nvidia-ctk").rc != 0


def test_each_host_runs_its_units_now_and_at_boot(host: Any) -> None:
    mine = units_of(host)
    for unit in (*mine, "llm-probe.timer"):
        assert host.service(unit).is_running
        assert host.service(unit).is_enabled
    there = host.check_output("ls /etc/systemd/system").split()
    assert sorted(name for name in there if name.startswith(("llm-ray", "llm-vllm"))) == mine


def test_the_ranks_run_on_both_hosts() -> None:
    for name in UNITS:
        pids = processes(on(name), "llm-ray.service")
        said = on(name).check_output(f"ps -o args= -p {','.join(pids)}")
        assert len([line for line in said.splitlines() if line.startswith("ray::RayWorker")]) == 1, said
    probe = json.loads(on("node1").file("/run/llm-probe/state.json").content_string)
    assert (probe["llm-vllm"]["kind"], probe["llm-ray"]["kind"]) == ("serving", "running")


def test_no_process_is_roots_or_has_a_capability(host: Any) -> None:
    for unit in units_of(host):
        found = processes(host, unit)
        assert len(found) > 1
        assert set(found.values()) == {"llm-vllm"}
        for pid in found:
            status = host.run(f"cat /proc/{pid}/status").stdout.splitlines()
            # One that has ended since has none.
            assert not status or {f"Cap{kind}:\t{0:016x}" for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} <= set(
                status
            )


def test_the_units_are_hardened(host: Any) -> None:
    for unit in units_of(host):
        said = host.run(f"systemd-analyze security --no-pager {unit}").stdout
        exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
        assert exposure, said
        assert float(exposure.group(1)) <= MOST_EXPOSURE, said


def test_the_session_of_ray_is_seen_by_its_user_only(host: Any) -> None:
    folder = host.file("/var/lib/llm-vllm")
    assert (folder.user, folder.mode) == ("llm-vllm", 0o700)
    assert len(host.check_output("ls -d /var/lib/llm-vllm/ray/session_2*").splitlines()) == 1
    assert not host.file("/tmp/ray").exists


def test_token_and_key_are_in_no_unit_process_list_or_journal(host: Any) -> None:
    secrets = [key(), (STATE / "secrets/tiny_pair_ray_token").read_text().strip()]
    for unit in units_of(host):
        said = host.check_output(f"systemctl cat {unit}; systemctl show {unit}; journalctl --no-pager --unit={unit}")
        assert not [secret for secret in secrets if secret in said]
    shown = host.check_output("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert not [secret for secret in secrets if secret in shown]
    token = host.file("/opt/llm/secrets/ray_token")
    assert (token.user, token.group, token.mode) == ("root", "llm-vllm", 0o640)


def test_nobody_joins_without_the_token(host: Any) -> None:
    asks = f"/opt/vllm/bin/python3 /opt/llm/scripts/cluster.py {DATA['node1']}:6379"
    assert host.run(f"env RAY_AUTH_MODE=token RAY_AUTH_TOKEN=wrong timeout 60 {asks}").rc != 0


@pytest.mark.parametrize(("name", "port"), [("node1", 6379), ("node1", 6380), ("node2", 6380), ("node2", 6385)])
def test_members_reach_the_ports_of_ray_and_another_host_does_not(name: str, port: int) -> None:
    tries = f"timeout 3 bash -c '</dev/tcp/{DATA[name]}/{port}'"
    member = next(other for other in UNITS if other != name)
    assert on(member).run(tries).rc == 0
    assert on("node3").run(tries).rc != 0


def test_no_name_server_is_needed_to_know_the_other_ranks(host: Any) -> None:
    """torch asks for the name behind each address, in this form."""
    pid = host.check_output("systemctl show --property=MainPID --value llm-ray.service")
    for name in UNITS:
        said = host.check_output(f"nsenter --target {pid} --mount getent -s hosts:files hosts ::ffff:{DATA[name]}")
        assert said.split() == [f"::ffff:{DATA[name]}", f"{name}.rank"]
    assert ".rank" not in host.file("/etc/hosts").content_string


def test_the_records_have_evidence_of_it(host: Any) -> None:
    evidence = json.loads(host.file("/opt/llm/records/ray.json").content_string)["evidence"]
    assert evidence["units"]["llm-ray.service"]["ActiveState"] == "active"
    assert "/etc/systemd/system/llm-ray.service" in evidence["paths"]
    assert not host.file("/opt/llm/records/docker.json").exists


def test_the_benchmark_measured_it_beside_the_server() -> None:
    [file] = (STATE / "reports/benchmarks/tiny_pair").glob("*.json")
    found = json.loads(file.read_text())
    assert (found["num_prompts"], found["completed"], found["max_concurrency"]) == (4, 4, 2)
    assert found["total_output_tokens"] == 4 * 8
    assert 0 < found["median_ttft_ms"] <= found["p99_ttft_ms"]
