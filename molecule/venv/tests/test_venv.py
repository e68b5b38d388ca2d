"""vLLM as a service of systemd, from a Python environment that its host made of wheels of the bundle; killed, changed, and made anew."""

from __future__ import annotations

import json
import re
from typing import Any

import openai
import pytest

from lab.config import STATE, load
from tests.support import openai_client

testinfra_hosts = ["ssh://node3"]
UNIT = "llm-vllm.service"
CACHE = "/opt/llm/cache/venv-0.32.0-7.0"
# What systemd-analyze security says of a unit without any of its settings is 9.6.
MOST_EXPOSURE = 2.0


def key() -> str:
    return (STATE / "secrets/tiny_venv_api_key").read_text().strip()


def client() -> openai.OpenAI:
    url = f"http://{load().nodes['node3'].data}:8000/v1"
    return openai.OpenAI(base_url=url, api_key=key(), max_retries=0, timeout=120)


def processes(host: Any) -> dict[str, str]:
    """The numbers of the service's processes with their users."""
    found = host.check_output(f"grep --files-with-matches --no-messages /{UNIT} /proc/[0-9]*/cgroup; true").split()
    pids = [path.split("/")[2] for path in found]
    lines = host.check_output(f"ps -o pid=,user= -p {','.join(pids)}").splitlines()
    return {line.split()[0]: line.split()[1] for line in lines}


def environment(host: Any) -> str:
    """The folder of the only environment."""
    [wheels, folder] = sorted(host.check_output("ls -d /opt/llm/venvs/*").splitlines(), reverse=True)
    assert wheels == f"{folder}.wheels"
    return str(folder)


def test_one_host_is_looked_at(host: Any) -> None:
    assert host.check_output("hostname") == "node3"


def test_openai_client_chats_at_once_and_token_by_token() -> None:
    openai_client.chats_at_once_and_token_by_token(client())


def test_openai_client_gets_the_call_of_a_tool() -> None:
    openai_client.gets_the_call_of_a_tool(client())


def test_openai_client_is_refused_with_another_key() -> None:
    openai_client.is_refused_with_another_key(client())


def test_there_is_no_engine_and_no_compiler(host: Any) -> None:
    for program in ("docker", "dockerd", "containerd", "nvidia-ctk", "gcc", "cc", "c++", "nvcc", "uv"):
        assert host.run(f"command -v {program}").rc != 0
    assert not host.file("/run/docker.sock").exists
    assert host.check_output("ls -A /var/lib/docker") == ""  # where the lab mounts a disk


def test_no_process_is_roots_or_has_a_capability(host: Any) -> None:
    found = processes(host)
    assert len(found) > 1
    assert set(found.values()) == {"llm-vllm"}
    for pid in found:
        status = host.check_output(f"cat /proc/{pid}/status").splitlines()
        assert {f"Cap{kind}:\t{0:016x}" for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} <= set(status)
        assert "NoNewPrivs:\t1" in status


def test_it_is_hardened(host: Any) -> None:
    said = host.run(f"systemd-analyze security --no-pager {UNIT}").stdout
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
    assert exposure, said
    assert float(exposure.group(1)) <= MOST_EXPOSURE, said


def test_the_server_runs_from_it_as_a_user_who_cannot_change_it(host: Any) -> None:
    top = environment(host)
    pid = host.check_output(f"systemctl show --property=MainPID --value {UNIT}")
    assert f"{top}/bin" in host.check_output(f"tr '\\0' '\\n' </proc/{pid}/environ")
    assert top in host.check_output(f"tr '\\0' ' ' </proc/{pid}/cmdline; cat /proc/{pid}/maps")
    assert host.run(f"runuser -u llm-vllm -- touch {top}/mark").rc != 0
    assert host.check_output(f"find {top} ! -user root -o ! -type l -perm /022") == ""
    assert host.check_output(f"find {top} ! -type l ! -perm -004") == ""


def test_its_packages_are_those_of_the_lock(host: Any) -> None:
    top = environment(host)
    lock = host.file(f"{top}.wheels/requirements.txt").content_string.splitlines()
    program = (
        "import importlib.metadata as m; [print(d.metadata['Name'] + '==' + d.version) for d in m.distributions()]"
    )
    found = host.check_output(f'{top}/bin/python3 -I -c "{program}"').splitlines()
    assert len(found) == len(lock) > 50

    def plain(lines: list[str]) -> list[str]:
        return sorted(line.split(" ")[0].lower().replace("_", "-").replace(".", "-") for line in lines)

    assert plain(found) == plain(lock)


def test_it_writes_to_its_caches_and_nowhere_else(host: Any) -> None:
    pid = host.check_output(f"systemctl show --property=MainPID --value {UNIT}")
    inside = f"nsenter --target {pid} --mount runuser -u llm-vllm -- sh -c"
    assert host.run(f"{inside} 'touch {CACHE}/mark && rm {CACHE}/mark'").rc == 0
    for folder in (environment(host), "/opt/llm", "/etc", "/var", "/usr/local"):
        assert host.run(f"{inside} 'touch {folder}/mark'").rc != 0
    folder = host.file(CACHE)
    assert (folder.user, folder.mode) == ("llm-vllm", 0o700)
    assert host.check_output(f"find {CACHE} -type f | head -1")


def test_the_key_is_where_root_and_the_service_read_it_and_nowhere_else(host: Any) -> None:
    file, folder = host.file("/opt/llm/secrets/vllm_api_key"), host.file("/opt/llm/secrets")
    assert (file.user, file.group, file.mode) == ("root", "llm-vllm", 0o640)
    assert (folder.user, folder.group, folder.mode) == ("root", "llm-vllm", 0o2750)
    environment = host.file("/opt/llm/secrets/llm-vllm.env")
    assert (environment.user, environment.mode) == ("root", 0o600)
    assert key() not in environment.content_string
    assert key() not in host.check_output(f"systemctl cat {UNIT}; systemctl show {UNIT}")
    assert key() not in host.check_output("journalctl --no-pager --output=cat")
    for pid in processes(host):
        assert key() not in host.check_output(f"tr '\\0' ' ' </proc/{pid}/cmdline")


def test_variables_arrive_as_they_were_written(host: Any) -> None:
    pid = host.check_output(f"systemctl show --property=MainPID --value {UNIT}")
    said = host.check_output(f"cat /proc/{pid}/environ").split("\0")
    assert 'LAB_TOKEN=a "b" \\c $HOME %n `d`' in said
    assert "%n `d`" not in host.check_output(f"systemctl cat {UNIT}")


def test_it_starts_at_boot_and_is_watched(host: Any) -> None:
    for unit in (UNIT, "llm-probe.timer"):
        assert host.service(unit).is_enabled
        assert host.service(unit).is_running
    state = json.loads(host.file("/run/llm-probe/state.json").content_string)["llm-vllm"]
    assert state["kind"] == "serving"
    assert state["container"] == host.check_output(f"systemctl show --property=InvocationID --value {UNIT}")


def test_the_record_has_evidence_of_it(host: Any) -> None:
    evidence = json.loads(host.file("/opt/llm/records/vllm.json").content_string)["evidence"]
    assert evidence["units"][UNIT]["ActiveState"] == "active"
    assert evidence["started"][UNIT] == {"has_read": True}
    top = environment(host)
    assert evidence["environments"] == {top: {"whole": True}}
    assert f"{top}/llm-environment.json" in evidence["paths"]
    assert f"/etc/systemd/system/{UNIT}" in evidence["paths"]
    assert not host.file("/opt/llm/records/docker.json").exists


def test_the_controller_keeps_what_the_start_measured() -> None:
    kept = json.loads((STATE / "reports/observations/tiny_venv-0.32.0.json").read_text())
    assert kept["truth"]["kv_cache_tokens"] > 0
