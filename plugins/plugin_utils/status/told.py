# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""By which names a look at a host finds what engines count, and what they were told: those of all engines, for a host may run any of them."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine, engine_names

# What status and doctor call a figure, by the common name of the metric (docs/guides/monitoring.md). Of a histogram they take the sum and the count.
FIGURES = {
    "requests_running": "running",
    "requests_waiting": "waiting",
    "kv_cache_usage_ratio": "kv_use",
    "prompt_tokens": "prompt_tokens",
    "generation_tokens": "generated_tokens",
}
TIME_OF_TOKENS, SUM, COUNT = "inter_token_latency_seconds", "token_seconds", "token_gaps"


def figures() -> dict[str, str]:
    """What is read from the metrics of a server, by the name of its engine for it. A rate is no count."""
    found: dict[str, str] = {}
    for name in engine_names():
        for ours, metric in engine(name).metrics().items():
            theirs = [str(each["name"]) for each in metric["names"] if not each.get("gauge")]
            if ours == TIME_OF_TOKENS:
                beginnings = [each.removesuffix("_bucket") for each in theirs]
                found |= {f"{each}_sum": SUM for each in beginnings} | {f"{each}_count": COUNT for each in beginnings}
            elif ours in FIGURES:
                found |= dict.fromkeys(theirs, FIGURES[ours])
    return found


def address_variables() -> list[str]:
    """The variables that tell a server the address of its host."""
    return list(dict.fromkeys(name for each in engine_names() for name in engine(each).all_address_variables))
