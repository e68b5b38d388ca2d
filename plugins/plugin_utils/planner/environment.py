# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environment variables that nobody reads, and those that do harm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ansible_collections.baremetal.llm.plugins.module_utils._content import digits
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.environment import READ, others, vllm_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.options import OPTIONS, sampled
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import StartError, start_error
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import Release, release_key, within

PREFIXES = ("VLLM_", "RAY_", "NCCL_")
# What a service named vllm gives every container of its Kubernetes namespace.
_URL = re.compile(r"^\w+://")


def errors(environment: Mapping[str, str], release: Release) -> Iterator[StartError]:
    """What stops a start."""
    if _URL.match(environment.get("VLLM_PORT", "")) and release.key >= release_key("0.4.3"):
        rest = {name: value for name, value in environment.items() if name != "VLLM_PORT"}
        yield start_error("value_not_allowed", "start_port_is_url", {"environment": rest}, version=release.asked)
    devices = [each.strip() for each in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if each.strip()]
    if within(release.key, *changes.DEVICES_BY_INDEX) and (
        named := next((one for one in devices if digits(one) is None), None)
    ):
        yield start_error("value_not_allowed", "start_devices_by_name", version=release.asked, found=named)


def warnings(environment: Mapping[str, str], release: Release) -> list[Text]:
    """Names that the programs do not read, with the nearest that they do."""
    named = sorted(name for name in environment if name.startswith(PREFIXES))
    return [found for name in named if (found := _warning(name, release)) is not None] if named else []


def _warning(name: str, release: Release) -> Text | None:
    for prefix, names in others().items():
        if name.startswith(prefix):
            # A name of Ray in lower case is one of the settings that nobody lists.
            if name in names or name[len(prefix) :] != name[len(prefix) :].upper():
                return None
            return Text("environment_unknown", name=name, program=prefix.rstrip("_"), hint=_nearest(name, names))
    if not name.startswith("VLLM_"):
        return None
    variables = vllm_variables()
    option = name.removeprefix("VLLM_").lower()
    if name not in variables:
        if option in OPTIONS or option in sampled():
            return Text("environment_is_option", name=name, option=option)
        return Text("environment_unknown", name=name, program="vLLM", hint=_nearest(name, variables))
    first, last = variables[name]
    if first is not None and release.key <= release_key(_before(first)):
        return Text("environment_later", name=name, version=release.asked, first=first)
    if last is not None and release.key >= release_key(_after(last)):
        return Text("environment_gone", name=name, version=release.asked, last=last)
    return None


def _before(release: str) -> str:
    return READ[max(READ.index(release) - 1, 0)]


def _after(release: str) -> str:
    return READ[min(READ.index(release) + 1, len(READ) - 1)]


def _nearest(name: str, names: Mapping[str, object] | frozenset[str]) -> Text | str:
    import difflib  # only needed for a warning

    near = difflib.get_close_matches(name, list(names), 1, 0.7)
    return Text("environment_near", near=near[0]) if near else ""
