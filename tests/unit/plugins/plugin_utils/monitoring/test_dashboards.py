"""Grafana's dashboards are those of the table of panels, as its own library writes them."""

from __future__ import annotations

import json

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.consoles import pages
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.files import DASHBOARDS

from tests.support.dashboards import dashboards


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_what_is_kept_is_what_the_panels_make(lang: str) -> None:
    kept = {path.stem: path.read_text(encoding="utf-8") for path in (DASHBOARDS / lang).iterdir()}
    assert kept == dashboards(lang), "write them anew: nox -s dashboards"
    assert sorted(kept) == sorted(page["page"] for page in pages())


def test_every_panel_asks_the_chosen_prometheus_from_a_place_of_its_own() -> None:
    for path in sorted((DASHBOARDS / "en").iterdir()):
        panels = json.loads(path.read_text(encoding="utf-8"))["panels"]
        assert panels, path.name
        assert {panel["datasource"]["uid"] for panel in panels} == {"${datasource}"}, path.name
        assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels), path.name
