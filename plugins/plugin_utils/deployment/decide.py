# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that concerns more than one host or more than one role, decided once for all deployments.

The result is plain data: ``plans`` and ``networks`` (what the connectivity check showed) by deployment, and ``hosts``, each with
a section for every role. What cannot be known yet is left out: before a host was looked at there is a plan and nothing else.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.container_user import user_problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.devices import (
    named_devices,
    overlaid,
    own_gpus,
    with_own_gpus,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import (
    gpus_of,
    gpus_of_machine,
    image_to_run,
    is_reduced,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.launch import host_sections
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Deployment, ranked_hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.model_config import (
    Found,
    config_problem,
    find_config,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import foreign, former, names_on
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names as names_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.paths import FILES
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.python_environments import (
    candidates,
    environment_section,
    held,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import (
    is_made,
    is_venv,
    scripts_folder,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import HostSection, Names
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.served import (
    served_models,
    version_of,
    weights_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine_of, name_of, setting, variable_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Inputs, Served
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import ABSENT, DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.origin import manifest_folder
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import (
    fact,
    facts_of,
    items,
    mapping,
    texts,
    whole,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true, mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names, problem, shown
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.decide import NFTABLES, Network, backend_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.uncertainty import STARTS, UNSURE, UNVERIFIED


@dataclass(frozen=True)
class DecisionInput:
    """What is known when it is decided."""

    deployments: Mapping[str, DeploymentHosts]
    # The variables of each host, defaults included, with what was found on it.
    variables: Mapping[str, Mapping[str, object]]
    # The hosts that this run is about and has not lost.
    playing: Sequence[str]
    # Hosts outside of a deployment that connect to it: clients and collectors.
    services: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # What an earlier decision of this run planned: a plan is made once.
    plans: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # What past starts measured.
    observations: Sequence[Mapping[str, object]] = ()
    turns: int = 1
    language: str = "en"
    # What things are called on each host; a host that is not in it shares its machine with nobody.
    names: Mapping[str, Names] = field(default_factory=dict)


@dataclass(frozen=True)
class Readers:
    """What is read on the controller when it is needed."""

    # The records of a bundle's manifest; none where there is no bundle.
    records: Callable[[str], Sequence[Mapping[str, object]]]
    # A model's config.json.
    config: Callable[[str], Mapping[str, object]]
    # A file that travels with the inventory.
    text: Callable[[str], str] = lambda path: Path(path).read_text(encoding="utf-8")
    # The addresses of a name.
    resolve: Callable[[str], Sequence[str]] = lambda name: ()
    # The config.json of a model that neither the bundle nor a variable names.
    search: Callable[[str], Found] = lambda model: Found(None)


def decide(question: DecisionInput, sources: Readers) -> dict[str, Any]:
    """``{plans, networks, hosts, problems}``; ``problems`` are those of every plan that cannot start."""
    concerned = [host for name in _of_run(question) for host in question.deployments[name]["hosts"]]
    added, errors = own_gpus(concerned, question.variables, question.names, gpus_of_machine, question.language)
    alone = {host: names_of(sharing=[host], engine=name_of(question.variables[host])) for host in concerned}
    question = replace(question, variables=with_own_gpus(question.variables, added), names={**alone, **question.names})
    decided: dict[str, Any] = {"plans": {}, "networks": {}, "hosts": {}, "problems": errors}
    for name in _of_run(question):
        asked = question.deployments[name]
        members = [host for host in asked["hosts"] if host in question.playing]
        head = asked["head"]
        variables = question.variables
        unseen = [host for host in asked["hosts"] if not gpus_of(variables[host])]
        if unseen:
            errors.append(_unseen(name, unseen, question.language))
            continue
        bundle = manifest_folder(variables[head])
        records = list(sources.records(bundle)) if bundle else []
        engine, serving = engine_of(variables[head]), _serving(question, sources, name, asked, records, bundle)
        problems = list(serving.problems())
        if problems:
            errors += problems
            continue
        if name in question.plans:
            plan = dict(question.plans[name])
        else:
            inputs = engine.inputs(asked, variables, {"files": records})
            found = Found({})
            if engine.reads_config:
                found = find_config(inputs["config"], variables[head], bundle, sources.config, sources.search)
            if found.config is None:
                errors.append(config_problem(name, variables[head], found, question.language))
                continue
            try:
                plan = _plan(question, asked, inputs, found, records, serving)
            except InputError as error:
                errors.append(_not_taken(name, error, variables[head], question.language))
                continue
        if not plan["ok"]:
            errors.append(_refused(name, plan, variables[head], question.language))
        elif head not in ranked_hosts(plan["nodes"]):
            errors.append(_head_idle(name, head, plan, variables[head], question.language))
        else:
            errors += _narrow(name, plan, variables[head], question.language)
            errors += engine.plan_problems(name, asked, plan, variables, records, question.language)
            if not is_venv(variables[head]):
                errors += user_problems(
                    name, variables[head], {host: variables[host] for host in asked["hosts"]}, question.language
                )
        decided["plans"][name] = plan
        image = image_to_run(variables[head], records)
        if not plan["ok"]:
            continue
        if not any(variables[host].get("llm_interface") for host in members):
            # No host was looked at: names stand where addresses will.
            plan["launch"] = Deployment(name, head, asked["hosts"], plan, image, variables).launch
            continue
        errors += _no_environment(name, variables[head], records, bundle, question.language)
        errors += _shared_firewalls(question, members)
        errors += _foreign(question, members)
        network = Network(
            name,
            head,
            asked["hosts"],
            members,
            str(plan["executor"]),
            variables,
            question.services,
            sources.resolve,
            question.turns,
            question.language,
            _beside(question, asked["hosts"]),
            asked.get(ABSENT) or {},
        )
        if network.connectivity:
            decided["networks"][name] = network.connectivity
        environments = {host: environment_section(variables[host], records) for host in asked["hosts"]}
        agreed = {
            host: overlaid(
                {
                    "llm_interface": network.interfaces.get(host),
                    # The rest asks which one, and not whose.
                    variable_of(variables[host], "python"): environments[host].get("python"),
                    **_part_of_gpus(plan, host, variables[host]),
                },
                variables[host],
            )
            for host in asked["hosts"]
        }
        models = served_models(variables[head], records)
        deployment = Deployment(
            name, head, asked["hosts"], plan, image, agreed, serving.files(), question.names, weights_of(models)
        )
        plan["launch"] = deployment.launch
        # Hosts outside of this run that did not answer.
        unknown = [host for host in deployment.planned if not deployment.address(host)]
        sections = network.sections()
        version = "" if unknown else _version(deployment, models, records)
        for host in members:
            section: dict[str, object] = {
                "deployment": name,
                "engine": engine.name,
                "roles": list(engine.roles),
                "measures": engine.measures,
                "head": head,
                "planned": deployment.planned,
                "unknown": unknown,
            }
            section |= {**_named(question, host), "environment": environments[host]}
            roles = {} if unknown else host_sections(deployment.of(host)) | {"models": models, "version": version}
            decided["hosts"][host] = cast(HostSection, {**section, "network": sections[host], **roles})
    return decided


def _version(deployment: Deployment, models: list[dict[str, str]], records: Sequence[Mapping[str, object]]) -> str:
    """What the deployment serves with, as its head is given it."""
    section = {"engine": deployment.engine.name, **host_sections(deployment.of(deployment.head)), "models": models}
    return version_of(section, deployment.launch, records)


def _part_of_gpus(plan: Mapping[str, object], host: str, variables: Mapping[str, object]) -> dict[str, str]:
    """What containers call the GPUs of a host that the plan uses, where it leaves out some that are of another kind."""
    places = [whole(one) for one in items(mapping(plan.get("gpu_places")).get(host))]
    return named_devices(places, list(gpus_of(variables))) if places else {}


def _of_run(question: DecisionInput) -> list[str]:
    """The deployments with a host in this run; all of them where no host is looked at."""
    return [
        name
        for name, asked in question.deployments.items()
        if not question.playing or set(asked["hosts"]).intersection(question.playing)
    ]


def _named(question: DecisionInput, host: str) -> dict[str, object]:
    """What things are called on a host, and what they were called when its machine had more or fewer deployments."""
    mine = names_on(host, question.names)
    host_dir = str(question.variables[host]["llm_host_dir"])
    facts = facts_of(question.variables[host])
    units = [{"name": name, "ours": True} for name in texts(facts.get("llm_server_units"))]
    containers = [*mappings(mapping(facts.get("llm_container_engine")).get("containers")), *units]
    current = [names_on(each, question.names) for each in mine["sharing"]]
    return {
        "names": {**mine, "folder": host_dir + mine["folder"]},
        "former": former(containers, current, host_dir, texts(facts.get("llm_recorded"))),
    }


def _beside(question: DecisionInput, hosts: Sequence[str]) -> dict[str, list[str]]:
    """By host the hosts of the other deployments on its machine, whose traffic its firewall has to let through."""
    found: dict[str, list[str]] = {}
    for host in hosts:
        mates = set(names_on(host, question.names)["sharing"]) - {host}
        others = [asked["hosts"] for asked in question.deployments.values() if mates.intersection(asked["hosts"])]
        found[host] = [each for members in others for each in members]
    return found


def _shared_firewalls(question: DecisionInput, hosts: Sequence[str]) -> list[dict[str, str]]:
    """Machines with several deployments where somebody else's firewall runs, which has one list of rules for all."""
    found = []
    for host in hosts:
        variables = question.variables[host]
        program = backend_of(fact(variables, "llm_firewall"))
        shared = len(names_on(host, question.names)["sharing"]) > 1
        if shared and program != NFTABLES and is_true(variables.get("llm_firewall_enabled", True)):
            where = message("where_host", question.language, host=host)
            values = {"host": host, "program": program}
            found.append(problem("shared_firewall", question.language, value=program, where=where, **values))
    return found


def _foreign(question: DecisionInput, hosts: Sequence[str]) -> list[dict[str, str]]:
    """Containers of others under the names of a deployment."""
    found = []
    for host in hosts:
        engine = fact(question.variables[host], "llm_container_engine")
        for name in foreign(mappings(engine.get("containers")), names_on(host, question.names)):
            where = message("where_host", question.language, host=host)
            found.append(
                problem("container_of_others", question.language, value=name, where=where, host=host, name=name)
            )
    return found


def _plan(
    question: DecisionInput,
    asked: DeploymentHosts,
    inputs: Inputs,
    found: Found,
    records: Sequence[Mapping[str, object]],
    serving: Served,
) -> dict[str, object]:
    config = dict(found.config or {})
    head = question.variables[asked["head"]]
    engine = engine_of(head)
    request = {**inputs["request"], **serving.settings(f"{scripts_folder(head)}/{FILES}")}
    if question.observations:
        request["observations"] = list(question.observations)
    plan = engine.plan(config, inputs["nodes"], request, question.language)
    if not plan["ok"] and is_reduced(asked) and engine.context in request:
        # Fewer hosts hold less: rather a shorter context than no answers.
        without = {name: said for name, said in request.items() if name != engine.context}
        shorter = engine.plan(config, inputs["nodes"], without, question.language)
        if shorter["ok"]:
            lengths = {"asked": request[engine.context], "context": mapping(shorter["settings"]).get(engine.context)}
            said = message("plan_shorter_context", question.language, **lengths)
            plan = {**shorter, "reasons": [said, *texts(shorter["reasons"])]}
    plan = {**plan, "model": config}
    if found.origin:
        plan["reasons"] = [*texts(plan["reasons"]), found.origin.say(question.language)]
    warnings = list(serving.warnings())
    extra = texts(setting(head, "extra_arguments"))
    if extra:
        warnings.append(message("extra_arguments_warning", question.language, words=shlex.join(extra)))
    warnings += engine.plan_warnings(plan, head, records, question.language)
    predicted = mapping(plan["predicted"])
    plan["predicted"] = {**predicted, "warnings": [*texts(predicted["warnings"]), *warnings]}
    plan["engine"], plan["model_name"] = engine.name, str(setting(head, "model") or "")
    plan["fleet"] = [
        {"host": node["host"], "gpus": [str(gpu["name"]) for gpu in mappings(node["gpus"])]} for node in inputs["nodes"]
    ]
    plan["kind"] = _kind(engine.answers_with(mapping(setting(head, "options")), config), serving)
    return plan


def _kind(answer: str, serving: Served) -> str:
    """What a client asks of the server: ``chat``, ``completions`` without a chat template, ``embeddings``; empty for other answers."""
    if answer == "token":
        return "completions" if serving.lacks_template() else "chat"
    return "embeddings" if answer == "embedding" else ""


def _serving(
    question: DecisionInput,
    sources: Readers,
    name: str,
    asked: DeploymentHosts,
    records: Sequence[Mapping[str, object]],
    bundle: str,
) -> Served:
    def read(path: str) -> Mapping[str, object]:
        return sources.config(f"{bundle}/{path}")

    head = question.variables[asked["head"]]
    return engine_of(head).served(name, head, records, read, sources.text, question.language)


def _no_environment(
    name: str, head: Mapping[str, object], records: Sequence[Mapping[str, object]], bundle: str, language: str
) -> list[dict[str, str]]:
    """A host is to make its environment, and the bundle holds no wheels of the release."""
    if not is_made(head) or candidates(head, records):
        return []
    where, version = message("where_group", language, group=name), str(setting(head, "version"))
    releases = names(sorted({each.version for each in held(records)}), language)
    values = {"deployment": name, "path": bundle, "releases": releases}
    return [problem("bundle_without_environment", language, value=version, where=where, **values)]


def _narrow(name: str, plan: Mapping[str, Any], variables: Mapping[str, object], language: str) -> list[dict[str, str]]:
    """A start that the prediction cannot promise is tried only where that is asked for."""
    if plan["predicted"]["verdict"] not in UNSURE or is_true(setting(variables, "accept_narrow", False)):
        return []
    margin, accept = plan["predicted"]["margin"], variable_of(variables, "accept_narrow")
    if plan["predicted"]["verdict"] == UNVERIFIED:
        where, value = message("where_group", language, group=name), f"{accept}: false"
        return [
            problem("plan_unverified", language, value=value, where=where, deployment=name, reason=margin["reason"])
        ]
    other = next((one["change"] for one in plan["alternatives"] if one["verdict"] == STARTS), None)
    return [
        problem(
            "plan_narrow",
            language,
            value=f"{accept}: false",
            where=message("where_group", language, group=name),
            deployment=name,
            spare=f"{margin['spare_gib']:.2f}",
            uncertainty=f"{margin['uncertainty_gib']:.2f}",
            reason=margin["reason"],
            less=message("plan_narrow_other" if other else "plan_narrow_less", language, change=other),
        )
    ]


def _unseen(name: str, unseen: Sequence[str], language: str) -> dict[str, str]:
    """Hosts outside of --limit that do not answer, or of which no run has seen the GPUs."""
    hosts = names(unseen, language)
    return problem(
        "plan_gpus_unknown",
        language,
        value=f"llm_gpus ({hosts}): {message('nothing', language)}",
        where=message("where_group", language, group=name),
        deployment=name,
        hosts=hosts,
    )


def _head_idle(
    name: str, head: str, plan: Mapping[str, object], variables: Mapping[str, object], language: str
) -> dict[str, str]:
    return problem(
        "plan_head_idle",
        language,
        value=f"{variable_of(variables, 'tensor_parallel_size')}: {mapping(plan['settings']).get('tensor_parallel_size')}",
        where=message("where_group", language, group=name),
        deployment=name,
        head=head,
        hosts=names(ranked_hosts(mappings(plan["nodes"])), language),
    )


def _not_taken(name: str, error: InputError, variables: Mapping[str, object], language: str) -> dict[str, str]:
    """A setting that the planner cannot make anything of, by the name that the inventory has for it."""
    field = error.field.removeprefix("request.")
    variable = field if "." in field or field.startswith(engine_of(variables).name) else variable_of(variables, field)
    said = variables.get(variable)
    return problem(
        "plan_refused",
        language,
        value=variable if said is None else f"{variable}: {shown(said, language)}",
        where=message("where_group", language, group=name),
        deployment=name,
        reason=error.why.say(language).rstrip(".。"),
        remedy="",
    )


def _refused(name: str, plan: Mapping[str, object], variables: Mapping[str, object], language: str) -> dict[str, str]:
    error = mapping(mapping(plan["predicted"])["error"])
    return problem(
        "plan_refused",
        language,
        value=f"{variable_of(variables, 'model')}: {setting(variables, 'model')} ({error['code']})",
        where=message("where_group", language, group=name),
        deployment=name,
        reason=error["message"],
        remedy=error["remedy"],
    )
