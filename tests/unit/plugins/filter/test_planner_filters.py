# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner's filters: thin, documented, and with errors that Ansible shows."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError

NAMES = (
    "predict_start",
    "valid_tp_sizes",
    "valid_pp_sizes",
    "plan_deployment",
    "vllm_arguments",
    "diagnose_log",
    "recommended_release",
    "parse_engine_log",
    "plan_report",
)


def load(name: str) -> Any:
    return importlib.import_module(f"ansible_collections.baremetal.llm.plugins.filter.{name}")


@pytest.mark.parametrize("name", NAMES)
def test_documented(name: str) -> None:
    plugin = load(name)
    assert list(plugin.FilterModule().filters()) == [name]
    documentation = yaml.safe_load(plugin.DOCUMENTATION)
    assert documentation["name"] == name
    shared = documentation.get("extends_documentation_fragment", [])
    assert "baremetal.llm.model" in shared or documentation["options"]["_input"]
    assert yaml.safe_load(plugin.EXAMPLES)
    assert "_value" in yaml.safe_load(plugin.RETURN)


def test_bad_input_is_a_filter_error() -> None:
    with pytest.raises(AnsibleFilterError, match="num_hidden_layers"):
        load("predict_start").predict_start(
            {"hidden_size": 64}, [{"name": "Tesla T4", "memory_mib": 15360}], {"vllm_version": "0.8.5"}
        )
    with pytest.raises(AnsibleFilterError, match="swap_space"):
        load("vllm_arguments").vllm_arguments({"swap_space": 1}, "0.33.0")
