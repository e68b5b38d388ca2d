# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: canary_findings
short_description: Whether the first replica of an upgrade serves as well as before
version_added: 0.1.0
description:
  - Compares what vLLM's benchmark measured with the newest earlier run of the same load, and the alerts that fire with those before the change.
positional: language
options:
  _input:
    description:
      - What is known, any of these keys. C(deployment) and its C(hosts). C(figures) of the benchmark, the C(folder) on the controller with those of earlier
        runs, and C(slower_percent), which are allowed. C(alerts) and C(alerts_before) as C(/api/v1/alerts) of Prometheus lists them, and C(since)
        (seconds since 1970), where only those count that became active later.
    type: dict
    required: true
extends_documentation_fragment:
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Canary | Show what is wrong
  ansible.builtin.debug:
    msg: "{{ ({'deployment': 'chat', 'hosts': ['gpu01'], 'alerts': [], 'alerts_before': []} | baremetal.llm.canary_findings).findings }}"
"""

RETURN = r"""
_value:
  description: The C(findings), a text each, and whether the figures could be C(compared).
  type: dict
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import canary as core
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language as known_language
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.benchmark import latest_benchmarks

# Runs of other loads may have come between.
MOST_RUNS = 20


def canary_findings(found: Mapping[str, object], language: str = "en") -> dict[str, object]:
    """The filter; see the documentation above."""
    known, lang = plain(found), known_language(language)
    worse: list[str] = []
    compared = False
    if known.get("figures"):
        earlier = latest_benchmarks(Path(str(known["folder"])).expanduser(), MOST_RUNS)
        worse, compared = core.slower(known["figures"], earlier, float(known["slower_percent"]), lang)
    alerts = core.new_alerts(
        known.get("alerts") or [],
        known.get("alerts_before") or [],
        str(known["deployment"]),
        known.get("hosts") or [],
        known.get("since"),
    )
    return {"findings": worse + core.alert_lines(alerts, lang), "compared": compared}


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"canary_findings": canary_findings}
