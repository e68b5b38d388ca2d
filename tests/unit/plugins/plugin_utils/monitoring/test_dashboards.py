"""Grafana's dashboards are what its own library writes for the table of panels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.consoles import nothing, pages
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.dashboards import UNITS, dashboards
from grafana_foundation_sdk.builders import common, dashboard, prometheus, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode
from grafana_foundation_sdk.models.dashboard import DataSourceRef

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
HALF, HEIGHT = 12, 8


def _by_grafana(page: Mapping[str, Any], lang: str) -> Any:
    built = (
        dashboard.Dashboard(message("page_" + page["page"], lang))
        .uid("llm-" + page["page"])
        .tags(["llm"])
        .refresh("30s")
        .time("now-1h", "now")
        .with_variable(dashboard.DatasourceVariable("datasource").type("prometheus"))
        .with_variable(dashboard.AdHocVariable("filter").datasource(SOURCE))
    )
    for number, panel in enumerate(page["panels"], 1):
        built = built.with_panel(_panel(number, panel, lang))
    return built.build()


def _panel(number: int, panel: Mapping[str, Any], lang: str) -> timeseries.Panel:
    legend = " ".join("{{" + label + "}}" for label in panel["labels"])
    return (
        timeseries.Panel()
        .id(number)
        .title(message("panel_" + panel["title"], lang))
        .datasource(SOURCE)
        .unit(UNITS[panel.get("unit", "")])
        .no_value(nothing(panel, lang))
        .span(HALF)
        .height(HEIGHT)
        .legend(common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).show_legend(True))
        .with_target(prometheus.Dataquery().ref_id("A").expr(panel["expr"]).legend_format(legend))
    )


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_dashboards_are_what_the_library_of_grafana_writes(lang: str) -> None:
    written = {f"{page['page']}.json": json.loads(JSONEncoder().encode(_by_grafana(page, lang))) for page in pages()}
    assert dashboards(lang) == written
    assert len(written) == 5


def test_every_panel_asks_the_chosen_prometheus_from_a_place_of_its_own() -> None:
    for name, content in dashboards().items():
        panels = content["panels"]
        assert panels, name
        assert {panel["datasource"]["uid"] for panel in panels} == {"${datasource}"}, name
        assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels), name
