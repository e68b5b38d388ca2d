"""What each host of a deployment starts."""

from __future__ import annotations

import json

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.launch import host_sections

from tests.support.deployments import deployment


def test_sections_are_plain_data() -> None:
    made = deployment("mp", (1, 1, 0))
    for name in made.hosts:
        sections = host_sections(made.of(name))
        assert json.loads(json.dumps(sections)) == sections
        assert sections["is_head"] is (name == "gpu1")
        assert (sections["image"], sections["interface"]) == ("image:1", "eth1")
        assert sections["address"] == f"10.0.0.{name[-1]}"
