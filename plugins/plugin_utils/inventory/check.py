# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with an inventory, found without touching a host.

Ansible accepts a misspelled variable in silence, and a bad value shows up ten minutes into loading a model. Everything
that the inventory alone can tell is told here, all of it at once. Nothing here knows Ansible: the caller hands over plain
dicts. A value that could not be evaluated before the hosts are known (``UNRESOLVED``, or text that still holds a template)
is never judged.
"""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import ipaddress
import math
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.compatibility import image_problems, planned_driver
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import stands_for
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names, problem, shown

ROOT_GROUP = "llm_deployments"
SERVICE_GROUPS = ("llm_gateway", "llm_monitoring")
MANIFEST_NAME = "manifest.yml"
MANIFEST_SCHEMA = 1
# As an origin: set on the command line.
COMMAND_LINE = "-e"

# The longest first: a name belongs to the longest prefix that it has.
PREFIXES = (
    "nvidia_container_toolkit_",
    "nvidia_driver_",
    "monitoring_",
    "preflight_",
    "gateway_",
    "bundle_",
    "docker_",
    "images_",
    "models_",
    "vllm_",
    "ray_",
    "llm_",
)
# Prefixes that nobody else uses. Words such as docker_ are in other people's names too, so that a name which only looks
# like one of those is left alone.
_DISTINCT_PREFIXES = ("nvidia_container_toolkit_", "nvidia_driver_", "vllm_", "ray_", "llm_")
_LOOKS_LIKE = 0.9

# What people call our variables, and no similarity finds.
_OTHER_NAMES = {
    "vllm_tp": "vllm_tensor_parallel_size",
    "vllm_tp_size": "vllm_tensor_parallel_size",
    "vllm_pp": "vllm_pipeline_parallel_size",
    "vllm_pp_size": "vllm_pipeline_parallel_size",
    "vllm_args": "vllm_options",
    "vllm_extra_args": "vllm_options",
    "vllm_engine_args": "vllm_options",
    "vllm_env": "vllm_environment",
    "vllm_model_name": "vllm_model",
    "vllm_context_length": "vllm_max_model_len",
    "ray_env": "ray_environment",
    "ray_head": "ray_head_host",
}

REQUIRED = ("vllm_model", "vllm_version")
# What the hosts of a deployment must agree on.
SHARED = (
    "vllm_model",
    "vllm_version",
    "vllm_image",
    "vllm_served_model_name",
    "vllm_port",
    "vllm_max_model_len",
    "vllm_tensor_parallel_size",
    "vllm_pipeline_parallel_size",
    "vllm_executor",
    "ray_head_host",
    "llm_cluster_network",
)

# (ending of the name, lowest, highest, whether the lowest itself is left out)
_RANGES: tuple[tuple[str, float, float | None, bool], ...] = (
    ("vllm_gpu_memory_utilization", 0, 1, True),
    ("vllm_max_model_len", 1, None, False),
    ("vllm_max_num_seqs", 1, None, False),
    ("vllm_max_num_batched_tokens", 1, None, False),
    ("_parallel_size", 1, None, False),
    ("_port", 1, 65535, False),
    ("_percent", 0, 100, False),
    ("_seconds", 0, None, False),
    ("_bytes", 0, None, False),
    ("_gib", 0, None, False),
    ("_mib", 0, None, False),
    ("_retries", 0, None, False),
)

_TRUE = frozenset(("y", "yes", "on", "1", "true", "t"))
_FALSE = frozenset(("n", "no", "off", "0", "false", "f"))
_VERSION = re.compile(r"\d+(\.\d+)+([-.]?(a|b|rc|post|dev)\d+)*(\+[A-Za-z0-9.]+)?")
_CAPABILITY = re.compile(r"\d{1,2}\.\d")
_GPU_KEYS = ("name", "memory_mib", "compute_capability")
_LEAST_GPU_MEMORY_MIB = 1024


@dataclasses.dataclass(frozen=True)
class Unresolved:
    """Stands for a value that cannot be known yet: why, and what to print in its place (never a secret)."""

    reason: str = ""
    text: str = "***"


UNRESOLVED = Unresolved()


def is_unresolved(value: Any) -> bool:
    """Whether a value, or anything in it, is not known yet."""
    if isinstance(value, Unresolved):
        return True
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, Mapping):
        return any(is_unresolved(item) for pair in value.items() for item in pair)
    if isinstance(value, (list, tuple)):
        return any(is_unresolved(item) for item in value)
    return False


def is_true(value: Any) -> bool:
    """What Ansible's ``bool`` filter makes of a value."""
    if isinstance(value, str):
        return value.strip().lower() in _TRUE
    return value is True or (not isinstance(value, bool) and value == 1)


def prefix_of(name: str) -> str:
    """The prefix of ours that a name has, or nothing."""
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return prefix
    return ""


def public_names(known: Iterable[str]) -> list[str]:
    return sorted(name for name in known if not name.startswith("_"))


def _similarity(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


def nearest_variable(name: str, known: Iterable[str]) -> str:
    """The known variable that somebody most likely meant, or nothing."""
    candidates = public_names(known)
    other = _OTHER_NAMES.get(name)
    if other in candidates:
        return str(other)
    prefix = prefix_of(name)
    best, best_score = "", 0.0
    for candidate in candidates:
        score = _similarity(name, candidate)
        enough = 0.8
        if prefix and candidate.startswith(prefix):
            # The common prefix says nothing; only what follows can be near or far.
            enough = 0.6
            score = _similarity(name[len(prefix) :], candidate[len(prefix) :])
        if score >= enough and score > best_score:
            best, best_score = candidate, score
    return best


def looks_like(name: str, known: Iterable[str]) -> str:
    """The variable of ours that a name without our prefix was most likely meant to be, or nothing."""
    if name.startswith("_"):
        return ""
    plain = name.lower().replace("-", "_").replace(".", "_")
    candidates = public_names(known)
    if plain in candidates:
        return plain
    best, best_score = "", 0.0
    for candidate in candidates:
        if not candidate.startswith(_DISTINCT_PREFIXES) or plain.endswith("_" + candidate):
            continue
        if abs(len(plain) - len(candidate)) > 3:
            continue
        score = _similarity(plain, candidate)
        if score >= _LOOKS_LIKE and score > best_score:
            best, best_score = candidate, score
    return best


def same_release(wanted: Any, found: Any) -> bool:
    """Whether an image's release is the wanted one. A build's local part (+cpu, +cu128) matters only if it is asked for."""
    one, other = str(wanted), str(found)
    return one == other or ("+" not in one and one == other.split("+", 1)[0])


def _kind_problem(kind: str, value: Any) -> bool:
    """Whether a value cannot be read as a type of the argument specs. What Ansible converts anyway is fine."""
    if kind in ("str", "path"):
        return isinstance(value, (bool, Mapping, list, tuple))
    if kind == "int":
        if isinstance(value, bool):
            return True
        if isinstance(value, float):
            return not value.is_integer()
        if isinstance(value, str):
            return not re.fullmatch(r"\s*[-+]?\d+\s*", value)
        return not isinstance(value, int)
    if kind == "float":
        if isinstance(value, str):
            try:
                float(value)
            except ValueError:
                return True
            return False
        return isinstance(value, bool) or not isinstance(value, (int, float))
    if kind == "bool":
        if isinstance(value, str):
            return value.strip().lower() not in _TRUE | _FALSE
        return not isinstance(value, bool) and value not in (0, 1)
    if kind == "list":
        return not isinstance(value, (list, tuple))
    if kind == "dict":
        return not isinstance(value, Mapping)
    return False


def _range_of(name: str) -> tuple[float, float | None, bool] | None:
    for ending, low, high, open_low in _RANGES:
        if name.endswith(ending):
            return low, high, open_low
    return None


class _Finding:
    """A refusal of one value, with all the hosts that have it."""

    def __init__(self, code: str, value: str, where: str, values: dict[str, Any]) -> None:
        self.code = code
        self.value = value
        self.where = where
        self.values = values
        self.hosts: list[str] = []


class _Check:
    """One run over one inventory."""

    def __init__(
        self,
        hosts: Mapping[str, Mapping[str, Any]],
        groups: Mapping[str, Mapping[str, Sequence[str]]],
        known: Mapping[str, Mapping[str, Any]],
        foreign: Sequence[str],
        bundles: Mapping[str, Mapping[str, Any]],
        origins: Mapping[str, Mapping[str, str]],
        lang: str,
    ) -> None:
        self.hosts = hosts
        self.groups = groups
        self.known = known
        self.bundles = bundles
        self.origins = origins
        self.lang = lang
        self.problems: list[dict[str, str]] = []
        self.deployments: dict[str, list[str]] = {}
        self.foreign = [str(item) for item in foreign]
        for variables in hosts.values():
            listed = variables.get("llm_foreign_variables")
            if isinstance(listed, (list, tuple)) and not is_unresolved(listed):
                self.foreign += [str(item) for item in listed if str(item) not in self.foreign]

    # What the inventory says

    def get(self, host: str, name: str) -> Any:
        """A variable's value, or the default of the argument specs; None where there is none or it is not known yet."""
        value = self.hosts.get(host, {}).get(name)
        if value is None:
            value = self.known.get(name, {}).get("default")
        return None if is_unresolved(value) else value

    def is_open(self, host: str, name: str) -> bool:
        return is_unresolved(self.hosts.get(host, {}).get(name))

    def where(self, name: str, host: str, deployment: str = "") -> str:
        """Where a variable is set, or where it should be."""
        origin = self.origins.get(host, {}).get(name)
        if origin:
            return message("where_command_line", self.lang) if origin == COMMAND_LINE else origin
        if not deployment:
            deployment = next((group for group, members in self.deployments.items() if host in members), "")
        if name in ("llm_gpus", "ansible_host"):
            return message("where_host", self.lang, host=host)
        if name.startswith(("vllm_", "ray_")) and deployment:
            return message("where_group", self.lang, group=deployment)
        if name.startswith("llm_"):
            return message("where_group", self.lang, group="all")
        return message("where_inventory", self.lang)

    def add(self, code: str, value: str = "", where: str = "", **values: Any) -> None:
        self.problems.append(problem(code, self.lang, value=value, where=where, **values))

    # Deployments

    def check_deployments(self) -> None:
        if ROOT_GROUP not in self.groups:
            mine = [group for group in self.groups if group not in ("all", "ungrouped")]
            near = difflib.get_close_matches(ROOT_GROUP, mine, n=1, cutoff=0.75)
            value = names(mine, self.lang)
            if near:
                self.add("no_deployments_group_near", value=value, nearest=near[0])
            else:
                self.add("no_deployments_group", value=value)
            return
        root = self.groups[ROOT_GROUP]
        children = list(dict.fromkeys(root.get("children") or ()))
        of_root = message("where_group_of_inventory", self.lang, group=ROOT_GROUP)
        for group in children:
            self.deployments[group] = list(dict.fromkeys(self.groups.get(group, {}).get("hosts") or ()))
        outside = [
            host
            for host in root.get("hosts") or ()
            if not any(host in members for members in self.deployments.values())
        ]
        if not children:
            self.add("no_deployment", value=names(root.get("hosts") or (), self.lang), where=of_root)
            return
        if outside:
            self.add(
                "hosts_outside_deployments",
                value=names(outside, self.lang),
                where=of_root,
                deployments=names(children, self.lang),
            )
        for group in children:
            if not self.deployments[group]:
                self.add(
                    "deployment_without_host",
                    where=message("where_group_of_inventory", self.lang, group=group),
                    deployment=group,
                )
        membership: dict[str, list[str]] = {}
        for group, members in self.deployments.items():
            for host in members:
                membership.setdefault(host, []).append(group)
        for host, mine in membership.items():
            if len(mine) > 1:
                self.add("host_in_two_deployments", value=names(mine, self.lang), where=of_root, host=host)

    def checked_hosts(self) -> list[str]:
        """The hosts that are ours: another machine of the same inventory may call its variables what it likes."""
        ours: dict[str, None] = {}
        for members in self.deployments.values():
            ours.update(dict.fromkeys(members))
        if not ours:
            ours.update(dict.fromkeys(self.hosts))
        for group in SERVICE_GROUPS:
            ours.update(dict.fromkeys(self.groups.get(group, {}).get("hosts") or ()))
        return [host for host in ours if host in self.hosts]

    # Variables

    def is_foreign(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.foreign)

    def check_variables(self) -> None:
        findings: dict[tuple[str, ...], _Finding] = {}
        judged: dict[str, str] = {}
        for host in self.checked_hosts():
            for name in sorted(self.hosts[host]):
                value = self.hosts[host][name]
                if name in self.known:
                    # The GPUs and the network are judged on their own, more closely than a type can be.
                    if name in ("llm_gpus", "llm_cluster_network") or self.known[name].get("no_log"):
                        continue
                    if value is None or is_unresolved(value):
                        continue
                    found = list(self.judge_value(name, value, self.known[name], host))
                elif self.known:
                    if name not in judged:
                        judged[name] = self.judge_name(name)
                    found = [self.name_finding(judged[name], name, value)] if judged[name] else []
                else:
                    found = []
                for code, text, values in found:
                    where = self.where(name, host)
                    key = (name, code, text, where, *(str(item) for item in values.values()))
                    findings.setdefault(key, _Finding(code, text, where, values)).hosts.append(host)
        for key in sorted(findings, key=lambda item: item[:4]):
            finding = findings[key]
            self.add(
                finding.code,
                value=finding.value,
                where=finding.where,
                hosts=names(finding.hosts, self.lang),
                **finding.values,
            )

    def judge_name(self, name: str) -> str:
        """The code of what is wrong with an unknown name, or nothing."""
        if name.startswith("ansible_") or self.is_foreign(name):
            return ""
        prefix = prefix_of(name)
        if not prefix:
            return "suspicious_variable" if looks_like(name, self.known) else ""
        if nearest_variable(name, self.known):
            return "unknown_variable"
        return "unknown_vllm_variable" if prefix == "vllm_" else "unknown_variable_no_hint"

    def name_finding(self, code: str, name: str, value: Any) -> tuple[str, str, dict[str, Any]]:
        secret = bool(re.search(r"(password|passwd|secret|token|api_?key)$", name.lower()))
        values: dict[str, Any] = {"name": name}
        if code == "suspicious_variable":
            values["nearest"] = looks_like(name, self.known)
        elif code == "unknown_variable":
            values["nearest"] = nearest_variable(name, self.known)
        elif code == "unknown_vllm_variable":
            values["option"] = "{}: {}".format(name[len("vllm_") :], "***" if secret else self.text(value))
        else:
            values["prefix"] = prefix_of(name)
        secret = secret or bool(self.known.get(values.get("nearest", ""), {}).get("no_log"))
        return code, "***" if secret else self.text(value), values

    def text(self, value: Any) -> str:
        if isinstance(value, Unresolved):
            return value.text
        return shown(value, self.lang)

    def judge_value(
        self, name: str, value: Any, spec: Mapping[str, Any], host: str
    ) -> Iterable[tuple[str, str, dict[str, Any]]]:
        """What is wrong with the value of a known variable, or of a part of it (``name`` is then its path)."""
        kind = str(spec.get("type") or "str")
        if name.endswith("_version") and kind == "str" and isinstance(value, (int, float)):
            yield "version_not_quoted", self.text(value), {"name": name}
            return
        if _kind_problem(kind, value):
            expected = message("type_" + kind, self.lang)
            if spec.get("choices"):
                expected += ": " + ", ".join(str(item) for item in spec["choices"])
            yield "wrong_type", self.text(value), {"name": name, "expected": expected}
            return
        if name == "vllm_version" and value != "" and not _VERSION.fullmatch(str(value)):
            yield "version_malformed", self.text(value), {"name": name}
        choices = spec.get("choices")
        if choices:
            texts = [str(item) for item in choices]
            for item in value if kind == "list" else [value]:
                if item in choices or str(item) in texts or (kind == "bool" and not _kind_problem("bool", item)):
                    continue
                near = difflib.get_close_matches(str(item).lower(), texts, n=1, cutoff=0.6)
                values = {"name": name, "choices": ", ".join(texts)}
                if near:
                    values["nearest"] = near[0]
                yield "not_a_choice_near" if near else "not_a_choice", self.text(item), values
        limits = _range_of(name)
        if limits and kind in ("int", "float"):
            yield from self.judge_range(name, value, limits)
        if kind == "list":
            yield from self.judge_items(name, value, spec, host)
        if kind == "dict" and isinstance(spec.get("options"), Mapping):
            yield from self.judge_keys(name, value, spec["options"], host)
        if name == "vllm_options":
            yield from self.judge_engine_options(value)

    def judge_range(
        self, name: str, value: Any, limits: tuple[float, float | None, bool]
    ) -> Iterable[tuple[str, str, dict[str, Any]]]:
        low, high, open_low = limits
        number = float(value)
        if number < low or (open_low and number == low) or (high is not None and number > high) or math.isnan(number):
            code = "range_from" if high is None else "range_above" if open_low else "range_between"
            text = message(code, self.lang, low=low, high=high)
            yield "out_of_range", self.text(value), {"name": name, "range": text}

    def judge_items(
        self, name: str, value: Sequence[Any], spec: Mapping[str, Any], host: str
    ) -> Iterable[tuple[str, str, dict[str, Any]]]:
        elements = spec.get("elements")
        if not elements:
            return
        inner = {"type": elements, "options": spec.get("options")}
        for index, item in enumerate(value):
            yield from self.judge_value("{0}[{1}]".format(name, index), item, inner, host)

    def judge_keys(
        self, name: str, value: Mapping[Any, Any], options: Mapping[str, Any], host: str
    ) -> Iterable[tuple[str, str, dict[str, Any]]]:
        keys = ", ".join(options)
        for key, item in value.items():
            if key not in options:
                yield "unknown_key", self.text(item), {"name": name, "key": key, "keys": keys}
            elif item is not None and not options[key].get("no_log"):
                yield from self.judge_value("{0}.{1}".format(name, key), item, options[key], host)
        for key, inner in options.items():
            if inner.get("required") and value.get(key) is None:
                yield "missing_key", self.text(value), {"name": name, "key": key, "keys": keys}

    def judge_engine_options(self, value: Mapping[Any, Any]) -> Iterable[tuple[str, str, dict[str, Any]]]:
        for key in sorted(str(item) for item in value):
            plain = key.lstrip("-").replace("-", "_")
            if "vllm_" + plain in self.known:
                yield (
                    "option_has_variable",
                    "{0}: {1}".format(key, self.text(value.get(key))),
                    {"key": key, "variable": "vllm_" + plain},
                )
            elif plain != key:
                yield (
                    "option_spelling",
                    "{0}: {1}".format(key, self.text(value.get(key))),
                    {"key": key, "suggestion": plain},
                )

    # One deployment

    def check_settings(self) -> None:
        for deployment, members in self.deployments.items():
            if not members:
                continue
            for name in REQUIRED:
                lacking = [
                    host for host in members if self.get(host, name) in (None, "") and not self.is_open(host, name)
                ]
                if lacking:
                    self.add(
                        "missing_variable",
                        where=self.where(name, lacking[0], deployment),
                        name=name,
                        deployment=deployment,
                        example=message("example_" + name, self.lang),
                    )
            # A host in two deployments has the settings of one of them, which says nothing about the other.
            own = [host for host in members if sum(host in others for others in self.deployments.values()) == 1]
            self.check_agreement(deployment, own)
            self.check_head(deployment, own)
            model = self.get(members[0], "vllm_model")
            if isinstance(model, str) and "://" in model:
                path = [part for part in model.split("://", 1)[1].split("/")[1:] if part]
                self.add(
                    "model_is_url",
                    value=self.text(model),
                    where=self.where("vllm_model", members[0], deployment),
                    deployment=deployment,
                    suggestion="/".join(path[:2]) or "Qwen/Qwen2.5-14B-Instruct",
                )

    def check_agreement(self, deployment: str, members: Sequence[str]) -> None:
        for name in SHARED:
            if any(self.is_open(host, name) for host in members):
                continue
            values: dict[str, list[str]] = {}
            for host in members:
                values.setdefault(self.text(self.get(host, name)), []).append(host)
            nothing = shown(None, self.lang)
            if len(values) < 2 or (name in REQUIRED and nothing in values):
                continue
            self.add(
                "settings_differ",
                value="; ".join("{0}: {1}".format(names(hosts, self.lang, 3), text) for text, hosts in values.items()),
                where=self.where(name, members[0], deployment),
                name=name,
                deployment=deployment,
            )

    def check_head(self, deployment: str, members: Sequence[str]) -> None:
        wanted = next((self.get(host, "ray_head_host") for host in members if self.get(host, "ray_head_host")), None)
        everybody = self.deployments[deployment]
        if wanted is not None and not isinstance(wanted, (Mapping, list)) and str(wanted) not in everybody:
            self.add(
                "head_not_in_deployment",
                value=self.text(wanted),
                where=self.where("ray_head_host", members[0], deployment),
                deployment=deployment,
                hosts=names(everybody, self.lang),
            )

    def head(self, members: Sequence[str]) -> str:
        for host in members:
            wanted = self.get(host, "ray_head_host")
            if isinstance(wanted, str) and wanted in members:
                return wanted
        return members[0]

    def check_addresses(self) -> None:
        machines: dict[tuple[str, str], list[str]] = {}
        for members in self.deployments.values():
            for host in members:
                if self.is_open(host, "ansible_host") or self.is_open(host, "ansible_port"):
                    continue
                if self.get(host, "ansible_connection") == "local":
                    continue
                address = str(self.get(host, "ansible_host") or host)
                port = str(self.get(host, "ansible_port") or 22)
                same = machines.setdefault((address, port), [])
                if host not in same:
                    same.append(host)
        for (address, _port), same in machines.items():
            if len(same) > 1:
                where = list(dict.fromkeys(self.where("ansible_host", host) for host in same))
                self.add(
                    "duplicate_address", value=address, where=names(where, self.lang), hosts=names(same, self.lang)
                )

    # Models served by several deployments

    def check_replicas(self) -> None:
        served: dict[str, dict[str, list[str]]] = {}
        for deployment, members in self.deployments.items():
            if not members:
                continue
            model = self.get(members[0], "vllm_model")
            name = self.get(members[0], "vllm_served_model_name") or model
            if not isinstance(model, str) or self.is_open(members[0], "vllm_served_model_name"):
                continue
            for item in name if isinstance(name, list) else [name]:
                served.setdefault(str(item), {}).setdefault(model, []).append(deployment)
        for name, models in served.items():
            if len(models) > 1:
                groups = [group for mine in models.values() for group in mine]
                where = [self.where("vllm_model", self.deployments[group][0], group) for group in groups]
                self.add(
                    "served_name_two_models",
                    value="; ".join("{0}: {1}".format(names(mine, self.lang), model) for model, mine in models.items()),
                    where=names(list(dict.fromkeys(where)), self.lang),
                    deployments=names(groups, self.lang),
                    served=name,
                )

    # GPUs

    def gpus_fault(self, value: Any) -> str:
        """What is malformed about a declaration of GPUs, in words."""
        if not isinstance(value, (list, tuple)):
            return message("gpus_not_a_list", self.lang)
        for index, gpu in enumerate(value, start=1):
            if not isinstance(gpu, Mapping):
                return message("gpus_entry_not_a_mapping", self.lang, index=index)
            for key in _GPU_KEYS:
                if gpu.get(key) in (None, ""):
                    return message("gpus_key_missing", self.lang, index=index, key=key)
            for key in gpu:
                if key not in _GPU_KEYS:
                    return message("gpus_key_unknown", self.lang, index=index, key=key)
            if not isinstance(gpu["name"], str):
                return message("gpus_name_bad", self.lang, index=index)
            memory = gpu["memory_mib"]
            if _kind_problem("int", memory) or int(memory) < _LEAST_GPU_MEMORY_MIB:
                return message("gpus_memory_bad", self.lang, index=index)
            if not _CAPABILITY.fullmatch(str(gpu["compute_capability"])):
                return message("gpus_capability_bad", self.lang, index=index)
        return ""

    def check_gpus(self) -> None:
        declared: dict[str, int] = {}
        faults: dict[tuple[str, str, str], list[str]] = {}
        for host in self.checked_hosts():
            value = self.hosts[host].get("llm_gpus")
            if value is None or is_unresolved(value):
                continue
            fault = self.gpus_fault(value)
            if fault:
                faults.setdefault((fault, self.text(value), self.where("llm_gpus", host)), []).append(host)
            else:
                declared[host] = len(value)
        for (fault, text, where), hosts in faults.items():
            self.add("gpus_malformed", value=text, where=where, hosts=names(hosts, self.lang), detail=fault)
        for deployment, members in self.deployments.items():
            if members and all(host in declared for host in members):
                self.check_parallelism(deployment, members, declared)

    def check_parallelism(self, deployment: str, members: Sequence[str], declared: Mapping[str, int]) -> None:
        sizes = []
        given = []
        for name in ("vllm_tensor_parallel_size", "vllm_pipeline_parallel_size"):
            value = self.get(members[0], name)
            if value is None or _kind_problem("int", value) or int(value) < 1:
                sizes.append(1)
            else:
                sizes.append(int(value))
                given.append(name)
        total = sum(declared[host] for host in members)
        if given and sizes[0] * sizes[1] > total:
            self.add(
                "too_few_gpus",
                value=", ".join("{0}: {1}".format(name, self.get(members[0], name)) for name in given),
                where=self.where(given[0], members[0], deployment),
                deployment=deployment,
                wanted=sizes[0] * sizes[1],
                tensor=sizes[0],
                pipeline=sizes[1],
                declared=total,
                per_host=names(["{0}: {1}".format(host, declared[host]) for host in members], self.lang),
            )

    # Network

    def check_network(self) -> None:
        seen: dict[tuple[str, str], None] = {}
        for host in self.checked_hosts():
            value = self.get(host, "llm_cluster_network")
            if value in (None, ""):
                continue
            fault, suggestion = cidr_fault(value)
            key = (self.text(value), self.where("llm_cluster_network", host))
            if fault and key not in seen:
                seen[key] = None
                self.add(
                    "network_malformed",
                    value=key[0],
                    where=key[1],
                    name="llm_cluster_network",
                    suggestion=suggestion,
                )

    # Bundle

    def check_bundles(self) -> None:
        told: dict[str, None] = {}
        for deployment, members in self.deployments.items():
            if not members:
                continue
            head = self.head(members)
            if not is_true(self.get(head, "llm_offline")) or self.is_open(head, "llm_bundle_dir"):
                continue
            directory = self.get(head, "llm_bundle_dir")
            where = self.where("llm_bundle_dir", head)
            if directory in (None, ""):
                if "" not in told:
                    told[""] = None
                    self.add("bundle_dir_missing", where=where)
                continue
            directory = str(directory)
            bundle = self.bundles.get(directory, {})
            manifest = bundle.get("manifest")
            fault = manifest_fault(manifest, bundle.get("error"), self.lang)
            if not fault and manifest is not None:
                self.check_bundle(deployment, head, directory, manifest)
            elif directory not in told:
                told[directory] = None
                if fault:
                    self.add(
                        "bundle_unreadable",
                        value=self.text(directory),
                        where=where,
                        reason=fault,
                        schema=MANIFEST_SCHEMA,
                    )
                else:
                    path = posixpath.join(directory, MANIFEST_NAME)
                    self.add("bundle_missing", value=self.text(directory), where=where, path=path)

    def check_bundle(self, deployment: str, head: str, directory: str, manifest: Mapping[str, Any]) -> None:
        files = _mappings(manifest.get("files"))
        models = sorted(
            {str(entry.get("model")) for entry in files if entry.get("kind") == "model" and entry.get("model")}
        )
        images = [image for entry in files if entry.get("kind") == "image" for image in _mappings(entry.get("images"))]
        model = self.get(head, "vllm_model")
        if (
            isinstance(model, str)
            and model
            and not model.startswith("/")
            and "://" not in model
            and model not in models
        ):
            self.add(
                "bundle_without_model",
                value=self.text(model),
                where=self.where("vllm_model", head, deployment),
                deployment=deployment,
                path=directory,
                models=names(models, self.lang),
            )
        version = self.get(head, "vllm_version")
        wanted = self.get(head, "vllm_image")
        match: list[Mapping[str, Any]] = []
        if wanted:
            match = [image for image in images if stands_for(image, str(wanted))]
            if not match:
                self.add(
                    "bundle_without_image",
                    value=self.text(wanted),
                    where=self.where("vllm_image", head, deployment),
                    deployment=deployment,
                    path=directory,
                    images=names([image.get("reference") for image in images], self.lang),
                )
            elif isinstance(version, str) and match[0].get("vllm_version"):
                found = match[0]["vllm_version"]
                if not same_release(version, found):
                    self.add(
                        "image_of_other_version",
                        value=self.text(wanted),
                        where=self.where("vllm_image", head, deployment),
                        deployment=deployment,
                        found=found,
                        wanted=version,
                    )
        elif isinstance(version, str) and version and not self.is_open(head, "vllm_image"):
            releases = [str(image["vllm_version"]) for image in images if image.get("vllm_version")]
            match = [image for image in images if same_release(version, str(image.get("vllm_version") or ""))]
            if not match:
                self.add(
                    "bundle_without_version",
                    value=self.text(version),
                    where=self.where("vllm_version", head, deployment),
                    deployment=deployment,
                    path=directory,
                    images=names(releases, self.lang),
                )
        if match:
            self.check_image(deployment, head, match[0], files)

    def check_image(
        self, deployment: str, head: str, image: Mapping[str, Any], files: Sequence[Mapping[str, Any]]
    ) -> None:
        """Whether the image holds code for the GPUs that are declared; those that are found are looked at later."""
        declared = [gpu for host in self.deployments[deployment] for gpu in _mappings(self.get(host, "llm_gpus"))]
        told = {name: self.get(head, name) for name in ("nvidia_driver_method", "nvidia_driver_version")}
        drivers = [entry.get("version") for entry in files if entry.get("kind") == "driver"]
        self.problems += image_problems(
            deployment,
            image,
            [gpu.get("compute_capability") for gpu in declared],
            planned_driver(told, drivers),
            self.where("vllm_image" if self.get(head, "vllm_image") else "vllm_version", head, deployment),
            self.lang,
        )


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, (list, tuple)) else []


def cidr_fault(value: Any) -> tuple[bool, str]:
    """Whether a value is no network in CIDR form, and one that is near."""
    text = str(value).strip()
    suggestion = "10.10.0.0/24"
    try:
        near = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return True, suggestion
    if "/" not in text:
        return True, "{0}/24".format(text.rsplit(".", 1)[0] + ".0") if near.version == 4 else suggestion
    if str(near.network_address) != text.split("/", 1)[0] and near.network_address != ipaddress.ip_address(
        text.split("/", 1)[0]
    ):
        return True, str(near)
    return False, ""


def manifest_fault(manifest: Any, error: Any, lang: str = "en") -> str:
    """Why a bundle's manifest is of no use, in words; nothing if it can be used or if there is none."""
    if error:
        return " ".join(str(error).split())
    if manifest is None:
        return ""
    if not isinstance(manifest, Mapping):
        return message("bundle_not_a_mapping", lang)
    if manifest.get("schema") != MANIFEST_SCHEMA:
        return message("bundle_schema", lang, found=shown(manifest.get("schema"), lang))
    return ""


def check_inventory(
    hosts: Mapping[str, Mapping[str, Any]],
    groups: Mapping[str, Mapping[str, Sequence[str]]],
    known: Mapping[str, Mapping[str, Any]],
    foreign: Sequence[str] = (),
    bundles: Mapping[str, Mapping[str, Any]] | None = None,
    origins: Mapping[str, Mapping[str, str]] | None = None,
    bundle_required: bool = True,
    lang: str = "en",
) -> dict[str, Any]:
    """All that is wrong with an inventory, and its deployments.

    ``hosts`` holds the variables that the inventory sets, ``groups`` per group all its hosts (those of its children too, in
    Ansible's order) and its direct child groups, ``known`` the options of all roles' argument specs, ``bundles`` per
    directory ``{manifest: parsed or None, error: text or None}``, ``origins`` where a host's variable is set, as far as
    that is known.
    """
    check = _Check(hosts, groups, known, foreign, bundles or {}, origins or {}, lang)
    check.check_deployments()
    check.check_addresses()
    check.check_settings()
    check.check_variables()
    check.check_gpus()
    check.check_replicas()
    check.check_network()
    if bundle_required:
        check.check_bundles()
    deployments = {
        group: {"hosts": members, "head": check.head(members)}
        for group, members in check.deployments.items()
        if members
    }
    every_host = list(dict.fromkeys(host for entry in deployments.values() for host in entry["hosts"]))
    return {"problems": check.problems, "deployments": deployments, "hosts": every_host}
