# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role nvidia_container_toolkit does on a host, and why it cannot. Pure: variables and what was found in, plain data out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import Record, select
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.docker import install_error, merged, versions
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.method import method_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.packages import (
    Mirror,
    engine_options_for_cdi,
    package_plan,
    system_of,
    toolkit_repository,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import fact, facts_of, texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true

# What the role adds to the sources of the host's packages, as others may.
SOURCES = ("/etc/apt/sources.list.d/nvidia-container-toolkit.sources", "/etc/yum.repos.d/nvidia-container-toolkit.repo")
# What nvidia-docker2 wrote into daemon.json and the toolkit does not.
OLD_OPTIONS: dict[str, object] = {"runtimes": {"nvidia": {"runtimeArgs": None}}}


def decide_toolkit(
    variables: Mapping[str, object], read: Callable[[], Sequence[Record]], found: Mapping[str, object], lang: str = "en"
) -> tuple[dict[str, object], str]:
    """The section of the role nvidia_container_toolkit, and the text of what is refused.

    ``read`` returns the records of the bundle; ``found`` has ``engine``, the version of the engine that runs (empty: none does), ``toolkit``, what
    ``nvidia-ctk --version`` says (empty: there is none), and ``ours``, files that only this role writes.
    """
    prefix = "nvidia_container_toolkit_"
    version = str(variables[prefix + "version"] or "")
    archives = select(read(), "nvidia_container_toolkit")
    there = str(found.get("toolkit") or "")
    method = method_of(
        "nvidia_container_toolkit",
        str(variables[prefix + "method"]),
        ours=_ours(found, variables),
        fits=bool(there) and (not version or version in there),
        bundled=bool(archives),
        offline=is_true(variables["llm_offline"]),
        has_repository=toolkit_repository(system_of(facts_of(variables))) is not None,
    )
    mirror = Mirror(*(str(variables[f"{prefix}repository_{part}"] or "") for part in ("url", "key")))
    plan = package_plan(facts_of(variables), "toolkit", method, version, mirror)
    records = archives if method == "bundle" else []
    bundled, wanted = versions(records, version)
    named = variables.get(prefix + "packages")
    packages = plan["packages"] if named is None else texts(named)
    # None where the engine does not know CDI.
    options = engine_options_for_cdi(str(found.get("engine") or "0"))
    cdi = is_true(variables[prefix + "cdi_enabled"]) and options is not None
    copied = [record["path"] for record in records if str(record["version"]) == wanted]
    section: dict[str, object] = {
        "method": method,
        "wanted": wanted,
        "packages": packages,
        "repository": plan["repository"],
        "old_packages": plan["old"],
        "cdi": cdi,
        "daemon_options": merged(OLD_OPTIONS, (options or {}) if cdi else {}),
        # What the role leaves on the host, besides what the archive holds. Of daemon.json only what the toolkit wants there: the rest belongs to
        # Docker's role, or to the site.
        "left": {
            "settings": {"/etc/docker/daemon.json": {"runtimes": {"nvidia": {}}, "features": {"cdi": {}}}},
            "runtimes": ["nvidia"],
            "units": ["llm-gpu-devices.service"],
            "paths": [
                "/etc/cdi/nvidia.yaml",
                "/etc/systemd/system/llm-gpu-devices.service",
                *(f"{variables['llm_host_dir']}/bundle/{path}" for path in copied),
            ],
            "packages": list(packages),
        },
    }
    asked = {
        "prefix": prefix,
        "method": method,
        "bundled": bundled,
        "wanted": wanted,
        "repository": plan["repository"] is not None,
    }
    return section, install_error(variables, asked, lang)


def _ours(found: Mapping[str, object], variables: Mapping[str, object]) -> str:
    """The method with which this role has installed the toolkit before; empty if it has not."""
    files = texts(found.get("ours"))
    if any(path.startswith(f"{variables['llm_host_dir']}/bundle/") for path in files):
        return "bundle"
    recorded = "nvidia_container_toolkit" in fact(variables, "llm_records")
    return "repository" if recorded and set(files).intersection(SOURCES) else ""
