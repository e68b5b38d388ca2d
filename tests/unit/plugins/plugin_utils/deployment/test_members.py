"""What the hosts of a deployment have in common."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Deployment

from tests.support.deployments import deployment


def test_the_hosts_of_the_ranks_have_names_in_the_form_that_torch_asks_for() -> None:
    made = deployment(ranks=(1, 1, 0))
    assert made.etc_hosts == {"gpu1.rank": "::ffff:10.0.0.1", "gpu2.rank": "::ffff:10.0.0.2"}
    made.variables["gpu2"]["llm_interface"]["address"] = "fd00::2"
    again = Deployment("tiny", "gpu1", made.hosts, made.plan, "image:1", made.variables)
    assert again.etc_hosts["gpu2.rank"] == "fd00::2"
    assert deployment(ranks=(2,)).etc_hosts == {}


def test_a_release_without_its_own_all_reduce_is_not_told_to_leave_it() -> None:
    found = {"llm_gpu_p2p": {"0": {"1": False}, "1": {"0": False}}}
    for version, switched_off in (("0.2.7", False), ("0.3.0", True)):
        one = deployment("mp", (2,), found=found, vllm_version=version)
        assert ("--disable-custom-all-reduce" in one.launch["gpu1"]["argv"]) is switched_off


@pytest.mark.parametrize(
    ("p2p", "disabled"),
    [
        ([None, None], False),
        # A host whose GPUs nobody asked counts as one that said nothing.
        ([None, {"GPU0": {"GPU1": True}}], False),
        ([None, {"GPU0": {"GPU1": False}}], True),
        ([{"GPU0": {"GPU1": False}}, None], True),
    ],
)
def test_gpus_that_cannot_read_each_other_go_without_vllms_own_all_reduce(p2p: list[Any], disabled: bool) -> None:
    made = deployment("ray", (2, 2))
    for name, found in zip(made.hosts, p2p, strict=True):
        made.variables[name]["ansible_facts"] = {} if found is None else {"llm_gpu_p2p": found}
    assert ("--disable-custom-all-reduce" in made.launch["gpu1"]["argv"]) is disabled
    # What somebody asked for stays.
    asked = {**made.plan, "settings": {"disable_custom_all_reduce": True}}
    again = Deployment("tiny", "gpu1", made.hosts, asked, "image:1", made.variables)
    assert "--disable-custom-all-reduce" in again.launch["gpu1"]["argv"]
