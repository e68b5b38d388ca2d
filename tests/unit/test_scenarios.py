"""molecule/scenarios.yml agrees with the folders, the paths and the page that it speaks of."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests import scenarios

KNOWN = scenarios.load()
ROOT = scenarios.ROOT


def test_each_folder_with_a_scenario_is_listed() -> None:
    assert sorted(KNOWN) == sorted(path.parent.name for path in ROOT.glob("molecule/*/molecule.yml"))


def test_tiers_and_states_are_known() -> None:
    assert {one.tier for one in KNOWN.values()} == set(scenarios.TIERS)
    assert {one.begins for one in KNOWN.values()} <= {"bare", "prepared", "loaded", "serving"}
    assert [one.name for one in KNOWN.values() if one.tier == "gate"] == ["road", "hosts", "preflight"]


def test_what_is_guarded_exists() -> None:
    missing = [f"{one.name}: {path}" for one in KNOWN.values() for path in one.guards if not any(ROOT.glob(path))]
    assert missing == []


def test_each_part_of_the_collection_is_guarded() -> None:
    """Each role, playbook and subject of plugin_utils: a change of it concerns at least one scenario."""
    parts = [*ROOT.glob("roles/*"), *ROOT.glob("playbooks/*.yml"), *ROOT.glob("plugins/plugin_utils/*/")]
    parts += [*ROOT.glob("plugins/modules/*.py"), *ROOT.glob("plugins/module_utils/*.py")]
    names = [str(path.relative_to(ROOT)) for path in parts if path.name not in ("__init__.py", "__pycache__")]
    assert len(names) > 50
    free = [name for name in names if not any(one.is_concerned([f"{name}", f"{name}/x"]) for one in KNOWN.values())]
    assert free == []


def test_a_guard_is_a_path_and_no_beginning_of_a_name() -> None:
    one = scenarios.Scenario("venv", "full", "bare", "", ("roles/vllm", "plugins/*/bundle_*.py", "playbooks/site.yml"))
    assert one.is_concerned(["roles/vllm/tasks/main.yml"])
    assert one.is_concerned(["molecule/venv/tests/test_venv.py", "README.md"])
    assert one.is_concerned(["playbooks/site.yml"])
    assert one.is_concerned(["plugins/action/bundle_copy.py"])
    assert not one.is_concerned(["roles/vllm_next/tasks/main.yml", "molecule/venv2/x", "playbooks/site.yml.bak"])


def test_the_page_has_the_table() -> None:
    page = scenarios.PAGE.read_text()
    assert scenarios.table(KNOWN) in page, "write it anew: python -m tests.scenarios"
    assert scenarios.with_table(page, KNOWN) == page


def test_files_that_differ_from_a_commit(tmp_path: Path) -> None:
    def git(*command: str) -> str:
        identity = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
        done = subprocess.run(("git", *identity, *command), cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "--quiet")
    for name in ("kept", "committed", "edited"):
        (tmp_path / name).write_text("1")
    git("add", "--all")
    git("commit", "--quiet", "--message", "One")
    first = git("rev-parse", "HEAD")
    (tmp_path / "committed").write_text("2")
    git("commit", "--quiet", "--all", "--message", "Two")
    (tmp_path / "edited").write_text("2")
    (tmp_path / "new file").touch()
    assert scenarios.changed_files(first, tmp_path) == ["committed", "edited", "new file"]
    assert scenarios.changed_files("0" * 40, tmp_path) is None
