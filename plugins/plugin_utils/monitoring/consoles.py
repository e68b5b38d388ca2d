# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages for Prometheus's own console templates, made from the table of panels: they need no Grafana and no JavaScript."""

from __future__ import annotations

import html
import json
from typing import NotRequired, TypedDict
from urllib.parse import quote

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.rules import table

# How a template shows a value of a unit.
SHOWN = {
    "bytes": "{{ .Value | humanize1024 }}B",
    "ratio": "{{ .Value | humanizePercentage }}",
    "seconds": "{{ .Value | humanizeDuration }}",
    # What is below one has no unit of thousandths: 0.64 and not 640m.
    "": '{{ if lt .Value 1.0 }}{{ printf "%.3g" .Value }}{{ else }}{{ .Value | humanize }}{{ end }}',
}
STYLE = (
    "body{font:15px/1.4 sans-serif;margin:1.5rem;color:#222;background:#fff}"
    "nav a{margin-right:1rem}main{display:grid;grid-template-columns:repeat(auto-fill,minmax(26rem,1fr));gap:1rem}"
    "section{border:1px solid #ccc;border-radius:4px;padding:.6rem .8rem}h2{font-size:1rem;margin:0 0 .4rem}"
    "table{border-collapse:collapse;width:100%}td{padding:.1rem .5rem .1rem 0;border-top:1px solid #eee}"
    "td:last-child{text-align:right;font-variant-numeric:tabular-nums}td:only-child{text-align:left}p{color:#666;margin:0}"
    "a{color:#0b57a4}h2 a{color:inherit;text-decoration:none}h2 a:hover{text-decoration:underline}"
)


class Panel(TypedDict):
    """A panel of panels.yml. Its texts are in the catalogue: panel_TITLE, panel_without_WITHOUT."""

    title: str
    expr: str
    # Labels that tell the rows apart, the first before the others.
    labels: list[str]
    # bytes, ratio or seconds
    unit: NotRequired[str]
    # Why it may have no data.
    without: NotRequired[str]


class Page(TypedDict):
    """A page of panels, by its name: page_PAGE of the catalogue is its title."""

    page: str
    panels: list[Panel]


def pages() -> list[Page]:
    """The pages with their panels."""
    found: list[Page] = table("panels.yml")
    return found


def consoles(lang: str = "en") -> dict[str, str]:
    """The templates by file name."""
    return {f"{page['page']}.html": _page(page, lang) for page in pages()}


def nothing(panel: Panel, lang: str) -> str:
    """Why a panel may have no data."""
    return message("panel_without_" + panel["without"] if "without" in panel else "panel_without_data", lang)


def _page(page: Page, lang: str) -> str:
    title = message("page_" + page["page"], lang)
    links = "".join(
        f'<a href="{other["page"]}.html">{html.escape(message("page_" + other["page"], lang))}</a>' for other in pages()
    )
    sections = "\n".join(_section(panel, lang) for panel in page["panels"])
    return (
        f'<!DOCTYPE html>\n<html lang="{lang}">\n<head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta http-equiv="refresh" content="30"><style>{STYLE}</style></head>\n'
        f"<body><nav>{links}</nav><h1>{html.escape(title)}</h1>\n<main>\n{sections}\n</main></body>\n</html>\n"
    )


def _section(panel: Panel, lang: str) -> str:
    expr = panel["expr"]
    cells = "".join(f"<td>{{{{ .Labels.{label} }}}}</td>" for label in panel["labels"])
    value = f"<td>{SHOWN[panel.get('unit', '')]}</td>"
    # A quoted text of Go is one of JSON.
    query = f"query {json.dumps(expr)}"
    return (
        f'<section><h2><a href="../graph?g0.expr={quote(expr)}&amp;g0.tab=0">'
        f"{html.escape(message('panel_' + panel['title'], lang))}</a></h2>\n"
        f"<table>{{{{ range {query} | sortByLabel {json.dumps(panel['labels'][0])} }}}}<tr>{cells}{value}</tr>"
        f"{{{{ else }}}}<tr><td><p>{html.escape(nothing(panel, lang))}</p></td></tr>{{{{ end }}}}</table></section>"
    )
