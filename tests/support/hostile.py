"""Hostile names and values for every variable of every role, what becomes of each, and the programs that judge what is made of those that are taken."""

from __future__ import annotations

import copy
import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import yaml
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.launch import host_sections
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names, part_of_names
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.decide import Gateways, Secrets, decide_gateways
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.check import check_inventory
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.forms import FORMS, bounds_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import render
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.files import files
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.targets import targets
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.firewall import Surroundings, firewall_rules

from tests.support.deployments import host, plan
from tests.support.roles import ROLES, defaults

# By kind. Each is put in the place of every value of every variable.
VALUES: dict[str, Any] = {
    "nothing": None,
    "empty": "",
    "blank": " ",
    "line break": "a\nflush ruleset",
    "carriage return": "a\r\n[Service]",
    "section of a unit": "x\n[Service]\nExecStartPre=/bin/sh -c id",
    "NUL": "a\x00b",
    "escape sequence": "\x1b[31mred",
    "line end of Unicode": "a\u2028b",
    "next line": "a\x85b",
    "from right to left": "a\u202eb",
    "quote": 'a"b',
    "apostrophe": "a'b",
    "backslash": "a\\b",
    "dollar": "$HOME",
    "command": "$(id)",
    "backticks": "`id`",
    "percent": "%n %h",
    "HAProxy's expression": "%[src]",
    "semicolon": "a;b",
    "comment": "a#b",
    "brace": "{a",
    "comma": "a,b",
    "colon": "a:b",
    "pipe": "a|id",
    "option": "-oProxyCommand=id",
    "long option": "--config=/etc/shadow",
    "path out": "../../../etc/passwd",
    "path through": "/a/../../etc",
    "root": "/",
    "pattern": "*",
    "Chinese": "模型",
    "blanks within": "qwen 14",
    "long": "a" * 5000,
    "tab": "a\tb",
    "true": True,
    "zero": 0,
    "negative": -1,
    "huge": 10**30,
    "fraction": 0.5,
    "not a number": float("nan"),
    "endless": float("inf"),
    "number in words": "１２",  # full-width digits
    "square": "²",  # a digit to Python, and no number
    "number that Python does not read": "9" * 5000,
    "hexadecimal": "0x10",
    "list": ["a"],
    "list of nothing": [None],
    "nested list": [[["a"]]],
    "mapping": {"a": "b"},
    "mapping of nothing": {"a": None},
    "name that ends": {"a\nb": "c", "": "d", "A=B": "e"},
}
NAMES = {kind: value for kind, value in VALUES.items() if isinstance(value, str)} | {
    "path": "x/../../../evil",
    "IPv6": "fd00::1",
    "authority": "ca",
    "group": "llm_gateway",
    "every host": "all",
    "other case": "GPU02",
    "name with a port": "gpu01:22",
    "regular expression": "~gpu.*",
    "excluded": "!gpu01",
    "Cyrillic": "gpu\u0430",
    "dots": "..",
    "hidden": ".x",
    "trailing dot": "gpu01.",
    "long label": "a" * 64,
    "address": "10.0.0.9",
    "plain": "gpu-09.example.org",
}
KNOWN = known_variables()
KEY = {"name": "alice"}


def parts(name: str, spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A variable, and each value that can stand in it, by its path."""
    yield name, spec
    below = f"{name}[]" if spec.get("type") == "list" else name
    if spec.get("type") == "list":
        yield below, {"type": spec.get("elements", "str"), "choices": spec.get("choices")}
    for key, inner in (spec.get("options") or {}).items():
        yield from parts(f"{below}.{key}", inner)


PLACES = {path: spec for name, option in KNOWN.items() for path, spec in parts(name, option)}


def _sample(path: str, spec: Mapping[str, Any]) -> Any:
    """A value that may stand there."""
    if path in FORMS:
        return FORMS[path][1]
    if spec.get("choices"):
        return spec["choices"][0]
    kind, bounds = spec.get("type", "str"), bounds_of(path)
    if bounds:
        return max(int(bounds.low), 1)
    return {"bool": True, "list": [], "dict": {}, "path": "/srv/x", "float": 1.0}.get(kind, "x")


def placed(path: str, value: Any) -> tuple[str, Any]:
    """The variable that has a value at this path, and the whole of it."""
    name, *steps = re.findall(r"[^.\[\]]+|\[\]", path)
    spec, below = KNOWN[name], name

    def within(spec: Mapping[str, Any], below: str, steps: list[str]) -> Any:
        if not steps:
            return value
        if steps[0] == "[]":
            return [within({**spec, "type": spec.get("elements", "str")}, f"{below}[]", steps[1:])]
        options = spec.get("options") or {}
        beside = {
            key: _sample(f"{below}.{key}", inner)
            for key, inner in options.items()
            if inner.get("required") and key != steps[0]
        }
        return {**beside, steps[0]: within(options[steps[0]], f"{below}.{steps[0]}", steps[1:])}

    return name, within(spec, below, steps)


@dataclass
class World:
    """An inventory with everything in it, and what is wrong with it."""

    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        said = {
            "vllm_model": "lab/tiny",
            "vllm_version": "0.8.5",
            "gateway_keys": [KEY],
            "llm_bundle_dir": "/srv/bundle",
        }
        self.hosts = {name: copy.deepcopy(said) for name in ("gpu01", "gpu02", "gpu03")}
        self.groups = {
            "all": {"hosts": list(self.hosts), "children": ["llm_deployments"]},
            "llm_deployments": {"hosts": list(self.hosts), "children": ["qwen", "tiny"]},
            "qwen": {"hosts": ["gpu01", "gpu02"], "children": []},
            "tiny": {"hosts": ["gpu03"], "children": []},
            **{name: {"hosts": ["gpu01"], "children": []} for name in ("llm_gateway", "llm_monitoring", "llm_web_ui")},
        }

    def set(self, name: str, value: Any) -> None:
        for variables in self.hosts.values():
            variables[name] = copy.deepcopy(value)

    def rename_host(self, name: str) -> None:
        self.hosts = {name if each == "gpu01" else each: said for each, said in self.hosts.items()}
        for group in self.groups.values():
            group["hosts"] = [name if each == "gpu01" else each for each in group["hosts"]]

    def rename_deployment(self, name: str) -> None:
        children = [name if each == "tiny" else each for each in self.groups["llm_deployments"]["children"]]
        self.groups = {name if each == "tiny" else each: said for each, said in self.groups.items()}
        self.groups["llm_deployments"]["children"] = children

    def problems(self, lang: str = "en") -> list[dict[str, str]]:
        found: list[dict[str, str]] = check_inventory(self.hosts, self.groups, KNOWN, lang=lang)["problems"]
        return found


def refused(world: World) -> bool:
    """Whether an inventory is refused, in both languages and in words without a raw error of Python."""
    texts = [render(world.problems(lang), lang) for lang in ("en", "zh")] if world.problems() else []
    for text in texts:
        if re.search(r"Traceback|invalid literal|object has no attribute|<class '|argument must be", text):
            raise AssertionError(f"a raw error in a refusal: {text}")
    return bool(texts)


# -- what is made of an inventory that is taken -----------------------------------------------------------------------
Made = dict[str, dict[str, str]]  # by judge, texts by what they are


@functools.cache
def _template(path: str) -> jinja2.Template:
    around = jinja2.Environment(trim_blocks=True, undefined=jinja2.StrictUndefined)
    around.filters["combine"] = lambda one, other: {**one, **other}
    around.filters["regex_replace"] = lambda text, pattern, by: re.sub(pattern, by, str(text))
    return around.from_string((ROLES / path).read_text(encoding="utf-8"))


@functools.cache
def _defaults() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for role in ("docker", "gateway", "monitoring", "web_ui"):
        found |= defaults(role)
    return found


def _said(world: World, name: str) -> dict[str, Any]:
    return {key: value for key, value in world.hosts[name].items() if value is not None}


def engine_units(world: World) -> dict[str, str]:
    """The units of a deployment without containers; what Docker gets is made as well, and is no text."""
    first = next(iter(world.hosts))
    found = {}
    for runtime, executor in (("venv", "uni"), ("container", "ray")):
        mine = {**host(1), **_said(world, first), "vllm_runtime": runtime}
        mine |= {"vllm_python": "/opt/env/bin/python3"} if runtime == "venv" else {}
        made = {**plan(executor, 1), "nodes": [{"host": first, "ranks": [0]}]}
        deployment = list(world.groups["llm_deployments"]["children"])[-1]
        member = Deployment(deployment, first, [first], made, "image:1", {first: mine}).of(first)
        sections = host_sections(member)
        json.dumps(sections)
        if runtime == "venv":
            found["llm-vllm"] = sections["vllm"]["unit"]["text"]
            _template("common/templates/unit.env.j2").render(
                ansible_managed="",
                common_unit={"environment": sections["vllm"]["unit"]["environment"]},
                _common_unit_closed=mine["vllm_environment"],
            )
    return found


def drop_ins(world: World) -> dict[str, str]:
    mine = {**_defaults(), **_said(world, next(iter(world.hosts)))}
    asked = {name: mine[name] for name in ("docker_unit_limits", "docker_unit_environment")}
    _template("docker/templates/engine.env.j2").render(ansible_managed="", **asked)
    asked["_docker_environment_file"] = "/etc/docker/llm-engine.env"
    text = _template("docker/templates/drop_in.conf.j2").render(ansible_managed="", **asked)
    return {"drop-in": text.replace("[Service]", "[Service]\nExecStart=/bin/true", 1)}


def gateway_configuration(world: World) -> tuple[dict[str, str], bool]:
    """HAProxy's configuration, and whether the decision refuses it."""
    first = next(iter(world.hosts))
    mine = {**_defaults(), **_said(world, first)}
    deployments = {name: world.groups[name]["hosts"][0] for name in world.groups["llm_deployments"]["children"]}
    heads = {
        head: {"vllm_port": 8000, "vllm_probe_enabled": True, **_said(world, head)} for head in deployments.values()
    }
    sections, problems = decide_gateways(
        Gateways(
            [first],
            {name: {"head": head, "hosts": [head]} for name, head in deployments.items()},
            {**heads, first: {**heads.get(first, {}), **mine}},
            addresses=dict.fromkeys(heads, "10.0.0.1"),
            web_ui=[first],
        ),
        Secrets(
            lambda _host, name: name + "k" * 40,
            lambda: "R" * 40,
            lambda: "O" * 40,
            lambda _host: (),
            lambda *_names: {"certificate": "a", "root": "b"},
        ),
    )
    if problems:
        return {}, True
    places = {"dir": "@DIR@", "run_dir": "@DIR@", "user": "", "chroot": ""}
    text = _template("gateway/templates/haproxy.cfg.j2").render(
        ansible_managed="", _gateway={**sections[first], **places}
    )
    # In the test the certificate is left out, which is no text of anybody.
    return {"haproxy.cfg": text.replace(" ssl crt @DIR@/tls/gateway.pem alpn h2,http/1.1", "") + "\n"}, False


def firewall_table(world: World) -> dict[str, str]:
    first, *others = world.groups["qwen"]["hosts"] if "qwen" in world.groups else list(world.hosts)
    nic = {
        "llm_nics_found": [{"name": "eth0", "addresses": ["10.0.0.1/24"]}],
        "llm_dynamic_ports": {"first": 32768, "last": 60999},
    }
    known = {name: {"ansible_facts": nic, **_said(world, name)} for name in world.hosts}
    found = firewall_rules(first, [first, *others], {}, known, Surroundings("ray"))
    if found.get("clashes"):
        return {}  # which the decision refuses
    name = list(world.groups["llm_deployments"]["children"])[-1]
    text = _template("network/templates/llm.nft.j2").render(
        _llm={"network": {"rules": found}, "deployment": name, "names": names(part_of_names(name))}
    )
    return {"llm.nft": text}


def monitoring_files(world: World) -> dict[str, str]:
    first = next(iter(world.hosts))
    mine = {**_defaults(), **_said(world, first)}
    deployments = {
        name: {"hosts": world.groups[name]["hosts"], "head": world.groups[name]["hosts"][0]}
        for name in world.groups["llm_deployments"]["children"]
    }
    known = {name: {"gateway_https_port": 443, **_said(world, name)} for name in world.hosts}
    found = files(targets(deployments, known, [first], {}, [first]), mine)
    for entry in found:
        if entry["path"].endswith((".yml", ".json")):
            yaml.safe_load(entry["content"])
    return {
        entry["path"]: entry["content"] for entry in found if entry["path"] in ("prometheus.yml", "alertmanager.yml")
    }


def made(world: World, variable: str = "") -> tuple[Made, bool]:
    """The texts that programs read, of those that a variable gets into (empty: all), and whether a decision refuses the inventory before a host is
    touched."""

    def concerns(*beginnings: str) -> bool:
        return not variable or variable.startswith(beginnings)

    try:
        found: Made = {"haproxy": {}, "systemd": {}, "nft": {}, "promtool": {}, "amtool": {}}
        if concerns("gateway_", "web_ui_", "vllm_"):
            found["haproxy"], is_refused = gateway_configuration(world)
            if is_refused:
                return {}, True
        if concerns("vllm_", "ray_", "llm_", "models_"):
            found["systemd"] |= engine_units(world)
        if concerns("docker_"):
            found["systemd"] |= drop_ins(world)
        if concerns("llm_", "ray_", "vllm_"):
            found["nft"] = firewall_table(world)
        if concerns("monitoring_", "gateway_"):
            texts = monitoring_files(world)
            found["promtool"] = {name: text for name, text in texts.items() if name == "prometheus.yml"}
            found["amtool"] = {name: text for name, text in texts.items() if name == "alertmanager.yml"}
        return found, False
    except CodedError:
        return {}, True


# -- judges -----------------------------------------------------------------------------------------------------------
def judge_nft(text: str, folder: Path) -> str:
    path = folder / "table.nft"
    path.write_text(text, encoding="utf-8")
    done = subprocess.run(["nft", "-c", "-f", str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr
    # A table of ours and no other.
    return "" if "flush" not in re.sub(r"#.*", "", text) else "it holds a command of its own"


def judge_systemd(texts: Mapping[str, str], folder: Path) -> dict[str, str]:
    """What systemd says of each unit, all of them in one call; empty where it takes the unit."""
    for name, text in texts.items():
        (folder / f"{name}.service").write_text(re.sub("^ExecStart=.*", "ExecStart=/bin/true", text, flags=re.M))
    command = [
        "systemd-analyze",
        "verify",
        "--man=no",
        "--recursive-errors=no",
        *(f"{folder / name}.service" for name in texts),
    ]
    environment = {**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:"}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stderr
    return {
        name: "\n".join(line for line in said.splitlines() if f"{name}.service:" in line and "nvidia" not in line)
        for name in texts
    }


def judge_haproxy(text: str, folder: Path, program: tuple[str, dict[str, str]]) -> str:
    text = text.replace("@DIR@", str(folder))
    for name in re.findall(r"[a-z_]+\.map", text):
        (folder / name).touch()
    (folder / "haproxy.cfg").write_text(text, encoding="utf-8")
    (folder / "servers.state").write_text("1\n")
    command = [program[0], "-c", "-f", str(folder / "haproxy.cfg")]
    done = subprocess.run(command, env={**os.environ, **program[1]}, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode or "WARNING" in done.stderr else ""


def judge_promtool(text: str, folder: Path, program: str) -> str:
    return _judge_file(text, folder / "prometheus.yml", [program, "check", "config", "--syntax-only"])


def judge_amtool(text: str, folder: Path, program: str) -> str:
    return _judge_file(text, folder / "alertmanager.yml", [program, "check-config"])


def _judge_file(text: str, path: Path, command: list[str]) -> str:
    path.write_text(text, encoding="utf-8")
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def lacking(program: str) -> str:
    """Why a judge does not judge here; empty where it does."""
    return "" if shutil.which(program) or shutil.which(f"/usr/sbin/{program}") else f"no {program} on this machine"
