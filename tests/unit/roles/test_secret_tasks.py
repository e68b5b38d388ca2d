"""No task hands a secret on in sight: what is fed by one says nothing of itself (no_log), or the parameter is one that modules hide.

Without that a value stands in the journal of the host (``Invoked with ...``), in the file of an asynchronous task, and on a terminal with -v.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.secrets import is_secret

from tests.support.roles import ROLES, tasks_of

ROOT = ROLES.parent
WORD = re.compile(r"[A-Za-z_]\w*")
# Variables that hold secrets in a part of them, and the sections of the inventory that people may fill as they like.
HOLDERS = {"gateway_keys", "monitoring_receivers"}
# What is read from a file of the controller is a secret, but for these.
FILE = re.compile(r"(?:lookup|query)\('ansible\.builtin\.file', *\*?([^,)]+(?:\([^)]*\))?)")
OPEN_FILES = {"_gateway.trusted", "_web_ui_trusted", "_web_ui.sso.ca", "_vllm_collective_file", "_common_manifest_file"}
# What only says that there is a secret; and words of a text.
HARMLESS = re.compile(r"\w+ \| (?:length|map\(attribute='name'\))|'[^']*'")
EXPRESSION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
KEYWORDS = {
    *(
        "name",
        "when",
        "register",
        "notify",
        "tags",
        "vars",
        "loop_control",
        "no_log",
        "diff",
        "delegate_to",
        "run_once",
    ),
    *("changed_when", "failed_when", "until", "retries", "delay", "check_mode", "ignore_unreachable", "async", "poll"),
    *(
        "become",
        "timeout",
        "listen",
        "args",
        "block",
        "rescue",
        "always",
        "throttle",
        "delegate_facts",
        "any_errors_fatal",
    ),
}


def texts(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """The texts in arguments of a task, each with the names that lead there."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts(item, (*path, str(key)))
    elif isinstance(value, list):
        for item in value:
            yield from texts(item, path)
    elif isinstance(value, str):
        yield path, value


@cache
def sources() -> frozenset[str]:
    """The variables that people set and that are, or hold, secrets."""
    found = set(HOLDERS)
    for path in ROLES.glob("*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            for name, option in (entry.get("options") or {}).items():
                # The keys of package repositories are for everybody.
                public = option.get("type") in ("path", "bool", "int") or name.endswith("_repository_key")
                by_name = is_secret(name) and not public
                if option.get("no_log") or by_name or (name.endswith("_environment") and option.get("type") == "dict"):
                    found.add(name)
    return frozenset(found)


def is_fed(text: str, tainted: frozenset[str] | set[str]) -> bool:
    """Whether the value of a text comes from a secret."""
    if any(place.strip() not in OPEN_FILES and not place.startswith("'") for place in FILE.findall(text)):
        return True  # a name in quotes is a file of the role itself
    return any(
        word in tainted
        for expression in EXPRESSION.findall(text)
        for word in WORD.findall(HARMLESS.sub("", expression))
    )


def definitions() -> Iterator[tuple[str, Any]]:
    """Variables of the roles, with what they are."""
    for path in [*ROLES.glob("*/vars/*.yml"), *ROLES.glob("*/defaults/*.yml")]:
        yield from (yaml.safe_load(path.read_text()) or {}).items()
    for path in files():
        for task in tasks_of(path):
            yield from (task.get("vars") or {}).items()
            yield from (task.get("ansible.builtin.set_fact") or {}).items()


def files() -> list[Path]:
    return sorted([*ROLES.glob("*/tasks/*.yml"), *ROLES.glob("*/handlers/*.yml")])


@cache
def tainted() -> frozenset[str]:
    """The variables whose value comes from a secret."""
    found, known = set(sources()), list(definitions())
    while True:
        more = {
            name
            for name, value in known
            if name not in found and any(is_fed(text, found) for _path, text in texts(value))
        }
        if not more:
            return frozenset(found)
        found |= more


@cache
def hidden_parameters(module: str) -> frozenset[str]:
    """The parameters that a module of this collection hides itself."""
    path = ROOT / "plugins/modules" / f"{module.removeprefix('baremetal.llm.')}.py"
    if not module.startswith("baremetal.llm.") or not path.is_file():
        return frozenset()
    return frozenset(re.findall(r'"(\w+)": \{[^{}]*"no_log": True', path.read_text()))


def in_sight(task: Mapping[str, Any], known: frozenset[str]) -> Iterator[str]:
    """The parameters of a task that hand a secret on without hiding it."""
    if task.get("no_log"):
        return
    for key, arguments in task.items():
        if key in KEYWORDS and key != "environment":
            continue
        if "include" in key or "import" in key:
            continue
        hidden = hidden_parameters(key)
        for path, text in texts(arguments):
            if not (path and path[0] in hidden) and is_fed(text, known):
                yield ".".join((key, *path))


def findings(known: frozenset[str]) -> list[str]:
    return [
        f"{path.relative_to(ROLES)}: {task['name']}: {found}"
        for path in files()
        for task in tasks_of(path)
        for found in in_sight(task, known)
    ]


def test_no_task_shows_a_secret() -> None:
    assert findings(tainted()) == []


def test_a_secret_is_followed_through_variables() -> None:
    assert {"vllm_api_key", "ray_token", "vllm_environment", "gateway_keys", "bundle_huggingface_token"} <= sources()
    assert {"_vllm_api_key", "_ray_token", "_web_ui_password", "_images_logins"} <= tainted()
    # These only say where one lies.
    assert not {"_vllm_api_key_file", "_gateway_own_key_file", "llm_secrets_dir", "_gateway_dir", "_llm"} & tainted()


def test_each_way_in_sight_is_found() -> None:
    """Of tasks as they stood once: a container's environment, standard input, a file's content, a variable of the task."""
    found = [
        {"community.docker.docker_container": {"env": "{{ vllm_environment }}"}},
        {"baremetal.llm.wait": {"args": {"stdin": "{{ lookup('ansible.builtin.file', _gateway_own_key_file) }}"}}},
        {"ansible.builtin.copy": {"content": "{{ _ray_token }}"}},
        {"ansible.builtin.command": {"argv": ["x"]}, "environment": {"TOKEN": "{{ bundle_huggingface_token }}"}},
        {"ansible.builtin.set_fact": {"x": "{{ ray_token }}"}},
        {"ansible.builtin.debug": {"msg": "{{ item }}"}, "loop": "{{ gateway_keys }}"},
    ]
    assert [bool(list(in_sight(task, tainted()))) for task in found] == [True] * len(found)
    assert not list(in_sight({**found[0], "no_log": True}, tainted()))
    assert not list(in_sight({"baremetal.llm.fanout": {"secret": "{{ ray_token }}"}}, tainted()))
