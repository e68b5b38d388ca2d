# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which stages of a run have something to do on which hosts.

A role leaves a record on the host: the digest of all that it was asked for, and evidence of what it left. Where the digest is the
same and the evidence holds there is nothing to do. Everything else, an unreadable record for instance, means that the role is run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import needed_models
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import alias_hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Names
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import DEFAULT, engine, engine_names
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import facts_of, mapping, texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true, mappings

# The roles of each stage, and the stages after which it has to be run as well: on the same host, or for stages that concern a
# whole deployment on any host of it.
STAGES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "prepare": (("nvidia_driver", "docker", "nvidia_container_toolkit"), ()),
    "images": (("images",), ("prepare",)),
    "models": (("models",), ()),
    "network": (("network",), ("prepare",)),
    # The roles of the engines (roles_of).
    "serve": ((), ("prepare", "images", "models", "network")),
}
OF_A_DEPLOYMENT = ("network", "serve")
# The others concern a machine, under whichever of its names.
OF_A_MACHINE = tuple(stage for stage in STAGES if stage not in OF_A_DEPLOYMENT)
# Services beside the deployments, and the groups of their hosts. Monitoring has exporters everywhere.
GROUPS_OF_SERVICES = {
    "gateway": ("llm_gateway",),
    "monitoring": ("llm_deployments", "llm_monitoring"),
    "web_ui": ("llm_web_ui",),
}
# Not a stage, but left out like one.
LOCK = "lock"
# However many replicas a model has, they start anew in at most so many batches.
MOST_BATCHES = 4
# In place of what a role is asked for that has nothing to do on a host, whatever its record says.
UNUSED = "unused"
# What a machine without containers does without.
OF_AN_ENGINE = ("docker", "nvidia_container_toolkit")
# Beside what each role is asked for: the digest of the code that does it.
CODE = "collection"
# Roles whose variables say all that they are asked for. The others are asked by the decision.
BY_VARIABLES = ("nvidia_driver", "docker", "nvidia_container_toolkit", "images", "models")
# Known before anything is decided.
EARLY_STAGES = tuple(stage for stage, (roles, _after) in STAGES.items() if roles and set(roles) <= set(BY_VARIABLES))

# Molecule skips these tags in all of its runs (molecule/provisioner/ansible.py), and no task of the collection has them.
MOLECULE_TAGS = {"molecule-notest", "notest"}

# Where something lies on the controller, or what people read, changes nothing on a host.
OF_ALL_ROLES = ("llm_host_dir", "llm_offline")
OF_THE_CONTROLLER = (
    *("llm_bundle_dir", "llm_sources_dir", "llm_report_dir", "llm_secrets_dir", "llm_language"),
    *("llm_full_check", "llm_rotate_secrets", "llm_take_over"),
)
# Settings of an engine that are about measuring an answer, and no part of what serves.
OF_MEASURING = (
    *("benchmark_requests", "benchmark_concurrency", "benchmark_timeout_seconds"),
    *("benchmark_input_tokens", "benchmark_output_tokens", "canary_slower_percent", "canary_alert_seconds"),
)
# What of a host decides how something is installed there.
SYSTEM_FACTS = ("distribution", "distribution_version", "architecture", "kernel")
# What of the bundle a role brings to the host.
BUNDLE_KINDS = {
    "nvidia_driver": ("driver", "os_packages"),
    "docker": ("docker", "os_packages"),
    "nvidia_container_toolkit": ("nvidia_container_toolkit", "os_packages"),
    "images": ("image",),
    "models": ("model",),
}
# Of the section network: the rest tells how it comes about.
NETWORK_KEYS = ("enabled", "backend", "table", "rules", "state")

COLLECTION = Path(__file__).resolve().parents[3]


def serving_roles() -> tuple[str, ...]:
    """The roles of all engines. They write secrets of the controller to the hosts."""
    return tuple(dict.fromkeys(role for name in engine_names() for role in engine(name).roles))


def roles_of(stage: str) -> tuple[str, ...]:
    """The roles of a stage."""
    return serving_roles() if stage == "serve" else STAGES[stage][0]


def digest(content: object) -> str:
    """A digest of plain data, the same on every controller."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def code_digest(collection: Path = COLLECTION) -> str:
    """A digest of all that can make a role do something else: the collection's roles and plugins."""
    found = hashlib.sha256()
    for folder in ("plugins", "roles"):
        for path in sorted((collection / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(f"{path.relative_to(collection)}\n".encode())
                found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def variables_of(variables: Mapping[str, object], options: Iterable[str]) -> dict[str, object]:
    """The values of a role's variables on a host; what is not set is not there."""
    names = [name for name in sorted({*options, *OF_ALL_ROLES}) if name in variables and not _is_of_controller(name)]
    return {name: _value(variables, name) for name in names}


def _value(variables: Mapping[str, object], name: str) -> object:
    """A default that only the role itself can evaluate follows from other variables, which are here as well."""
    try:
        return variables[name]
    except Exception:  # Ansible has several for it
        return None


def bundled(
    role: str, records: Sequence[Mapping[str, object]], models: Collection[str], wanted: Collection[str]
) -> list[str] | list[list[str]]:
    """What of the bundle a role brings: the records of its kinds, of models and images those that the host needs."""
    found = [record for record in records if record["kind"] in BUNDLE_KINDS.get(role, ())]
    if role == "models":
        found = [record for record in found if record.get("model") in models]
    if role == "images":
        # An archive may hold other images as well, which come and go.
        images = [entry for record in found for entry in mappings(record.get("images"))]
        return sorted(str(entry["id"]) for entry in images if entry["reference"] in wanted)
    return sorted([str(record["path"]), str(record["sha256"])] for record in found)


def asked_by_variables(
    variables: Mapping[str, object],
    options: Mapping[str, Iterable[str]],
    records: Sequence[Mapping[str, object]],
    image: str,
    machine: Mapping[str, object] | None = None,
) -> dict[str, str]:
    """The digest of what each role of ``BY_VARIABLES`` is asked for on one host.

    ``machine`` has the ``images`` and ``models`` of a machine with several deployments, so that each of its names asks for the same, and says
    whether anything there needs an ``engine``.
    """
    facts = facts_of(variables)
    system = {name: facts.get(name) for name in SYSTEM_FACTS}
    shared = mapping(machine)
    models = texts(shared.get("models")) or needed_models(variables)
    images = sorted(texts(shared.get("images")) or [image])
    unused = [] if shared.get("engine", True) else [*OF_AN_ENGINE]
    unused += [] if any(images) else ["images"]
    return dict.fromkeys(unused, UNUSED) | {
        role: digest(
            [
                *(system, variables_of(variables, options[role]), bundled(role, records, models, images)),
                images if shared.get("images") else image,
            ]
        )
        for role in BY_VARIABLES
        if role not in unused
    }


def asked_by_decision(
    section: Mapping[str, object],
    variables: Mapping[str, object],
    options: Mapping[str, Iterable[str]],
) -> dict[str, str]:
    """The digest of what the network and each role of the engine is asked for on one host; ``section`` is the host's of the decision.

    The roles of other engines have nothing to do there.
    """
    shared = {key: section.get(key) for key in ("deployment", "head", "planned", "is_head", "image", "address")}
    mine = engine(str(section.get("engine") or DEFAULT))
    parts: dict[str, object] = {
        "network": {key: mapping(section["network"])[key] for key in NETWORK_KEYS},
        **{role: section.get(role) for role in mine.before},
        mine.name: without_report(mapping(section.get(mine.name))),
    }
    # What their programs read of these may be secrets, and is in no decision.
    environments = {f"{role}_environment" for role in mine.roles}
    return {role: UNUSED for role in serving_roles() if role not in mine.roles} | {
        role: digest(
            [
                shared,
                variables_of(variables, {*options[role], *(environments if role in mine.roles else ())}),
                part,
            ]
        )
        for role, part in parts.items()
        if part
    }


def _is_of_controller(name: str) -> bool:
    return name in OF_THE_CONTROLLER or any(
        name == f"{engine}_{each}" for engine in engine_names() for each in OF_MEASURING
    )


def with_secrets(asked: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
    """The same with the secrets that the roles write. They are agreed on before this is asked."""
    return {
        role: digest([found, secrets]) if role in serving_roles() and found != UNUSED else found
        for role, found in asked.items()
    }


def without_report(section: Mapping[str, object]) -> dict[str, object]:
    """The section without what only the report says of the links, and without the benchmark, which leaves nothing on the host."""
    collective = {key: value for key, value in mapping(section.get("collective")).items() if not key.startswith("link")}
    kept = {key: value for key, value in section.items() if key != "benchmark"}
    return {**kept, "collective": collective} if section else {}


def differs(asked: Mapping[str, str], records: Mapping[str, Mapping[str, object]], stage: str) -> list[dict[str, str]]:
    """Why the roles of a stage have something to do on a host, as ``role``, ``code`` and ``what``; nothing where all their records hold."""
    return [reason for role in roles_of(stage) for reason in role_differs(role, asked, records)]


def role_differs(
    role: str, asked: Mapping[str, str], records: Mapping[str, Mapping[str, object]]
) -> list[dict[str, str]]:
    """The same for one role."""
    record = records.get(role)
    code = ""
    if asked.get(role) == UNUSED:
        return []
    if record is None or role not in asked:
        code = "work_no_record"
    elif record["collection"] != asked.get(CODE):
        code = "work_other_collection"
    elif record["digest"] != asked[role]:
        code = "work_other_settings"
    if code:
        return [{"role": role, "code": code, "what": ""}]
    return [{"role": role, "code": "work_differs", "what": what} for what in texts((record or {})["differs"])]


def to_do(
    deployments: Mapping[str, Sequence[str]],
    asked: Mapping[str, Mapping[str, str]],
    records: Mapping[str, Mapping[str, Mapping[str, object]]],
    lost: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, dict[str, list[dict[str, str]]]]:
    """For each stage the hosts where it has something to do, each with the reasons; none where an earlier stage is the reason.

    ``deployments`` has the hosts of this run by deployment. ``asked`` and ``records`` are by host and role; ``asked`` has the ``CODE`` as well.
    ``lost`` names by deployment the hosts that did not answer or failed in this run: what is done without them is to be refused, or to be reported.
    """
    found: dict[str, dict[str, list[dict[str, str]]]] = {}
    for stage, (_roles, after) in STAGES.items():
        found[stage] = {}
        for name, members in deployments.items():
            reasons = {host: differs(asked.get(host) or {}, records.get(host) or {}, stage) for host in members}
            if stage in OF_A_DEPLOYMENT:
                gone = [{"role": host, "code": "work_lost", "what": ""} for host in (lost or {}).get(name, ())]
                reasons = {host: [*found_there, *gone] for host, found_there in reasons.items()}
            mine = {
                host: reasons[host]
                for host in members
                if reasons[host] or (used(asked.get(host) or {}, stage) and any(host in found[each] for each in after))
            }
            if mine and stage in OF_A_DEPLOYMENT:
                mine = reasons
            found[stage] |= mine
    return found


def used(asked: Mapping[str, str], stage: str) -> bool:
    """Whether a stage has a role that may have something to do on a host."""
    return any(asked.get(role) != UNUSED for role in roles_of(stage))


def left_out(
    hosts: Sequence[str],
    found: Mapping[str, Iterable[str]],
    variables: Mapping[str, object],
    known: Iterable[str] = (*STAGES,),
    aliases: Collection[str] = (),
    asked: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, str]:
    """For each stage the end of its play's pattern: the hosts where there is nothing to do. No host is left out of a run that is to
    walk everything (``llm_full_check``), or that has tags. Other runs are kept away from hosts where one of the stages has something to do of
    which it is ``known``. ``aliases`` are the hosts whose machine is in this run under another name, under which it is prepared. A stage
    that a host does not use, by what its roles are ``asked`` there, is left out of every run."""
    idle = {stage: [host for host in hosts if not used((asked or {}).get(host) or {}, stage)] for stage in OF_A_MACHINE}
    again = {stage: without(dict.fromkeys([*aliases, *idle[stage]]), ()) for stage in OF_A_MACHINE}
    if is_true(variables.get("llm_full_check")) or not whole_run(variables):
        return {**dict.fromkeys([*STAGES, LOCK], ""), **again}
    busy = {host for stage in known for host in found[stage]}
    first = {stage: set(found[stage]) - (set(aliases) if stage in OF_A_MACHINE else set()) for stage in STAGES}
    return {**{stage: without(hosts, first[stage]) for stage in STAGES}, LOCK: without(hosts, busy)}


def rolling(
    deployments: Mapping[str, Sequence[str]], models: Mapping[str, str], standing: Collection[str], left_out: str
) -> dict[str, object]:
    """In which order replicas are changed, so that others of the same model answer meanwhile.

    ``deployments`` has the hosts of this run by deployment, ``models`` the names under which they serve, ``standing`` the deployments that have
    served before, ``left_out`` the end of the pattern of the stage serve. What does not serve yet comes first, at once.

    Returns ``sizes`` and ``hosts``, the batches of the play and its pattern (both empty where one batch is enough), ``after``, by host the hosts of
    earlier batches with the same model: where one of these fails, the host is left as it is, and ``meanwhile``, by deployment the others of its
    model that serve and are in another batch.
    """
    idle = set(left_out.split(":!"))
    batch_of: dict[str, int] = {}
    for model in dict.fromkeys(models.values()):
        replicas = [name for name in deployments if models[name] == model]
        changed = [name for name in replicas if name in standing]
        first = int(any(set(deployments[name]) - idle for name in replicas if name not in standing))
        batches = min(len(changed), MOST_BATCHES)
        batch_of |= dict.fromkeys(replicas, 0)
        batch_of |= {name: first + index * batches // len(changed) for index, name in enumerate(changed)}
    batches_of_hosts = [
        [host for name, hosts in deployments.items() if batch_of[name] == batch for host in hosts]
        for batch in range(max(batch_of.values(), default=0) + 1)
    ]
    sizes = [size for batch in batches_of_hosts if (size := sum(host not in idle for host in batch))]
    several = len(sizes) > 1
    return {
        "sizes": sizes if several else [],
        "hosts": ":".join(host for batch in batches_of_hosts for host in batch) if several else "",
        "after": {
            host: [
                other
                for earlier, others in deployments.items()
                if models[earlier] == models[name] and batch_of[earlier] < batch_of[name]
                for other in others
            ]
            for name, hosts in deployments.items()
            for host in hosts
        },
        "meanwhile": {
            name: [
                other
                for other in deployments
                if other in standing and models[other] == models[name] and batch_of[other] != batch_of[name]
            ]
            for name in deployments
        },
    }


def one_by_one(
    deployments: Mapping[str, Sequence[str]], models: Mapping[str, str], busy: Collection[str]
) -> dict[str, object]:
    """The batches of an upgrade, each one deployment: ``sizes`` and ``hosts`` (the play's pattern), and ``canaries``, of each model the deployment that
    comes first. ``busy`` are the hosts where something is to be done."""
    found = {name: [host for host in hosts if host in busy] for name, hosts in deployments.items()}
    batches = {name: hosts for name, hosts in found.items() if hosts}
    first: dict[str, str] = {}
    for name in batches:
        first.setdefault(models[name], name)
    return {
        "sizes": [len(hosts) for hosts in batches.values()],
        "hosts": ":".join(host for hosts in batches.values() for host in hosts),
        "canaries": list(first.values()),
    }


def stage_hosts(
    stage: str, left_out: Mapping[str, str], node: str = "", sharing: Sequence[str] = (), batches: str = ""
) -> str:
    """The pattern of a stage's play. ``node`` is the only host that counts where a stage concerns each machine by itself (empty: all);
    ``sharing`` are all names of its machine, of which ``left_out`` leaves one. ``batches`` has the hosts in the order in which the stage serve
    takes them (empty: that of the inventory)."""
    only = ":".join(sharing) or node
    everywhere = (batches if stage == "serve" else "") or "llm_deployments"
    return (only if node and stage in OF_A_MACHINE else everywhere) + left_out.get(stage, "")


def service_hosts(service: str, groups: Mapping[str, Sequence[str]], needed: Mapping[str, bool]) -> str:
    """The pattern of the hosts on which the gateway or monitoring has something to do. ``needed`` says it by host."""
    members = [group for group in GROUPS_OF_SERVICES[service] if group in groups]
    hosts = [host for group in members for host in groups[group]]
    return ":".join(members) + without(dict.fromkeys(hosts), [host for host, is_needed in needed.items() if is_needed])


def former_hosts(
    role: str,
    members: Sequence[str],
    current: Collection[str],
    records: Mapping[str, Mapping[str, object]],
    names: Mapping[str, Names],
) -> str:
    """The pattern of the hosts of deployments that have a record of a service and are none of its ``current`` hosts: each machine under one name."""
    found = [host for host in members if host not in current and role in records.get(host, {})]
    second = alias_hosts(found, names)
    return "llm_deployments" + without(members, [host for host in found if host not in second])


def without(hosts: Iterable[str], busy: Iterable[str]) -> str:
    """The end of a play's pattern that leaves out the hosts where there is nothing to do."""
    working = set(busy)
    return "".join(f":!{host}" for host in hosts if host not in working)


def whole_run(variables: Mapping[str, object]) -> bool:
    """Whether roles run with all their tasks: tags leave some out."""
    skipped = set(texts(variables.get("ansible_skip_tags"))) - MOLECULE_TAGS
    return (texts(variables.get("ansible_run_tags")) or ["all"]) == ["all"] and not skipped
