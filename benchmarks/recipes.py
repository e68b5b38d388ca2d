# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recipes of recipes.yml, planned and rendered for a release, and as the page docs/guides/recipes.md."""

from __future__ import annotations

import functools
import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.decide import DecisionInput, Readers, decide
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.release import recommended_release
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key, releases

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "benchmarks/recipes.yml"
DEPLOYMENT = "recipe"
# The oldest release that a recipe renders for has to be this one, or what the recipe says.
OLDEST = "0.3.0"


@functools.cache
def read() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The GPUs by their short names, and the recipes."""
    found = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found["gpus"], found["recipes"]


@functools.cache
def defaults() -> dict[str, Any]:
    """Of the roles that a launch follows from."""
    found: dict[str, Any] = {}
    for role in ("common", "ray", "vllm"):
        found |= yaml.safe_load((ROOT / f"roles/{role}/defaults/main.yml").read_text(encoding="utf-8"))
    return {**found, "models_dir": "/opt/llm/models"}


def releases_of(recipe: Mapping[str, Any]) -> list[str]:
    return [version for version in releases() if release_key(version) >= release_key(recipe["since"])]


def variables_of(recipe: Mapping[str, Any], version: str) -> dict[str, Any]:
    """The group variables of a recipe for a release."""
    found = {**recipe["variables"], "vllm_version": version}
    for row in recipe.get("by_release") or []:
        if release_key(row["since"]) <= release_key(version):
            found |= {name: value for name, value in row.items() if name != "since"}
    return found


def config_of(recipe: Mapping[str, Any]) -> dict[str, Any]:
    folders = (ROOT / "tests/data/models", ROOT / "inventories/models")
    path = next(folder / recipe["config"] for folder in folders if (folder / recipe["config"]).exists())
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return {**found, **({"quantization_config": recipe["quantization"]} if "quantization" in recipe else {})}


def render(recipe: Mapping[str, Any], version: str) -> dict[str, Any]:
    """The plan of a recipe for a release, made as playbooks make it before they look at a host, with its launch."""
    gpus, _recipes = read()
    shared = {**defaults(), **variables_of(recipe, version), "vllm_model_config": "/config.json", "ansible_facts": {}}
    hosts = {name: {**shared, "llm_gpus": [gpus[kind] for kind in kinds]} for name, kinds in recipe["hosts"].items()}
    asked = {DEPLOYMENT: {"hosts": list(hosts), "head": next(iter(hosts))}}
    decided = decide(DecisionInput(asked, hosts, []), Readers(lambda bundle: (), lambda path: config_of(recipe)))
    plan: dict[str, Any] = decided["plans"][DEPLOYMENT]
    return plan


# -- the page ----------------------------------------------------------------------------------------------------------
def page() -> str:
    return "\n\n".join(section(recipe) for recipe in read()[1])


def section(recipe: Mapping[str, Any]) -> str:
    gpus, _recipes = read()
    plans = {version: render(recipe, version) for version in releases_of(recipe)}
    first = gpus[next(iter(recipe["hosts"].values()))[0]]
    preferred = str(recommended_release({"compute_capability": first["compute_capability"]})["vllm_version"])
    # The one that is recommended for these GPUs, else the newest that starts, else the newest.
    candidates = [version for version in (preferred, *reversed(plans)) if version in plans]
    shown = next((version for version in candidates if plans[version]["ok"]), candidates[0])
    hosts = [f"{host}: {len(kinds)} x {gpus[kinds[0]]['name']}" for host, kinds in recipe["hosts"].items()]
    group = "\n".join(f"{name}: {_yaml(name, value)}" for name, value in variables_of(recipe, shown).items())
    text = " ".join(recipe["text"].split())
    lines = [f"## {recipe['title']}", "", text, "", ", ".join(hosts) + ".", ""]
    lines += ["```yaml", group, "```", "", "| vLLM | Outcome |", "| --- | --- |"]
    lines += [f"| {span} | {outcome} |" for span, outcome in outcomes(plans)]
    if plans[shown]["ok"]:
        lines += ["", f"With {shown}:", "", "```text", *commands(plans[shown]), "```"]
    return "\n".join(lines)


def _yaml(name: str, value: Any) -> str:
    """A value in one line. A release is in quotes, as people are asked to write it: 0.9 would be a number."""
    if name == "vllm_version":
        return json.dumps(value)
    return yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False).removesuffix("...\n").rstrip()


def outcomes(plans: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """The releases in a row that say the same of it."""
    rows: list[tuple[list[str], str]] = []
    for version, plan in plans.items():
        error = plan["predicted"]["error"]
        said = str(plan["verdict"]).replace("_", " ") if plan["ok"] else f"refused: `{error['code']}`"
        if not rows or rows[-1][1] != said:
            rows.append(([], said))
        rows[-1][0].append(version)
    for versions, said in rows:
        yield versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}", said


def commands(plan: Mapping[str, Any]) -> Iterator[str]:
    """What runs on each host, with all options on one command line: they can be read and copied."""
    several = len(plan["launch"]) > 1
    for host, started in plan["launch"].items():
        yield from [f"# {host}"] if several else []
        yield shlex.join(started["argv"])
