# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model and a fleet that the command line names (``llm_model``, ``llm_fleet``), as the inventory that they stand for.

Plans and catalogues work without an inventory in this way; everything that is checked of an inventory is checked of it, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import (
    DEFAULT,
    engine_names,
    name_of,
    setting,
    variable_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import ROOT_GROUP
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.cards import read_fleet, said_fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.release import RELEASE, recommended_release
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import NEWEST

MODEL = "llm_model"
_NO_PART_OF_A_NAME = re.compile(r"[^a-z0-9]+")
# As long as a label of DNS, with what may stand before it.
_MOST = 57


@dataclass(frozen=True)
class OneLine:
    """One deployment on hosts that exist by name alone."""

    deployment: str
    # What the line sets for each host, by the host's name: its GPUs, the model, the release where none is named.
    variables: Mapping[str, Mapping[str, object]]

    @property
    def hosts(self) -> list[str]:
        return list(self.variables)

    @property
    def groups(self) -> dict[str, dict[str, list[str]]]:
        """As ``check_inventory`` takes groups."""
        return {
            ROOT_GROUP: {"hosts": self.hosts, "children": [self.deployment]},
            self.deployment: {"hosts": self.hosts, "children": []},
        }


def deployment_name(model: str) -> str:
    """A group's name for a model: ``Qwen/Qwen2.5-14B-Instruct`` is ``qwen2_5_14b_instruct``."""
    name = _NO_PART_OF_A_NAME.sub("_", model.rstrip("/").rpartition("/")[2].lower()).strip("_")[:_MOST].rstrip("_")
    return name if name[:1].isalpha() else f"model_{name}".rstrip("_")


def host_names(count: int) -> list[str]:
    """``gpu01``, ``gpu02`` and so on, as many digits as they need."""
    digits = max(2, len(str(count)))
    return [f"gpu{number:0{digits}}" for number in range(1, count + 1)]


def release_for(gpus: Sequence[Mapping[str, object]]) -> str:
    """The recommended release of the default engine for the oldest of these GPUs.

    Raises InputError where no release serves it.
    """
    oldest = min(gpus, key=lambda gpu: tuple(int(part) for part in str(gpu["compute_capability"]).split(".")))
    return str(recommended_release(dict(oldest))[RELEASE])


def one_line(variables: Mapping[str, object], has_inventory: bool) -> OneLine | None:
    """What ``llm_fleet`` of the command line means; None without it, or beside an inventory with deployments.

    ``variables`` are those of the controller. Raises InputError for a fleet that cannot be read.
    """
    fleet, model = said_fleet(variables), setting(variables, "model") or variables.get(MODEL)
    if not fleet or has_inventory:
        return None
    hosts = read_fleet(fleet)
    # The settings of an engine that there is not have no names; it is refused.
    is_known = name_of(variables) in engine_names()
    said: dict[str, object] = {variable_of(variables, "model"): str(model)} if model and is_known else {}
    version = variable_of(variables, "version")
    # Which release of another engine serves a GPU best, nobody knows.
    if not variables.get(version) and name_of(variables) == DEFAULT:
        try:
            said[version] = release_for([gpu for gpus in hosts for gpu in gpus])
        except InputError:
            # The plan says which of the GPUs is too old, and what serves it.
            said[version] = NEWEST
    named = zip(host_names(len(hosts)), hosts, strict=True)
    return OneLine(
        deployment_name(str(model or "model")), {host: {**said, "llm_gpus": list(gpus)} for host, gpus in named}
    )
