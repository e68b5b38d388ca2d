# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a deployment serves with, so that it can go back to it: what is noted of it, what roles are given then, and what people are told.

On the hosts it lies as ``module_utils/_served.py`` has it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NotRequired, TypedDict, cast

from ansible_collections.baremetal.llm.plugins.module_utils._served import RELEASE, is_shown, is_state, understood
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import (
    CODE,
    bundled,
    digest,
    one_by_one,
    without_report,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import folder_of, needed_models
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import CONTAINER
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import HostSection
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import DEFAULT, engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, text, texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names, problem


class ServedImage(TypedDict):
    """The image that a container had; empty texts where none was used."""

    reference: str
    id: str


class KeptModel(TypedDict):
    """A model that is served, and below which folder its files have a second name; empty where they have none."""

    model: str
    folder: str
    revision: str
    kept: str


class State(TypedDict):
    """What served: its digest, since when, its image and models. On the host the plan and the section are kept besides."""

    version: str
    since: str
    image: ServedImage
    models: list[KeptModel]
    plan: NotRequired[Mapping[str, object]]
    section: NotRequired[HostSection]


class Served(TypedDict):
    """What a host says that it has served with, the newest first, what it went back from, and what a run has begun to bring."""

    states: list[State]
    returned: Mapping[str, object] | None
    begun: ServedVersion | None


class ServedVersion(TypedDict):
    """A version and its image."""

    version: str
    image: str


class Looked(TypedDict, total=False):
    """What the module served found of a state on a host; nothing of a host that does not answer."""

    # Nothing where the host has no such state.
    served: State
    # Whether its image is there, and whether by its kept name alone; files of models that are not.
    present: bool
    moved: bool
    lacking: list[str]
    left: ServedVersion


class Announced(TypedDict):
    """What a run is about to do with deployments, why it cannot, and the batches of its play (``one_by_one``)."""

    lines: list[str]
    problems: list[dict[str, str]]
    turns: Mapping[str, object]


class Back(NamedTuple):
    """A deployment that went back: what it left (``version``, ``image``), when (``at``), and why (``reason``, empty where a person asked for it)."""

    version: str
    image: str
    at: str
    reason: str


def served_models(variables: Mapping[str, object], records: Sequence[Mapping[str, object]]) -> list[dict[str, str]]:
    """The models of a deployment, ``{model, folder, revision, files}``: ``files`` is a digest of what the bundle or a hub has of it, empty where
    neither has any."""
    found = []
    for model in needed_models(variables):
        mine = [record for record in records if record.get("kind") == "model" and record.get("model") == model]
        revision = next((str(record["revision"]) for record in mine if record.get("revision")), "")
        files = digest(sorted([str(record["path"]), str(record.get("sha256"))] for record in mine)) if mine else ""
        found.append({"model": model, "folder": folder_of(variables, model), "revision": revision, "files": files})
    return found


def weights_of(models: Sequence[Mapping[str, object]]) -> list[str]:
    """What of the models makes another server, as it reads them when it starts."""
    return [str(model["files"]) for model in models if model["files"]]


def version_of(
    section: Mapping[str, object], launch: Mapping[str, object], records: Sequence[Mapping[str, object]]
) -> str:
    """A digest of what a deployment serves with, the same for all of its hosts; ``section`` is that of its head."""
    image = str(section.get("image") or "")
    parts = [without_report(mapping(section.get(role))) for role in engine(str(section["engine"])).roles]
    held = [record for record in records if record.get("kind") == "image"]
    return digest([image, bundled("images", held, (), [image]), weights_of(mappings(section["models"])), launch, parts])


def serves_with(section: Mapping[str, Any], plan: Mapping[str, object], release: str) -> dict[str, object]:
    """What a host keeps of the version that it serves with, by its ``section`` of the decision; the ``plan`` lies on the head."""
    in_containers = section["runtime"] == CONTAINER
    roles = engine(section["engine"]).roles
    program = next((role for role in reversed(roles) if section[role]["needed"]), "")
    environment = section["environment"]
    return {
        "version": section["version"],
        RELEASE: release,
        "image": section["image"] if in_containers else "",
        "container": section["names"][program] if in_containers and program else "",
        "models": section["models"],
        "environment": environment["folder"] if environment["made"] else "",
        "section": section,
        "plan": plan if section["is_head"] else {},
    }


def closed_names(section: Mapping[str, object]) -> list[str]:
    """The variables of a host's programs that may be secrets: their values are in no section."""
    parts = [mapping(section[role]) for role in engine(str(section["engine"])).roles]
    files = [name for part in parts for name in texts(mapping(part.get("environment_file")).get("names"))]
    units = [name for part in parts for name in texts(mapping(part.get("unit")).get("closed"))]
    return sorted({*files, *units})


def kept_tag(image_id: str) -> str:
    """The name of an image that stays while it may be gone back to."""
    return f"llm-kept:{image_id.rpartition(':')[2][:12]}"


def restored(served: State, moved: bool, code: str) -> HostSection:
    """The section with which a host serves as it did; ``moved`` says that its image has only its kept name by now."""
    section = served["section"]
    if moved:
        tag = json.dumps(kept_tag(served["image"]["id"]))
        section = json.loads(json.dumps(section).replace(json.dumps(served["image"]["reference"]), tag))
    return cast(HostSection, {**section, "asked": {**(section.get("asked") or {}), CODE: code}})


def served_decision(looked: Mapping[str, Looked], code: str, decision: Mapping[str, object]) -> dict[str, object]:
    """A decision with which hosts serve as they did. ``looked`` has what the module served found on each; ``decision`` is that of this run, if any."""
    found = {host: each for host, each in looked.items() if each.get("served")}
    sections = {host: restored(each["served"], bool(each["moved"]), code) for host, each in found.items()}
    plans = {
        sections[host]["deployment"]: each["served"]["plan"]
        for host, each in found.items()
        if each["served"].get("plan")
    }
    base = dict(decision) or {"networks": {}, "gateways": {}, "secrets": [], "rolling": {}}
    return {
        **base,
        "plans": {**mapping(base.get("plans")), **plans},
        "hosts": {**mapping(base.get("hosts")), **sections},
    }


def back_problems(deployment: str, looked: Mapping[str, Looked], language: str = "en") -> list[dict[str, str]]:
    """Why a deployment cannot go back to what was looked for on its hosts; nothing where it can."""
    where = message("where_group", language, group=deployment)
    silent = [host for host, each in looked.items() if not each]
    none = [host for host, each in looked.items() if each and not each.get("served")]
    found = []
    if silent:
        found.append(problem("back_silent", language, names(silent, language), where, deployment=deployment))
    if none:
        found.append(problem("back_none", language, names(none, language), where, deployment=deployment))
    versions = {each["served"]["version"] for each in looked.values() if each.get("served")}
    if not none and not silent and len(versions) > 1:
        found.append(problem("back_differs", language, names(list(looked), language), where, deployment=deployment))
    for host, each in looked.items():
        if each.get("served") and not each["present"]:
            image = each["served"]["image"]
            values = {"host": host, "deployment": deployment, "id": image["id"]}
            found.append(problem("back_no_image", language, image["reference"], where, **values))
        if each.get("served") and each["lacking"]:
            found.append(
                problem(
                    "back_no_model", language, names(each["lacking"], language), where, host=host, deployment=deployment
                )
            )
    return found


def served_of(facts: Mapping[str, object]) -> Served:
    """``llm_served`` of a host's facts: ``states``, ``returned`` and ``begun``; none of them where that is nothing that a host of ours says."""
    return cast(Served, understood(facts.get("llm_served"), is_shown))


def looked_for(found: object) -> Looked:
    """What the module served has found on a host; empty, as of a host that does not answer, where that is nothing that it says."""
    if not isinstance(found, Mapping) or not found:
        return {}
    served, left, lacking = found.get("served"), found.get("left"), found.get("lacking")
    is_right = served == {} or is_state(served)
    is_right &= isinstance(left, Mapping) and isinstance(left.get("image", ""), str)
    is_right &= isinstance(lacking, list) and all(isinstance(each, str) for each in lacking)
    return cast(Looked, dict(found)) if is_right and "present" in found else {}


def version_before(served: Mapping[str, Served]) -> str:
    """The version to which a deployment goes back, of ``llm_served`` of each of its hosts; empty where there is none.

    Where the hosts do not all have the same newest version, a run was ended meanwhile, and the one is meant that all of them know.
    """
    stacks = [_stack(each) for each in served.values()]
    newest = {stack[0] if stack else "" for stack in stacks}
    if len(newest) == 1:
        before = {stack[1] if len(stack) > 1 else "" for stack in stacks}
    else:
        before = {version for version in newest if version and all(version in stack for stack in stacks)}
    return before.pop() if len(before) == 1 else ""


def _stack(served: Served) -> list[str]:
    """The versions of a host, the newest first: also one that a run has begun and that never served."""
    versions = [state["version"] for state in served["states"]]
    begun = served["begun"]["version"] if served["begun"] else ""
    return [begun, *versions] if begun and begun not in versions[:1] else versions


def left_by(served: Served, before: str) -> ServedVersion:
    """What a host leaves that goes back: ``{version, image}``, or what it has left already where an ended run has done that."""
    states, back = served["states"], served["returned"] or {}
    if served["begun"]:
        return {"version": served["begun"]["version"], "image": served["begun"]["image"]}
    if states and states[0]["version"] != before:
        return {"version": states[0]["version"], "image": states[0]["image"]["reference"]}
    return {"version": text(back.get("version")), "image": text(back.get("image"))}


def rollback_plan(
    deployments: Mapping[str, DeploymentHosts], looked: Mapping[str, Looked], language: str = "en"
) -> Announced:
    """``{lines, problems, turns}``: what a rollback is about to do with each deployment, why it cannot, and the batches of its play.

    ``deployments`` are those that go back, each with its ``hosts`` and ``head``; ``looked`` is what the module served found on their hosts.
    """
    lines, problems = [], []
    for name, asked in deployments.items():
        hosts, head = asked["hosts"], asked["head"]
        wrong = back_problems(name, {host: looked.get(host) or {} for host in hosts}, language)
        problems += wrong
        if wrong:
            continue
        before = looked[head]["served"]
        leaves = looked[head]["left"]["image"] or "-"
        values = {"deployment": name, "hosts": names(hosts, language), "before": state_line(before, language)}
        lines.append(message("back_line", language, now=leaves, **values))
    members = {name: list(asked["hosts"]) for name, asked in deployments.items()}
    turns = one_by_one(members, {name: name for name in members}, [host for each in members.values() for host in each])
    return {"lines": lines, "problems": problems, "turns": turns}


def upgrade_plan(
    deployments: Mapping[str, DeploymentHosts],
    served: Mapping[str, Served],
    decision: Mapping[str, Any],
    releases: Mapping[str, str],
    language: str = "en",
) -> Announced:
    """``{lines, problems, turns}`` of an upgrade: ``deployments`` as above, ``served`` what gather found, ``decision`` that of the run, ``releases`` the
    release of each."""
    lines, problems = [], []
    lacking = [
        host
        for each in deployments.values()
        for host in each["hosts"]
        if host not in served or not served[host]["states"]
    ]
    if lacking:
        problems.append(problem("upgrade_never_served", language, names(lacking, language), "llm_target"))
    for name, asked in {} if lacking else deployments.items():
        work = [
            message("upgrade_line_work", language, host=host, stage=stage, why=reason_text(reason, language))
            for stage, hosts in decision["work"].items()
            for host, reasons in hosts.items()
            if host in asked["hosts"]
            for reason in reasons
        ]
        section = decision["hosts"].get(asked["head"]) or {}
        if not work:
            continue
        now = served[asked["head"]]["states"][0]
        values = {"deployment": name, "hosts": names(asked["hosts"], language)}
        lines.append(message("upgrade_line", language, now=state_line(now, language), **values))
        if section.get("version") != now["version"]:
            revisions = [f"{one['model']}@{one['revision'][:12]}" for one in section["models"] if one["revision"]]
            models = names(revisions or [one["model"] for one in section["models"]], language)
            title = engine(str(section.get("engine") or DEFAULT)).title
            values = {"image": section["image"] or "-", "title": title, "release": releases[name], "models": models}
            lines.append(message("upgrade_line_to", language, **values))
        lines += work
    shown = lines or [message("upgrade_nothing", language)]
    return {"lines": shown, "problems": problems, "turns": decision["turns"]}


def reason_text(reason: Mapping[str, str], language: str = "en") -> str:
    """Why a role has something to do, as the report says it."""
    return f"{reason['role']} ({message(reason['code'], language, what=reason.get('what') or '')})"


def state_line(state: State, language: str = "en") -> str:
    """A version that served, in a few words: image, release, revisions, since when."""
    revisions = [f"{model['model']}@{model['revision'][:12]}" for model in state["models"] if model["revision"]]
    return message(
        "served_state",
        language,
        image=state["image"]["reference"] or "-",
        release=state.get(RELEASE),
        models=names(revisions or [model["model"] for model in state["models"]], language),
        since=state["since"],
    )


def back_of(facts: Mapping[str, object]) -> Back | None:
    """Whether what a host serves with is what its deployment went back to; ``facts`` are those of gather."""
    returned = served_of(facts)["returned"]
    return Back(*(str(returned.get(name) or "") for name in Back._fields)) if returned else None


def asks_for_left(
    deployment: str, version: str, back: Back | None, again: bool, language: str = "en"
) -> tuple[list[dict[str, str]], str]:
    """What a run is refused for, and what it says: the inventory asks for a ``version`` that the deployment went back from. One that a person left is
    named; one that did not serve is refused, unless it is tried ``again`` with a way back."""
    if back is None or back.version != version:
        return [], ""
    values = {"deployment": deployment, "image": back.image or "-", "at": back.at}
    if back.reason and not again:
        where = message("where_group", language, group=deployment)
        return [
            problem("upgrade_returned", language, back.image or version[:12], where, reason=back.reason, **values)
        ], ""
    return [], message("upgrade_asked_again", language, **values)
