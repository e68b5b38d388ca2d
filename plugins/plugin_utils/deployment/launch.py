# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is started on each host of a deployment. Plain data for the roles of its engine."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import container_user, unit
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.environment import container_environment
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.mounts import (
    cache_folder,
    model_folders,
    tmp_folder,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names_on
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import (
    CONTAINER,
    PYTHON,
    USER,
    VENV,
    is_venv,
    runtime_section,
    secrets_section,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import variable_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping


def host_sections(member: Member) -> dict[str, object]:
    """What the roles of the engine read."""
    environment = container_environment(member)
    sections = member.deployment.engine.sections(member, environment)
    interface = mapping(member.variables.get("llm_interface"))
    return {
        "is_head": member.is_head,
        "image": member.deployment.image,
        # Prints something where the server of the head runs, which may be outside of this run.
        "serves": runtime_section(
            member.variables, names_on(member.deployment.head, member.deployment.names)["server"]
        )["running"],
        "interface": interface.get("interface"),
        "address": member.address,
        **_for_user(member),
        "runtime": VENV if is_venv(member.variables) else CONTAINER,
        # The units that belong on this host, as those of gather are called.
        "units": [str(member.names.get(role)) for role, part in sections.items() if mapping(part)["unit"]],
        "secrets": secrets_section(member.variables),
        "hosts_file": unit.hosts_file(member),
        **sections,
    }


def _for_user(member: Member) -> dict[str, object]:
    """The folders that the programs write to, as whom, a command that says whether that user can serve, and what people are told where not."""
    if is_venv(member.variables):
        cache = unit.cache_folder(member)
        return {
            # systemd gives it a /tmp of its own.
            "tmp": {"path": cache, "uid": USER},
            "cache": cache,
            "user": {
                "check": unit.user_check(member),
                "refusal": "venv_user_refused",
                "variable": variable_of(member.variables, PYTHON),
                "program": str(member.setting(PYTHON)),
            },
        }
    return {
        "tmp": {"path": tmp_folder(member), "uid": member.deployment.uid},
        "cache": cache_folder(member),
        "user": {
            "check": container_user.check_command(
                member.deployment.uid,
                member.deployment.image,
                model_folders(member),
                member.deployment.engine.module,
            ),
            "refusal": "container_user_refused",
            "variable": container_user.VARIABLE,
            "program": member.deployment.image,
        },
    }
