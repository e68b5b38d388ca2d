# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dashboards for Grafana, made from the table of panels: what Grafana's own library writes for it, which a controller does not have."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.consoles import Page, Panel, nothing, pages

# Grafana's names for the units of the table.
UNITS = {"bytes": "bytes", "ratio": "percentunit", "seconds": "s", "": "short"}
# Whoever looks chooses the Prometheus, and narrows all panels by labels.
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Of the 24 columns of a page, and of its rows.
WIDTH, HEIGHT, COLUMNS = 12, 8, 2


def dashboards(lang: str = "en") -> dict[str, dict[str, object]]:
    """The dashboards by file name, each as the data of its JSON."""
    return {f"{page['page']}.json": _dashboard(page, lang) for page in pages()}


def _dashboard(page: Page, lang: str) -> dict[str, object]:
    return {
        "uid": f"llm-{page['page']}",
        "title": message("page_" + page["page"], lang),
        "tags": ["llm"],
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "editable": True,
        "style": "dark",
        "graphTooltip": 0,
        "fiscalYearStartMonth": 0,
        "schemaVersion": 36,
        "annotations": {},
        "templating": {
            "list": [
                _variable("datasource", "datasource", {"query": "prometheus"}),
                _variable("filter", "adhoc", {"datasource": SOURCE}),
            ]
        },
        "panels": [_panel(index, panel, lang) for index, panel in enumerate(page["panels"])],
    }


def _variable(name: str, kind: str, more: Mapping[str, object]) -> dict[str, object]:
    return {
        "name": name,
        "type": kind,
        "id": "00000000-0000-0000-0000-000000000000",
        "hide": 0,
        "skipUrlSync": False,
        "multi": False,
        "includeAll": False,
        "auto": False,
        "auto_count": 30,
        "auto_min": "10s",
        **more,
    }


def _panel(index: int, panel: Panel, lang: str) -> dict[str, object]:
    row, column = divmod(index, COLUMNS)
    legend = " ".join("{{" + label + "}}" for label in panel["labels"])
    return {
        "id": index + 1,
        "type": "timeseries",
        "title": message("panel_" + panel["title"], lang),
        "datasource": SOURCE,
        "targets": [{"refId": "A", "expr": panel["expr"], "legendFormat": legend}],
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {
            "defaults": {"unit": UNITS[panel.get("unit", "")], "noValue": nothing(panel, lang)},
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "showLegend": True, "placement": "bottom", "calcs": []},
            "tooltip": {"mode": "single", "sort": "asc"},
        },
        "repeatDirection": "h",
        "transformations": [],
        "transparent": False,
    }
