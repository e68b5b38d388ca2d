# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a bundle, in words."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, spoken


def fault_names(faults: Mapping[str, list[object]], lang: str = "en") -> dict[str, list[str]]:
    """The faults by kind, each file by its name and, where there is more to say, with it."""
    return {fault: [str(spoken(one, lang)) for one in found] for fault, found in faults.items()}


def describe_faults(bundle: str, faults: Mapping[str, list[str]], lang: str = "en") -> str:
    """The faults as text: every file by name, and what to do. Nothing if only extra files were found: they do no harm."""
    if not set(faults) - {"extra"}:
        return ""
    lines = [message("faults_header", lang, bundle=bundle)]
    for fault, names in faults.items():
        lines += [message("fault_" + fault, lang) + ":"] + [f"  {name}" for name in names]
    return "\n".join([*lines, message("faults_remedy", lang)])
