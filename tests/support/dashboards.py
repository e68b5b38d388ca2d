"""Dashboards for Grafana from the table of panels, one for each page and language: plugins/plugin_utils/monitoring/dashboards/LANGUAGE/PAGE.json.

`nox -s dashboards` writes them. They are in the repository because the controller of a user does not have Grafana's library.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import LANGUAGES, message
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.consoles import nothing, pages
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.files import DASHBOARDS
from grafana_foundation_sdk.builders import common, dashboard, prometheus, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode
from grafana_foundation_sdk.models.dashboard import DataSourceRef

# Grafana's names for the units of the table.
UNITS = {"bytes": "bytes", "ratio": "percentunit", "seconds": "s", "": "short"}
# Whoever looks chooses the Prometheus, and narrows all panels by labels.
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
HALF, HEIGHT = 12, 8


def dashboards(lang: str) -> dict[str, str]:
    """The dashboards of a language as JSON, by page."""
    return {str(page["page"]): _text(_dashboard(page, lang)) for page in pages()}


def _text(built: Any) -> str:
    return str(JSONEncoder(sort_keys=True, indent=1, ensure_ascii=False).encode(built)) + "\n"


def _dashboard(page: Mapping[str, Any], lang: str) -> Any:
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


def main() -> None:
    """Write them all, and nothing of former pages."""
    shutil.rmtree(DASHBOARDS, ignore_errors=True)
    for lang in LANGUAGES:
        (DASHBOARDS / lang).mkdir(parents=True)
        for page, text in dashboards(lang).items():
            (DASHBOARDS / lang / f"{page}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
