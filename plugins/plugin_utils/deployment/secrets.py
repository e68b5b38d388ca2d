# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The secrets of a deployment: one value for the controller and all hosts, made once, adopted from hosts, changed only on request.

A host tells of a secret only its seal (``module_utils/_secrets.py``); the controller compares it with what it knows and keeps the
``Standing``. Values are read from hosts only where the controller has none.
"""

from __future__ import annotations

import base64
import re
import secrets
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.baremetal.llm.plugins.module_utils._secrets import seal
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import digest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import secret_file
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import DEFAULT, setting, variable_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import fact, mapping
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true, mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text, message, names, problem

# The secrets of a deployment, as llm_secrets_dir and llm_rotate_secrets name them. The file on a host is called as the variable that sets it.
# A key that somebody thought of: whoever reaches the port may try as many as they like. Those that are made have 40 characters and more.
LEAST_CHARACTERS = 16
SECRETS = ("ray_token", "api_key")
# What people call them.
CALLED = {"ray_token": "secret_ray_token", "api_key": "secret_api_key"}
# What a host's secret is to the controller: the one that it has, another one, that of another deployment (the host has moved), or
# one to which it has none to compare.
SAME, DIFFERS, ELSEWHERE, UNKNOWN = "same", "differs", "elsewhere", "unknown"
LENGTH, LETTERS = 40, string.ascii_letters + string.digits
# What can stand in a header, and in one line of a file. An empty key would be none: the engine and Ray then ask nobody for one.
_USABLE = re.compile(r"[!-~]+")


def secret_of(file: str) -> str:
    """Which secret of a deployment a file on a host holds, by its name; empty for none."""
    return next((name for name in SECRETS if file == name or file.endswith(f"_{name}")), "")


def kept_file(folder: str | Path, deployment: str, name: str) -> Path:
    """Where the controller keeps a secret that no variable sets."""
    return Path(folder).expanduser() / secret_file(deployment, name)


def kept(folder: str | Path, deployment: str, name: str) -> str:
    """A secret that the controller keeps, or an empty text."""
    path = kept_file(folder, deployment, name)
    return path.read_text(encoding="utf-8", errors="replace").strip() if path.is_file() else ""


def made() -> str:
    """A new secret: 40 letters and digits, about 238 bits."""
    return "".join(secrets.choice(LETTERS) for dummy in range(LENGTH))


def secret_digests(variables: Mapping[str, object], deployment: str) -> dict[str, str]:
    """A digest of each secret of a deployment that the controller keeps."""
    values = {name: kept(str(variables["llm_secrets_dir"]), deployment, name) for name in SECRETS}
    return digests(values)


def digests(values: Mapping[str, str]) -> dict[str, str]:
    """The digests of the secrets that have a value."""
    return {name: digest(value) for name, value in values.items() if value}


def standing(sealed: str, challenge: str, own: str, others: Iterable[str]) -> str:
    """What a host's secret is to the controller, whose value for this deployment is ``own`` (empty: none) and for others ``others``."""
    if own and seal(challenge, own) == sealed:
        return SAME
    if any(value and seal(challenge, value) == sealed for value in others):
        return ELSEWHERE
    return DIFFERS if own else UNKNOWN


def is_usable(value: str) -> bool:
    """Whether a text can be a secret."""
    return bool(_USABLE.fullmatch(value))


@dataclass(frozen=True)
class Secret:
    """One secret of one deployment: who has it."""

    deployment: str
    name: str
    # What sets it in the inventory.
    variable: str
    # The file on the controller.
    path: str
    # The file on each host of this run.
    files: Mapping[str, str]
    # What the hosts' secrets are to the controller; a host without one is not in it.
    held: Mapping[str, str]
    # The hosts that need it. What the others hold, such as a former head, counts where none of these has one.
    needed_by: Sequence[str] = ()
    # Whether the controller keeps one, and whether a variable sets it, which then counts.
    has: bool = False
    by_variable: bool = False
    # What the hosts hold to which the controller has nothing to compare.
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Hosts of the deployment outside of this run, which may hold one.
    outside: Sequence[str] = ()
    rotate: bool = False
    # What is wrong with the value that counts here: the code of a problem.
    wrong: str = ""

    @property
    def path_or_variable(self) -> str:
        return self.variable if self.by_variable else self.path

    @property
    def counting(self) -> dict[str, str]:
        """What is held, by the hosts that count."""
        held = {host: found for host, found in self.held.items() if found != ELSEWHERE}
        return {host: found for host, found in held.items() if host in self.needed_by} or held

    def place(self, host: str) -> str:
        return f"{host}:{self.files[host]}"


@dataclass(frozen=True)
class Agreement:
    """What became of a secret: a value that the controller has to keep from now on (empty: nothing to keep), and why, or a problem."""

    value: str = field(default="", repr=False)
    # "adopted", "made", "rotated" or nothing.
    how: str = ""
    problem: Mapping[str, str] | None = None


def agree(secret: Secret, lang: str = "en") -> Agreement:
    """One value for controller and hosts; ``value`` is to be written to the controller before any host gets it."""
    held = secret.counting
    differing = [host for host, found in held.items() if found == DIFFERS]
    if secret.rotate and not secret.by_variable:
        return Agreement(made(), "rotated")
    if secret.wrong:
        return Agreement(problem=_refused(secret.wrong, secret, [], lang))
    if secret.rotate:
        if held and not differing:
            return Agreement(problem=_refused("secret_not_changed", secret, [], lang))
        return Agreement(how="rotated")
    if secret.by_variable or secret.has:
        return Agreement(problem=_refused("secret_differs", secret, differing, lang)) if differing else Agreement()
    holding = [host for host, found in held.items() if found == UNKNOWN]
    if len({secret.values[host] for host in holding}) > 1:
        return Agreement(problem=_refused("secrets_differ", secret, holding, lang))
    if holding and not is_usable(secret.values[holding[0]]):
        return Agreement(problem=_refused("secret_unusable", secret, holding, lang))
    if holding:
        return Agreement(secret.values[holding[0]], "adopted")
    if secret.outside:
        return Agreement(problem=_refused("secret_out_of_reach", secret, [], lang))
    return Agreement(made(), "made")


def _refused(code: str, secret: Secret, hosts: Sequence[str], lang: str) -> dict[str, str]:
    places = names([secret.place(host) for host in hosts], lang)
    on_controller = Text("secret_variable", variable=secret.variable).say(lang) if secret.by_variable else secret.path
    only_hosts = bool(hosts) and not (secret.by_variable or secret.has)
    return problem(
        code,
        lang,
        value=message("secret_not_shown", lang),
        where=places if only_hosts else on_controller,
        deployment=secret.deployment,
        secret=message(CALLED[secret.name], lang),
        controller=on_controller,
        places=places,
        outside=names(secret.outside, lang),
        rotate=secret.name,
    )


def secrets_of_run(
    sections: Mapping[str, Mapping[str, object]],
    deployments: Mapping[str, DeploymentHosts],
    variables: Mapping[str, Mapping[str, object]],
    folder: Callable[[Mapping[str, object]], str],
    rotate: str,
) -> list[Secret]:
    """Every secret that a host of this run needs.

    ``sections`` are the hosts' of the decision, ``folder`` says where the controller keeps a host's secrets, and ``rotate`` names the
    secrets to make anew, or ``all``.
    """
    found = []
    for deployment, asked in deployments.items():
        members = [host for host in asked["hosts"] if host in sections]
        for name in SECRETS:
            needed_by = [host for host in members if _needs(name, sections[host], variables[host])]
            if not needed_by:
                continue
            mine = variables[needed_by[0]]
            variable = variable_of(mine, name) if name == "api_key" else name
            own = kept(folder(mine), deployment, name)
            said = [variables[host].get(variable) for host in needed_by]
            held = {host: fact(variables[host], "llm_secrets") for host in members}
            found.append(
                Secret(
                    deployment=deployment,
                    name=name,
                    variable=variable,
                    path=str(kept_file(folder(mine), deployment, name)),
                    files={
                        host: f"{mapping(sections[host]['names'])['folder']}/secrets/{variable}" for host in members
                    },
                    held={host: str(each[variable]) for host, each in held.items() if variable in each},
                    needed_by=needed_by,
                    has=bool(own),
                    by_variable=said[0] is not None,
                    values={host: _read(variables[host], variable) for host in members},
                    outside=[host for host in asked["hosts"] if host not in members],
                    rotate=rotate in (name, "all"),
                    wrong=_wrong(said, own),
                )
            )
    return found


def _wrong(said: Sequence[object], kept_here: str) -> str:
    """What is wrong with a secret that a variable sets for the hosts that need it, or else with the one that the controller keeps."""
    texts = [None if value is None else str(value).strip() for value in said]
    if len(set(texts)) > 1:
        return "secret_variable_differs"
    value = texts[0] if texts[0] is not None else kept_here
    if (texts[0] is not None or value) and not is_usable(value):
        return "secret_unusable"
    # One that the controller keeps was accepted before, and is what a rotation begins from.
    return "secret_short" if texts[0] is not None and len(texts[0]) < LEAST_CHARACTERS else ""


def _needs(name: str, section: Mapping[str, object], variables: Mapping[str, object]) -> bool:
    if name == "ray_token":
        return bool(mapping(section.get("ray")).get("needed")) and is_true(variables["ray_token_enabled"])
    server = mapping(section.get(str(section.get("engine") or DEFAULT)))
    return bool(server.get("needed") and section.get("is_head")) and is_true(setting(variables, "api_key_enabled"))


def _read(variables: Mapping[str, object], file: str) -> str:
    """A secret that was read from a host because the controller has none, as ansible.builtin.slurp returns it."""
    for result in mappings(mapping(variables.get("__preflight_secrets")).get("results")):
        if result.get("item") == file:
            return base64.b64decode(str(result["content"])).decode(errors="replace").strip()
    return ""
