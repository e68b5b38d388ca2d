"""What Ansible Galaxy shows of the collection: its metadata and a README.md for each role."""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.docs_commands import blocks
from tests.support.each import check_each

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())
PUBLIC = [role for role in ROLES if role.name != "common"]
# Words in a README.md that begin like a variable and are none.
GROUPS = {"llm_deployments", "llm_gateway", "llm_monitoring", "llm_web_ui"}
TAGS = {f"{role.name}_{step}" for role in ROLES for step in ("install", "configure", "validate")}
VARIABLE = re.compile(rf"(?<![\w./])(?:{'|'.join(['llm', *(role.name for role in ROLES)])})_\w+")
# Written by tools in a checkout, so absent from a clean one.
OUTPUTS = {"build", "changelogs/.plugin-cache.yaml"}


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def galaxy() -> dict[str, Any]:
    found: dict[str, Any] = read(ROOT / "galaxy.yml")
    return found


def variables() -> set[str]:
    """Every variable that the argument_specs of a role describe."""
    specs = [entry for role in ROLES for entry in read(role / "meta/argument_specs.yml")["argument_specs"].values()]
    return {name for entry in specs for name in entry.get("options") or {}}


def examples(role: Path) -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```$", (role / "README.md").read_text(), re.DOTALL | re.MULTILINE)


def test_the_action_group_holds_every_module() -> None:
    group = read(ROOT / "meta/runtime.yml")["action_groups"]["llm"]
    assert group == sorted(path.stem for path in (ROOT / "plugins/modules").glob("*.py"))


def test_each_role_has_a_readme() -> None:
    """Galaxy imports no collection with a role that has none."""
    assert [role.name for role in ROLES if not (role / "README.md").read_text().startswith(f"# {role.name}\n")] == []


def test_galaxy_accepts_the_tags() -> None:
    tags = galaxy()["tags"]
    assert len(tags) <= 20
    assert tags == sorted(set(tags))
    assert [tag for tag in tags if not re.fullmatch(r"[a-z][a-z0-9_]*", tag)] == []


def test_every_ignored_path_exists() -> None:
    paths = {entry for entry in galaxy()["build_ignore"] if not re.search(r"[*?]|^\.", entry)}
    assert {path for path in paths - OUTPUTS if not (ROOT / path).exists()} == set()


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "README.zh-CN.md",
        "CODE_OF_CONDUCT.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "LICENSE",
        "docs/index.md",
        "docs/zh/index.md",
    ],
)
def test_the_tarball_holds_the_front_pages(path: str) -> None:
    assert (ROOT / path).is_file()
    assert [entry for entry in galaxy()["build_ignore"] if fnmatch.fnmatch(path, entry)] == []


def test_the_readme_has_the_sections_that_galaxy_expects() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    wanted = ["Requirements", "Installation", "Use cases", "Testing", "Support", "Release notes", "License"]
    assert [heading for heading in headings if heading in wanted] == wanted


def test_each_role_has_a_short_readme_with_variables_and_links_that_exist() -> None:
    known = variables()

    def check(role: Path) -> None:
        text = (role / "README.md").read_text()
        assert text.startswith(f"# {role.name}\n")
        assert 20 <= len(text.splitlines()) <= 60
        named = set(VARIABLE.findall(text)) - {path.name for path in ROLES} - GROUPS - TAGS
        assert named
        assert named - known == set()
        targets = re.findall(r"\]\((?!https?:)([^)#]+)", text)
        assert [target for target in targets if not (role / target).resolve().exists()] == []
        assert blocks(role / "README.md") == [], (
            "blocks of commands are for README.md and docs/, whose blocks tests run"
        )

    check_each({role.name: role for role in PUBLIC}, check)


@pytest.mark.slow
def test_the_example_playbooks_are_valid(tmp_path: Path) -> None:
    playbooks = []
    for role in PUBLIC:
        found = [text for text in examples(role) if isinstance(yaml.safe_load(text), list)]
        assert found, f"{role.name} has no example playbook"
        for number, text in enumerate(found):
            playbook = tmp_path / f"{role.name}_{number}.yml"
            playbook.write_text(text)
            playbooks.append(str(playbook))
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "--syntax-check", "-i", "gpu01,", *playbooks],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
