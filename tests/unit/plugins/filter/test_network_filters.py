"""The filter around the network: thin, and it says what it wants."""

from __future__ import annotations

import json

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.filter.network_report import FilterModule
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.connectivity import check_connectivity

network_report = FilterModule().filters()["network_report"]


@pytest.mark.parametrize("form", ["text", "html", "json"])
def test_reports(form: str) -> None:
    text = network_report({"tiny": check_connectivity([], {})}, format=form)
    assert "tiny" in text
    if form == "json":
        assert json.loads(text)["tiny"]["networks"] == []


def test_wrong_input_is_said() -> None:
    with pytest.raises(AnsibleFilterError, match="network_report wants"):
        network_report([])
