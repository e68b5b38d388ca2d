# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role docker does on a host, and why it cannot. Pure: variables and what was found in, a section of plain data out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import Record, select
from ansible_collections.baremetal.llm.plugins.module_utils._engine_flags import colliding
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.method import method_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.packages import (
    Mirror,
    docker_repository,
    package_plan,
    system_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import facts_of, mapping, texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import (
    message,
    names,
    problem,
    render,
    shown,
)

PACKAGED = ("packages", "repository")
# Each version has a folder of its own. "current" leads to the one in use, and /usr/local/bin leads to what is in "current":
# an upgrade is one link, and so is the way back.
VERSIONS_DIR = "/usr/local/lib/docker-engine"
UNITS = ["containerd.service", "docker.service"]
# States of a host that belongs to a swarm, in which the engine does not start with live-restore.
SWARM = ("active", "pending", "locked")
STATIC_UNIT = "/etc/systemd/system/docker.service"
# What the role writes for an engine from packages, and what it adds where these come from their publisher.
# As roles/docker/vars has it.
ENVIRONMENT = "/etc/docker/llm-engine.env"
DROP_IN = "/etc/systemd/system/docker.service.d/baremetal-llm.conf"
SOURCES = ("/etc/apt/sources.list.d/docker.sources", "/etc/yum.repos.d/docker.repo")
# Directives of daemon.json that have a variable of their own.
ASKED = {
    "data-root": "docker_data_root",
    "default-address-pools": "docker_address_pools",
    "registry-mirrors": "docker_registry_mirrors",
}
DATA_ROOT = "/var/lib/docker"  # the engine's own default


def versions(records: Sequence[Record], asked: str) -> tuple[list[str], str]:
    """The versions of these records of a bundle, and the one to install: what is asked for, else the only one there is, else none."""
    bundled = list(dict.fromkeys(str(record["version"]) for record in records))
    return bundled, asked or (bundled[0] if len(bundled) == 1 else "")


def merged(low: Mapping[str, object], high: Mapping[str, object]) -> dict[str, object]:
    """Two mappings as one, also where a key has a mapping in both; else ``high`` counts."""
    found = {**low, **high}
    for name in low.keys() & high.keys():
        below, above = low[name], high[name]
        if isinstance(below, Mapping) and isinstance(above, Mapping):
            found[name] = merged(below, above)
    return found


def daemon_options(
    variables: Mapping[str, object], flags: Mapping[str, Mapping[str, str]] | None = None, swarm: bool = False
) -> dict[str, object]:
    """What the role wants in daemon.json. Of its own wishes it leaves out what the engine's command line says, and live-restore in a swarm."""
    flags = flags or {}
    said: dict[str, object] = {
        "log-driver": "json-file",
        "log-opts": {
            "max-size": variables["docker_log_max_size"],
            "max-file": str(variables["docker_log_max_files"]),
        },
        "live-restore": True,
    }
    # With another logging driver the engine would refuse these options.
    other_driver = "log-driver" in flags and "json-file" not in flags["log-driver"]["said"]
    left_out = {*flags, *(["log-opts"] if other_driver else []), *(["live-restore"] if swarm else [])}
    said = {name: value for name, value in said.items() if name not in left_out}
    return merged(said, asked_options(variables))


def asked_options(variables: Mapping[str, object]) -> dict[str, object]:
    """What the inventory asks for in daemon.json."""
    asked = {name: variables[variable] for name, variable in ASKED.items() if variables[variable]}
    return merged(asked, mapping(variables["docker_daemon_options"]))


class Found(TypedDict, total=False):
    """What the role has looked at on a host."""

    # Paths of units of an engine, and files that only this role writes.
    units: Sequence[str]
    ours: Sequence[str]
    # daemon.json, and what the engine's command line says (engine_flags).
    config: Mapping[str, object]
    flags: Mapping[str, Mapping[str, str]]
    # How much lies below the old data root, in bytes.
    held: int
    # The state of the host in a swarm.
    swarm: str
    installed_by: str


def flags_in_force(found: Found, method: str) -> dict[str, Mapping[str, str]]:
    """The engine's flags that stay: of an engine that makes room for one of the static archive only what drop-ins say, which are for any unit."""
    flags = dict(found.get("flags") or {})
    if method != "static":
        return flags
    return {name: flag for name, flag in flags.items() if "/docker.service.d/" in flag["path"]}


def decide_engine(
    variables: Mapping[str, object], read: Callable[[], Sequence[Record]], found: Found, lang: str = "en"
) -> tuple[dict[str, object], str]:
    """The section of the role docker, and the text of what is refused.

    ``read`` returns the records of the bundle.
    """
    version = str(variables["docker_version"] or "")
    facts = facts_of(variables)
    method = method_of(
        "docker",
        str(variables["docker_method"]),
        ours=_ours(found),
        fits=bool(found["units"]),
        bundled=bool(select(read(), "docker")),
        offline=is_true(variables["llm_offline"]),
        has_repository=docker_repository(system_of(facts)) is not None,
    )
    mirror = Mirror(str(variables["docker_repository_url"] or ""), str(variables["docker_repository_key"] or ""))
    plan = package_plan(facts, "docker", method, version, mirror)
    records = select(read(), "docker") if method == "static" else []
    bundled, wanted = versions(records, version)
    archives = [record for record in records if str(record["version"]) == wanted]
    named = variables.get("docker_packages")
    packages = plan["packages"] if named is None else texts(named)
    flags, swarm = flags_in_force(found, method), str(found.get("swarm") or "") in SWARM
    options = daemon_options(variables, flags, swarm)
    old_root = (found.get("config") or {}).get("data-root") or DATA_ROOT
    static_there = STATIC_UNIT in (found.get("ours") or ())
    # One that somebody else put into /etc is no package, and no archive of ours.
    other_there = bool(set(found["units"]) - {STATIC_UNIT}) or (STATIC_UNIT in found["units"] and not static_there)
    hides_packages = STATIC_UNIT in found["units"] and (static_there or len(found["units"]) == 1)
    other_kind = other_there if method == "static" else hides_packages if method != "present" else False
    version_dir = f"{VERSIONS_DIR}/{wanted}"
    differs = _differs(facts, "docker")
    section: dict[str, object] = {
        "method": method,
        "wanted": wanted,
        "packages": packages,
        "repository": plan["repository"],
        "old_packages": plan["old"],
        "packaged": method in PACKAGED,
        "other_kind": other_kind,
        "daemon_options": options,
        "units": UNITS,
        "versions_dir": VERSIONS_DIR,
        "version_dir": version_dir,
        # Its name goes on with the size of all programs: to compare them with the archive takes seconds, on every run. If one was lost or cut
        # off, it is another name.
        "mark": f"{version_dir}/.complete-{archives[0]['sha256'][:12] if archives else ''}",
        # What the record of an earlier run says of them: a program with another content has the same size, perhaps.
        "damaged": any(one.startswith("trees ") for one in differs),
        # What a run that was ended left running with former files.
        "older": [unit for unit in UNITS if f"started {unit}" in differs],
        "left": _left(method, archives, packages, options, version_dir, str(variables["llm_host_dir"])),
    }
    asked = {
        "prefix": "docker_",
        "method": method,
        "bundled": bundled,
        "wanted": wanted,
        "repository": plan["repository"] is not None,
        "other_kind": other_kind,
        "switch_enabled": is_true(variables["docker_switch_enabled"]),
        "old_root": old_root,
        "new_root": options.get("data-root") or old_root,
        "held": found.get("held") or 0,
        "root_change_enabled": is_true(variables["docker_data_root_change_enabled"]),
        "flags": flags,
        "config": merged(found.get("config") or {}, options),
        "asked_options": asked_options(variables),
        "swarm": swarm,
        "live_restore_flag": (found.get("flags") or {}).get("live-restore") or {},
        "snap": found.get("installed_by") == "snap",
    }
    return section, install_error(variables, asked, lang)


def _ours(found: Found) -> str:
    """The method with which this role has installed the engine before; empty if it has not."""
    files = set(found.get("ours") or ())
    if STATIC_UNIT in files:
        return "static"
    if DROP_IN not in files:
        return ""
    return "repository" if files.intersection(SOURCES) else "packages"


def _differs(facts: Mapping[str, object], role: str) -> list[str]:
    """What of a role's record does not hold any more."""
    return texts(mapping(mapping(facts.get("llm_records")).get(role)).get("differs"))


def _left(
    method: str,
    archives: Sequence[Record],
    packages: Sequence[str],
    options: Mapping[str, object],
    version_dir: str,
    host_dir: str,
) -> dict[str, Any]:
    """What the role leaves on the host. Of daemon.json only its own options: others belong to the container toolkit, or to the site."""
    left: dict[str, Any] = {
        "settings": {"/etc/docker/daemon.json": dict(options)},
        "units": UNITS if method != "present" else ["docker.service"],
        # What the engine is started from. Others write to daemon.json as well: that it was written since says nothing of the role.
        "started": {},
    }
    if method == "static":
        left["started"] = {
            unit: [f"/etc/systemd/system/{unit}", f"{VERSIONS_DIR}/current", ENVIRONMENT] for unit in UNITS
        }
        copied = [f"{host_dir}/bundle/{archive['path']}" for archive in archives]
        left["paths"] = [
            *(f"/etc/systemd/system/{unit}" for unit in UNITS),
            f"{VERSIONS_DIR}/current",
            ENVIRONMENT,
            *copied,
        ]
        left["trees"] = [version_dir]
        left["links"] = [f"/usr/local/bin/* -> {VERSIONS_DIR}/current"]
        left["groups"] = ["docker"]
    elif method in PACKAGED:
        left["started"] = {unit: [f"/etc/systemd/system/{unit}.d/baremetal-llm.conf", ENVIRONMENT] for unit in UNITS}
        left["paths"] = list(dict.fromkeys(path for paths in left["started"].values() for path in paths))
        left["packages"] = list(packages)
    return left


def install_error(variables: Mapping[str, object], found: Mapping[str, object], lang: str = "en") -> str:
    """The text of ``install_problems`` for a host; empty if there is none."""
    facts, host = facts_of(variables), variables["inventory_hostname"]
    said = {
        "host": host,
        "system": f"{facts['distribution']} {facts['distribution_version']}",
        "bundle": variables.get("llm_bundle_dir") or "",
        "offline": is_true(variables["llm_offline"]),
    }
    problems = install_problems({**said, **found}, lang)
    return render(problems, lang, message("install_header", lang, host=host, count=len(problems))) if problems else ""


def install_problems(found: Mapping[str, Any], lang: str = "en") -> list[dict[str, str]]:
    """All of them at once.

    ``found`` says what is asked for - ``prefix`` of the role's variables, ``host``, ``system``, ``method``, ``wanted`` (a version),
    ``bundle``, ``bundled`` (versions in it), ``offline``, ``repository`` (whether the publisher has one for the system) - and, for
    the engine, what is there: ``other_kind`` (an engine of the other kind), ``old_root``, ``new_root``, ``held`` (how much lies
    below the old one), ``flags`` (the engine's command line), ``config`` (what daemon.json will have), ``asked_options`` (what of that the inventory
    asks for), ``swarm`` and ``snap``, with ``switch_enabled`` and ``root_change_enabled``.
    """
    prefix, method, host = str(found["prefix"]), str(found["method"]), found["host"]
    everybody = message("where_group", lang, group="all")
    problems: list[dict[str, str]] = []

    def add(code: str, variable: str, value: object, **values: object) -> None:
        said = "{0}{1}: {2}".format(prefix, variable, shown(value, lang))
        problems.append(problem(code, lang, value=said, where=everybody, host=host, prefix=prefix, **values))

    if method in ("static", "bundle") and not found["wanted"]:
        bundled = names(list(found["bundled"]), lang)
        add("install_version_open", "version", None, bundle=found["bundle"], bundled=bundled)
    if method == "repository" and found["offline"]:
        add("install_repository_offline", "method", method)
    if method == "repository" and not found["repository"]:
        add("install_no_repository", "method", method, system=found["system"])
    if found.get("other_kind") and not found.get("switch_enabled"):
        add("engine_other_kind_static" if method == "static" else "engine_other_kind_package", "method", method)
    if found.get("held") and found["new_root"] != found["old_root"] and not found.get("root_change_enabled"):
        add("engine_root_moves", "data_root", found["new_root"], old=found["old_root"], new=found["new_root"])
    if found.get("snap") and method != "present":
        add("engine_is_snap", "method", method)
    keeps = found.get("live_restore_flag")
    if found.get("other_kind") and found.get("switch_enabled") and keeps:
        add("engine_switch_live_restore", "switch_enabled", True, path=keeps["path"])
    flags, asked = found.get("flags") or {}, found.get("asked_options") or {}
    for directive in colliding(flags, {"runtimes": {"nvidia": {}}, **(found.get("config") or {})}):
        flag, values = flags[directive], {"host": host, "path": flags[directive]["path"], "directive": directive}
        code = "engine_flag_asked" if directive in asked else "engine_flag_in_file"
        if directive == "runtimes":
            code = "engine_runtime_flags"
        values["variable"] = ASKED.get(directive, "docker_daemon_options")
        problems.append(problem(code, lang, value=flag["said"], where=str(flag["path"]), **values))
    if found.get("swarm") and asked.get("live-restore"):
        add("engine_swarm_live_restore", "daemon_options", {"live-restore": True})
    return problems
