"""The page to print: every command is one that there is, with names that a shell takes as they are."""

from __future__ import annotations

import html
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.runbook import ENTRIES, commands, runbook_page

from tests.support.playbooks import playbook

ROOT = Path(__file__).resolve().parents[5]
FLEET: dict[str, Any] = {
    "deployments": {
        "chat": {"hosts": ["gpu01", "gpu 2"], "head": "gpu01"},
        "one<b>": {"hosts": ["gpu03"], "head": "gpu03"},
    },
    "groups": {"llm_gateway": ["gw"], "all": ["gpu01", "gpu 2", "gpu03", "gw"]},
    "addresses": {"gpu01": "10.0.0.1", "gpu 2": "10.0.0.2", "gpu03": "10.0.0.3", "gw": "10.0.0.9", "desk": "10.0.0.7"},
    "inventories": ["/srv/my fleet"],
    "form": "playbooks/{name}.yml",
    "folders": {"llm_secrets_dir": "/srv/secrets", "llm_bundle_dir": ""},
    "made": "2026-01-01",
    "collection": "1.0.0",
}


def test_every_command_is_one_that_there_is() -> None:
    known = {*known_variables()}
    for entry in ENTRIES:
        plays = yaml.safe_load((ROOT / f"playbooks/{entry.playbook}.yml").read_text())
        assert plays, entry
        assert not entry.page or all(
            (ROOT / f"{folder}/runbooks/{entry.page}.md").exists() for folder in ("docs", "docs/zh")
        ), entry
        for option in entry.options:
            variable = re.match(r"-e (\w+)=", option)
            known_option = option.startswith(("--limit ", "--vault-password-file "))
            assert known_option or (variable and variable[1] in known), entry


def test_every_runbook_has_a_command() -> None:
    """Alerts lead to their own pages, and the index to all of them."""
    pages = {path.stem for path in (ROOT / "docs/runbooks").glob("*.md")} - {"index", "alerts"}
    assert pages - {entry.page for entry in ENTRIES} == set()


def test_a_shell_refuses_what_its_reader_has_not_filled_in() -> None:
    command = next(commands(entry, FLEET)[0] for entry in ENTRIES if entry.code == "backup")
    done = subprocess.run(["bash", "-c", command.replace("ansible-playbook", "true")], capture_output=True, text=True)
    assert done.returncode != 0
    assert "a file to write" in done.stderr


def test_names_are_quoted_for_the_shell() -> None:
    said = {entry.code: commands(entry, FLEET) for entry in ENTRIES}
    assert said["wrong"] == ["ansible-playbook playbooks/doctor.yml -i '/srv/my fleet'"]
    assert [shlex.split(line)[-3] for line in said["host_dead"]] == ["llm_node=gpu01", "llm_node=gpu 2"]
    assert [shlex.split(line)[-1] for line in said["host_new"]] == [
        "llm_node=gpu01",
        "llm_node=gpu 2",
        "llm_node=gpu03",
    ]
    assert shlex.split(said["back"][1])[-4:] == ["-e", "gateway_replica=one<b>", "-e", "gateway_undrain=true"]
    without = {**FLEET, "groups": {}}
    assert commands(next(entry for entry in ENTRIES if entry.code == "out"), without) == []


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_page_has_the_fleet_and_nothing_unescaped(lang: str) -> None:
    page = runbook_page(FLEET, lang)
    assert "<b>" not in page
    assert "10.0.0.9" in page
    assert "desk" not in page, "a machine that is not ours"
    assert page.count("docs/zh/runbooks/") == (page.count("/runbooks/") if lang == "zh" else 0)
    assert "llm_bundle_dir" not in page, "where there is none"
    for entry in ENTRIES:
        for line in commands(entry, FLEET, lang):
            assert line in html.unescape(page)


@pytest.mark.slow
def test_the_playbook_writes_it(tmp_path: Path) -> None:
    hosts = "all: {children: {llm_deployments: {children: {chat: {hosts: {gpu01: {ansible_host: 192.0.2.7}}}}}}}\n"
    (tmp_path / "hosts.yml").write_text(hosts)
    given = ["-e", "llm_language=zh", "-e", "vllm_model=Qwen/Qwen2.5-7B-Instruct", "-e", "vllm_version=0.8.5.post1"]
    done = playbook("playbooks/runbook.yml", "-i", tmp_path / "hosts.yml", *given)
    assert done.returncode == 0, done.stdout
    page = (tmp_path / ".llm/reports/runbook.html").read_text()
    assert "192.0.2.7" in page
    assert f"-i {tmp_path}/hosts.yml" in page
    assert '<html lang="zh">' in page
