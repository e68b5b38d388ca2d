"""The first screen of README.md, word by word: the commands for hosts of one's own, as far as they need none, and its inventory."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.gpus import as_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.one_line import release_for

from tests.support.docs_commands import ROOT, blocks
from tests.support.playbooks import playbook

README = ROOT / "README.md"
# Lines of a terminal in which people read it, and how wide that is.
SCREEN_LINES, SCREEN_COLUMNS = 50, 160
SAMPLES = sorted(path.parent.name for path in ROOT.glob("inventories/*/hosts.yml") if path.parent.name != "lab")


def block(word: str) -> str:
    (found,) = (each.text for each in blocks(README) if word in each.text)
    return found


def command(word: str) -> list[str]:
    """The arguments of the first screen's line with this word."""
    (line,) = (line for each in blocks(README)[:4] for line in each.text.splitlines() if word in line)
    return shlex.split(line)


def test_the_first_screen_has_the_commands() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    shown = "\n".join(lines[:SCREEN_LINES])
    for text in ("git clone", "make demo", "make env", "discover.yml", "site.yml", "plan.yml"):
        assert text in shown
    assert [line for line in lines[:SCREEN_LINES] if len(line) > SCREEN_COLUMNS] == []
    assert len(block("make env").splitlines()) == 3


def test_the_environment_is_made_and_entered_as_it_says() -> None:
    line = block("make env").splitlines()[0]
    assert line == "make env && source .venv/bin/activate"
    for target in ("env", "demo"):
        done = subprocess.run(["make", "--dry-run", "--no-print-directory", target], cwd=ROOT, capture_output=True)
        assert done.returncode == 0, done.stderr


def test_the_next_command_takes_the_folder_that_the_one_before_writes() -> None:
    (default,) = re.findall(r"^llm_inventory_dir: (\S+)", (ROOT / "roles/common/defaults/main.yml").read_text(), re.M)
    assert command("site.yml")[-2:] == ["-i", default]


@pytest.mark.slow
def test_discover_names_each_host_that_does_not_answer_and_writes_nothing(tmp_path: Path) -> None:
    program, *arguments = command("discover.yml")
    assert program == "ansible-playbook"
    folder = tmp_path / "fleet"
    # Names that no resolver knows stand for the reader's hosts (RFC 6761).
    words = [re.sub(r"\bgpu0(\d)\b", r"gpu0\1.invalid", word) for word in arguments]
    done = playbook(*words, "-e", f"llm_inventory_dir={folder}")
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert all(f"gpu0{number}.invalid" in said for number in (1, 2, 3)), said
    assert "DNS" in said
    assert "Traceback" not in said
    assert not folder.exists()


@pytest.mark.slow
def test_the_last_command_takes_an_inventory() -> None:
    program, *arguments = command("site.yml")
    assert program == "ansible-playbook"
    words = [word.replace("inventories/fleet", "inventories/offline_v100") for word in arguments]
    done = playbook(*words, "--syntax-check")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_plan_from_one_line_needs_no_file(tmp_path: Path) -> None:
    """It is run in a folder of its own, and its report stays there."""
    _program, *arguments = command("plan.yml")
    words = [str(ROOT / word) if word.startswith("playbooks/") else word for word in arguments]
    done = playbook(
        *words, cwd=tmp_path, environment={"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "PWD": str(tmp_path)}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "qwen2_5_14b_instruct: starts." in done.stdout
    assert (tmp_path / ".llm/reports/plan.html").is_file()
    assert [path.name for path in tmp_path.iterdir()] == [".llm"]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
def test_its_inventory_plans_as_it_stands(page: str, tmp_path: Path) -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (tmp_path / "hosts.yml").write_text(text, encoding="utf-8")
    done = playbook("playbooks/plan.yml", "-i", tmp_path / "hosts.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "qwen25_14b: starts." in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_plans_as_it_is(sample: str, tmp_path: Path) -> None:
    """Without a bundle, and without a file that is not in the sample."""
    done = playbook("playbooks/plan.yml", "-i", f"inventories/{sample}", "-e", f"llm_report_dir={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert ": starts." in done.stdout
    assert "WARNING" not in done.stdout + done.stderr


def test_a_sample_pins_the_release_that_is_recommended_for_its_gpus() -> None:
    """But for low_memory, which has that of the page about it, and says so."""
    found = {}
    for sample in SAMPLES:
        variables: dict[str, object] = {}
        for path in sorted((ROOT / "inventories" / sample).rglob("*.yml")):
            text = path.read_text(encoding="utf-8")
            pairs = re.findall(r"^ *(vllm_version|llm_gpus): ([^#\n]+)", text, re.MULTILINE)
            variables |= {name: yaml.safe_load(value) for name, value in pairs}
        found[sample] = (variables["vllm_version"], release_for(as_gpus(variables["llm_gpus"])))
    assert "docs/guides/low-memory.md" in (ROOT / "inventories/low_memory/group_vars/llama31_70b.yml").read_text()
    assert {sample for sample, (said, best) in found.items() if said != best} == {"low_memory"}
