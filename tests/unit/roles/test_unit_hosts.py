"""What units see in place of /etc/hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tasks import decision, run_tasks

# Playbooks in processes.
pytestmark = pytest.mark.slow


def test_the_names_of_the_ranks_are_added_to_those_of_the_host(tmp_path: Path) -> None:
    venv = {"vllm_runtime": "venv", "vllm_python": "/opt/vllm/bin/python3", "vllm_version": "0.20.0"}
    known = {"llm_decision": decision("ray", **venv)}
    file = known["llm_decision"]["hosts"]["a"]["hosts_file"]
    assert file["path"] == "/opt/llm/scripts/hosts"
    file["path"] = str(tmp_path / "scripts/hosts")
    before = Path("/etc/hosts").read_text()
    for changed in ("changed=1", "changed=0"):
        status, said, _calls = run_tasks(tmp_path, "common", "unit_hosts.yml", "", known)
        assert status == 0, said
        assert changed in said
    ranks = "::ffff:127.0.0.1 a.rank\n::ffff:127.0.0.2 b.rank\n"
    assert Path(file["path"]).read_text() == f"{before.rstrip()}\n{ranks}"
    assert Path(file["path"]).stat().st_mode & 0o777 == 0o644
    assert Path("/etc/hosts").read_text() == before
