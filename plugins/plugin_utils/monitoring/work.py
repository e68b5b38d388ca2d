# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On which hosts the role monitoring has something to do: what it is asked for there, compared with the records of its last run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import CODE, digest, role_differs
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping

# The two records of a host: of its exporters, and of what watches there.
EXPORTERS, WATCHER = "monitoring_exporters", "monitoring"


def asked(
    decided: Mapping[str, object],
    collectors: Iterable[str],
    said: Mapping[str, object],
    settings: Mapping[str, object],
    rules: Sequence[str],
) -> dict[str, dict[str, str]]:
    """By host and record the digest of what is asked for there.

    A host whose exporter is not the role's has no record of one, unless it watches.

    ``decided`` has the files, exporters, addresses of collectors and metrics that the controller knows, ``said`` the variables that the
    exporters are set up with, by host that gets one; ``settings`` are the variables of the role for the hosts that watch, ``rules`` the content of the
    site's own.
    """
    found = {
        host: {
            EXPORTERS: digest([listening, said[host], decided["collectors"], mapping(decided["figures"]).get(host, "")])
        }
        for host, listening in mapping(decided["exporters"]).items()
        if host in said
    }
    watching = digest([decided["files"], settings, rules])
    for host in collectors:
        found.setdefault(host, {})[WATCHER] = watching
    return found


def sections(
    wanted: Mapping[str, Mapping[str, str]],
    records: Mapping[str, Mapping[str, Mapping[str, object]]],
    collection: str,
    walk: bool,
    whole: bool,
    twice: Collection[str] = (),
) -> dict[str, dict[str, object]]:
    """By host ``asked``, ``work`` (why there is something to do, by record) and ``needed`` (the records whose tasks are run).

    With ``walk`` everything is run. A run that is not about all hosts of the deployments (``whole``) leaves the hosts that watch alone: it does
    not know all targets. ``twice`` are hosts whose machine is in this run under another name: its exporters are set up there.
    """
    found: dict[str, dict[str, object]] = {}
    for host, digests in wanted.items():
        every = {CODE: collection, **digests}
        work = {name: role_differs(name, every, records.get(host) or {}) for name in digests}
        needed = [name for name in digests if (walk or work[name]) and (whole or name != WATCHER)]
        if host in twice:
            needed = [name for name in needed if name != EXPORTERS]
        found[host] = {"asked": every, "work": work, "needed": needed}
    return found
