"""vLLM from a Python environment that its host made of wheels of the bundle; damaged once, and made anew."""

from __future__ import annotations

import json
from typing import Any

import openai

from lab.config import STATE, load

testinfra_hosts = ["ssh://node3"]
UNIT = "llm-vllm.service"
CHAT: Any = [{"role": "user", "content": "Hello"}]


def environment(host: Any) -> str:
    """The folder of the only environment."""
    [wheels, folder] = sorted(host.check_output("ls -d /opt/llm/venvs/*").splitlines(), reverse=True)
    assert wheels == f"{folder}.wheels"
    return str(folder)


def test_one_host_is_looked_at(host: Any) -> None:
    assert host.check_output("hostname") == "node3"


def test_openai_client_gets_tokens() -> None:
    key = (STATE / "secrets/tiny_wheels_api_key").read_text().strip()
    url = f"http://{load().nodes['node3'].data}:8000/v1"
    client = openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=120)
    answer = client.chat.completions.create(model="tiny", messages=CHAT, max_tokens=8, temperature=0)
    assert answer.usage
    assert answer.usage.completion_tokens == 8


def test_there_is_no_engine_and_no_compiler(host: Any) -> None:
    for program in ("docker", "dockerd", "gcc", "cc", "c++", "nvcc", "uv"):
        assert host.run(f"command -v {program}").rc != 0


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


def test_the_record_has_evidence_of_it(host: Any) -> None:
    top = environment(host)
    evidence = json.loads(host.file("/opt/llm/records/vllm.json").content_string)["evidence"]
    assert evidence["environments"] == {top: {"whole": True}}
    assert f"{top}/llm-environment.json" in evidence["paths"]
    assert evidence["started"][UNIT] == {"has_read": True}
