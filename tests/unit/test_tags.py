"""--tags ROLE runs that role of the road, with what it needs and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHECKS = {"Inventory | Check it", "Bundle | Compare it with its manifest", "Preflight | Look at the hosts"}
PLAN, NETWORK = "Plan | Choose sizes and flags", "Network | Prove it, and close it to strangers"
PREPARE, SERVE = "Prepare | Driver, engine and toolkit", "Serve | Start the cluster and the model"
PLAYS = {
    "nvidia_driver": {PREPARE},
    "docker": {PREPARE},
    "nvidia_container_toolkit": {PREPARE},
    "network": {PLAN, NETWORK},
    "images": {"Images | Bring them to the hosts"},
    "models": {"Models | Bring them to the hosts"},
    "ray": {PLAN, NETWORK, SERVE},
    "vllm": {PLAN, NETWORK, "Collective | All-reduce over every rank", SERVE, "Serve | Ask the model"},
}


def test_the_name_of_a_role_is_a_tag() -> None:
    done = subprocess.run(
        ["ansible-playbook", "playbooks/site.yml", "--inventory", "inventories/single_node", "--list-tags"],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    found = re.findall(r"play #\d+ \([^)]*\): (.*?)\tTAGS.*\n\s+TASK TAGS: \[(.*)\]", done.stdout)
    tags = {play: set(names.split(", ")) for play, names in found}
    assert set(tags) >= CHECKS
    for role, plays in PLAYS.items():
        assert (ROOT / "roles" / role).is_dir()
        assert {play for play in tags if role in tags[play]} == plays, role
    assert all(tags[play] == {"always"} for play in CHECKS)
