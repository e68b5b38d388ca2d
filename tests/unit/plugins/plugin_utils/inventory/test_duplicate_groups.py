"""Two deployments of one name."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.check import check_inventory
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.duplicate_groups import named_twice

from tests.support.inventories import KNOWN, Inventory

TWICE = """\
all:
  children:
    llm_deployments:
      children:
        qwen:
          hosts: {gpu01: }
        tiny:
          hosts: {gpu03: }
        qwen:
          hosts: {gpu02: }
  vars:
    vllm_api_key: !vault |
      $ANSIBLE_VAULT;1.1;AES256
"""


def test_it_is_found_in_a_file_and_in_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yml"
    file.write_text(TWICE)
    (tmp_path / "broken.yml").write_text("a: [")
    (tmp_path / "hosts.ini").write_text(TWICE)
    found = {"qwen": f"{file}: 5, 9"}
    assert named_twice([str(file)]) == named_twice([str(tmp_path)]) == found
    assert named_twice([str(tmp_path / "hosts.ini"), "gpu01,", str(tmp_path / "nowhere.yml")]) == {}


def test_the_same_name_in_two_files_is_one_deployment(tmp_path: Path) -> None:
    once = TWICE.replace("        qwen:\n          hosts: {gpu02: }\n", "")
    for name in ("a.yml", "b.yml"):
        (tmp_path / name).write_text(once)
    assert named_twice([str(tmp_path)]) == {}


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_it_is_refused(inventory: Inventory, lang: str) -> None:
    found = check_inventory(inventory.hosts, inventory.groups, KNOWN, twice={"qwen": "hosts.yml: 5, 9"}, lang=lang)
    (problem,) = found["problems"]
    assert (problem["code"], problem["value"], problem["where"]) == ("deployment_twice", "qwen", "hosts.yml: 5, 9")
