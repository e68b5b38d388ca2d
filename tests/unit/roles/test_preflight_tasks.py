"""What preflight reads."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

TASKS = Path(__file__).parents[3] / "roles/preflight/tasks"
MODULES = Path(__file__).parents[3] / "plugins/modules"


def fact_modules(name: str) -> set[str]:
    """The modules of a task file that set facts."""
    used = {key for task in yaml.safe_load((TASKS / name).read_text()) for key in task if "." in key}
    return {
        module
        for module in used
        if module == "ansible.builtin.setup"
        or (
            module.startswith("baremetal.llm.")
            and re.search(r"\bansible_facts=", (MODULES / f"{module.rpartition('.')[2]}.py").read_text())
        )
    }


def test_hosts_outside_of_a_run_are_read_as_those_in_it() -> None:
    """With --limit both decide on the same network and the same RDMA."""
    own = {"baremetal.llm.host_facts"}  # memory and the like concern nobody else
    assert fact_modules("host.yml") - own == fact_modules("others.yml")
    assert "baremetal.llm.nic_facts" in fact_modules("host.yml")
