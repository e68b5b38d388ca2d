"""After a change of two settings of one deployment, for which both replicas were started anew in turns."""

from __future__ import annotations

import json
import re
from pathlib import Path

import openai
import testinfra

from lab.config import STATE, load
from tests.support import openai_client


def on(name: str, command: str) -> str:
    done = testinfra.get_host(f"ssh://{name}", ssh_config=str(STATE / "ssh/config")).run(command)
    assert done.rc == 0, done.stderr_bytes
    # Some files of a host hold no text.
    return bytes(done.stdout_bytes).decode(errors="replace").rstrip("\r\n")


def test_one_server_only_has_the_setting() -> None:
    options = {name: on(name, "docker exec llm-vllm cat /llm/vllm.yaml").splitlines() for name in ("node1", "node3")}
    assert {name: "max-num-seqs: 16" in lines for name, lines in options.items()} == {"node1": False, "node3": True}


def test_openai_client_gets_the_call_of_a_tool() -> None:
    """From the deployment that has a parser for them now."""
    key = (STATE / "secrets/tiny_single_api_key").read_text().strip()
    url = f"http://{load().nodes['node3'].data}:8000/v1"
    openai_client.gets_the_call_of_a_tool(openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=120))


def test_the_controller_keeps_what_the_new_start_measured() -> None:
    kept = json.loads((STATE / "reports/observations/tiny_single-0.32.0.json").read_text())
    assert kept["gpu"] == "Tesla V100-PCIE-16GB"
    assert kept["prediction"]["kv_cache_tokens"] > 0
    assert kept["truth"]["kv_cache_tokens"] > 0


# -- marked secrets ---------------------------------------------------------------------------------------------------
# Of shared/files/setting.yml, and what the controller made.
MARK = "marked-7f3a91"
NAMES = ("node1", "node2", "node3")
KEPT = sorted(path for path in (STATE / "secrets").iterdir() if path.is_file() and not path.name.endswith(".crt"))
# Where a host keeps them, for root and its group; what it goes back to, for root alone; and what is large.
LEFT_OUT = r"\( -path /opt/llm/secrets -o -path /opt/llm/served.json -o -path /opt/llm/models \) -prune -o"


def secrets() -> list[str]:
    """Each in a line of its own; of a private key one line is enough."""
    values = [max(path.read_text().split("\n"), key=len).strip() for path in KEPT]
    return [MARK, *(value for value in values if len(value) >= 16)]


def test_the_server_got_the_marked_variables() -> None:
    # The first process of the container is Docker's own.
    look = "docker top llm-vllm -eo pid | tail -n +2 | while read -r pid; do cat /proc/$pid/environ; done"
    environment = on("node3", look).split("\0")
    assert {each.partition("=")[0] for each in environment if MARK in each} == {"HF_TOKEN", "MY_AUTH", "some_proxy"}
    assert on("node3", "stat --format %a:%U:%G /opt/llm/secrets/vllm.environment").strip() == "640:root:root"
    assert on("node3", "stat --format %a:%U:%G /opt/llm/served.json").strip() == "600:root:root"


def test_no_secret_stands_in_what_the_run_said() -> None:
    said = (STATE / "turns.txt").read_text()
    assert "vllm.environment" in said, "with -vvv the task is there"
    assert [value for value in secrets() if value in said] == []


def test_no_secret_stands_in_a_report() -> None:
    reports = [path for path in (STATE / "reports").rglob("*") if path.is_file()]
    assert len(reports) > 3
    found = {path.name for path in reports for value in secrets() if value in path.read_text(errors="replace")}
    assert found == set()
    assert Path(STATE / "reports/decision.json").stat().st_mode & 0o777 == 0o600


def test_no_secret_stands_on_a_host_but_in_its_files() -> None:
    """In the journal, files of asynchronous tasks, containers, units, command lines, records, and all else that the collection and Ansible write."""
    looks = (
        "journalctl --no-pager --output=cat",
        "cat /root/.ansible_async/* /root/.ansible/tmp/*/* 2>/dev/null || true",
        "docker ps --all --quiet | xargs --no-run-if-empty docker inspect",
        "systemctl show '*' --no-pager",
        "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '",
        f"find /opt/llm /etc /run/llm-probe* {LEFT_OUT} -type f -size -1024k -print0 2>/dev/null | xargs -0 cat 2>/dev/null || true",
    )
    found = []
    for name in NAMES:
        for look in looks:
            said = on(name, look)
            assert said or "async" in look, (name, look)
            found += [(name, look, re.sub(r"\w", "x", value[4:])) for value in secrets() if value in said]
    assert found == []
