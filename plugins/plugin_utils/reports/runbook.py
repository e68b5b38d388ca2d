# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A page to print: from what an operator sees to commands with the names of this fleet. What to do besides them, says the runbook of each."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import SERVICE_GROUPS
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.html import render_page

# What an entry has a command for: the fleet, each host of a deployment, each one that has others beside it, each deployment.
FLEET, HOST, MATE, DEPLOYMENT = "fleet", "host", "mate", "deployment"
# What only the reader knows, by the name in the shell, which refuses the command until it is filled in, and says what is wanted.
ASKED = {"BACKUP": "runbook_backup_file", "PASSWORD_FILE": "runbook_password_file"}
DOCUMENTATION = "https://github.com/baremetal-llm/baremetal.llm/blob/main/docs/"


@dataclass(frozen=True)
class Entry:
    """``code``: what is seen, the message runbook_CODE. ``options`` of the playbook, with {name} for that of the host or deployment, and names of ASKED."""

    code: str
    playbook: str
    options: tuple[str, ...] = ()
    each: str = FLEET
    page: str = ""
    # Only where there is a host of this group.
    group: str = ""


ENTRIES = (
    Entry("wrong", "doctor", page="state-of-the-fleet"),
    Entry("look", "status", page="state-of-the-fleet"),
    Entry("again", "site"),
    Entry("held", "site", ("-e llm_take_over=true",), page="lost-lock"),
    Entry("host_dead", "replace_node", ("-e llm_node={name}", "-e llm_on_remaining=true"), MATE, "serve-on-the-rest"),
    Entry("host_new", "replace_node", ("-e llm_node={name}",), HOST, "rebuild-a-node"),
    Entry("gpu", "accept", ("--limit {name}",), HOST),
    Entry("worse", "rollback", ("-e llm_target={name}",), DEPLOYMENT, "rollback"),
    Entry("out", "drain", ("-e gateway_replica={name}",), DEPLOYMENT, group="llm_gateway"),
    Entry("back", "drain", ("-e gateway_replica={name}", "-e gateway_undrain=true"), DEPLOYMENT, group="llm_gateway"),
    Entry("key", "rotate_secrets", ("-e llm_rotate_secrets=api_key",), page="rotate-secrets"),
    Entry("key_ended", "rotate_secrets", ("-e llm_rotate_secrets=finish",), page="rotate-secrets"),
    Entry("full", "cleanup", ("-e llm_target=all",), page="free-space"),
    Entry("stop", "stop", ("-e llm_target={name}",), DEPLOYMENT, "stop-and-start"),
    Entry("upgrade", "upgrade", ("-e llm_target={name}",), DEPLOYMENT, "upgrade"),
    Entry("add", "add_nodes", ("-e llm_target={name}",), DEPLOYMENT, "add-and-remove-hosts"),
    Entry("remove", "remove_nodes", ("-e llm_target={name}",), MATE, "add-and-remove-hosts"),
    Entry("reset", "reset", ("-e llm_target={name}",), HOST, "reset-a-host"),
    Entry(
        "backup",
        "backup",
        ("-e llm_backup_file={BACKUP}", "--vault-password-file {PASSWORD_FILE}"),
        page="what-to-keep",
    ),
)


class Fleet(TypedDict):
    """What the commands are made for."""

    # As the inventory check returns them.
    deployments: Mapping[str, DeploymentHosts]
    # Of Ansible.
    groups: Mapping[str, Sequence[str]]
    # By host.
    addresses: Mapping[str, str]
    # As they were given.
    inventories: Sequence[object]
    # Of a playbook's name, {name} in it.
    form: str
    # By variable.
    folders: Mapping[str, object]
    # When, as text.
    made: str
    # Its version.
    collection: str


def commands(entry: Entry, fleet: Fleet, lang: str = "en") -> list[str]:
    """The commands of an entry, ready to be pasted into a shell."""
    inventories = [part for source in fleet["inventories"] for part in ("-i", shlex.quote(str(source)))]
    begin = ["ansible-playbook", fleet["form"].format(name=entry.playbook), *inventories]
    asked = {name: f'"${{{name}:?{message(code, lang)}}}"' for name, code in ASKED.items()}
    return [
        " ".join([*begin, *(option.format(name=shlex.quote(name), **asked) for option in entry.options)])
        for name in _names(entry, fleet)
    ]


def _names(entry: Entry, fleet: Fleet) -> Iterator[str]:
    deployments = fleet["deployments"]
    if entry.group and not fleet["groups"].get(entry.group):
        return
    if entry.each == FLEET:
        yield ""
    elif entry.each == DEPLOYMENT:
        yield from deployments
    else:
        # Of one host nothing is left.
        least = 2 if entry.each == MATE else 1
        found = (host for each in deployments.values() if len(each["hosts"]) >= least for host in each["hosts"])
        yield from dict.fromkeys(found)


def runbook_page(fleet: Fleet, lang: str = "en") -> str:
    """One file that needs nothing else."""
    services = {
        host: [group for group in SERVICE_GROUPS if host in fleet["groups"].get(group, ())]
        for host in fleet["addresses"]
    }
    of = {host: name for name, each in fleet["deployments"].items() for host in each["hosts"]}
    heads = {each["head"] for each in fleet["deployments"].values()}
    rows = [
        {
            "host": host,
            "address": address,
            "deployment": of.get(host, ""),
            "head": host in heads,
            "services": names(services[host], lang) if services[host] else "",
        }
        for host, address in fleet["addresses"].items()
        if host in of or services[host]
    ]
    pages = f"{DOCUMENTATION}{'zh/' if lang == 'zh' else ''}runbooks/"
    entries = [
        {"code": each.code, "commands": found, "page": f"{pages}{each.page}.md" if each.page else ""}
        for each in ENTRIES
        if (found := commands(each, fleet, lang))
    ]
    return render_page(
        "runbook",
        lang,
        title=message("runbook_title", lang),
        made=fleet["made"],
        collection=fleet["collection"],
        rows=rows,
        folders={name: os.path.abspath(str(path)) for name, path in fleet["folders"].items() if path},
        entries=entries,
        index=f"{pages}index.md",
    )
