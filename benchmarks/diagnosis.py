# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many of the error texts that releases of vLLM hold on the way to a start an entry of the diagnosis recognises.

usage: python benchmarks/diagnosis.py [--cache FOLDER] [--unknown FILE] [RELEASE ...]

The texts are those of ``raise`` and ``assert`` in the parts of a release that a start runs through on NVIDIA GPUs: arguments,
configuration, executor, workers, loader, quantisation, attention and distributed. A value that the release fills in is an 8 here. Equal
texts are one, however many releases have them. A family is an entry that tells only what an error is about. A wheel that FOLDER lacks is
fetched with pip (100 to 500 MB each); nothing of it is kept in the checkout.
--unknown writes the texts that no entry recognises, the part of the release in front.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE / ".collections"))

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import TEXTS  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.failures import FAILURES, ROOT  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.diagnose import UNKNOWN, diagnose_log, signature  # noqa: E402

RELEASES = ("0.5.4", "0.6.6.post1", "0.8.5.post1", "0.10.2", "0.13.0", "0.20.2", "0.33.0")
LEAST = 0.5
SIGNATURES = {failure.code for failure in FAILURES}
# The parts of a start and the modules that are they, by the beginning of the path inside the wheel.
PARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "arguments",
        ("engine/arg_utils", "entrypoints/openai/cli_args", "entrypoints/openai/api_server", "entrypoints/cli/serve"),
    ),
    (
        "configuration",
        ("config", "transformers_utils/config", "envs", "platforms/cuda", "platforms/interface", "platforms/__init__"),
    ),
    ("executor", ("executor/", "v1/executor/", "v1/engine/core", "v1/engine/utils", "ray/")),
    ("workers", ("worker/", "v1/worker/", "v1/core/kv_cache_utils")),
    (
        "loader",
        (
            "model_executor/model_loader/",
            "model_executor/models/registry",
            "model_executor/models/utils",
            "model_executor/parameter",
        ),
    ),
    (
        "quantisation",
        ("model_executor/layers/quantization/", "model_executor/layers/linear", "model_executor/kernels/linear"),
    ),
    ("attention", ("attention/", "v1/attention/", "model_executor/layers/attention")),
    ("distributed", ("distributed/",)),
)
# Other makers' hardware, and what is no start: connectors between servers, weights of a running server.
LEFT_OUT = re.compile(
    r"cpu|tpu|xpu|hpu|neuron|openvino|rocm|aiter|habana|pallas|/ipex|kv_transfer|ec_transfer|weight_transfer|elastic|tests?/|quark"
)
WORDS = 3


def main() -> int:
    parser = argparse.ArgumentParser(usage=(__doc__ or "").split("usage: ")[1].split("\n")[0])
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "baremetal-llm" / "wheels"
    parser.add_argument("--cache", type=Path, default=default)
    parser.add_argument("--unknown", type=Path)
    parser.add_argument("releases", nargs="*", default=RELEASES)
    options = parser.parse_args()
    texts: dict[str, tuple[str, set[str]]] = {}
    for release in options.releases:
        for part, text in error_texts(wheel(release, options.cache)):
            texts.setdefault(text, (part, set()))[1].add(release)
    known = {text: codes(text) for text in texts}
    if options.unknown:
        lines = sorted(f"{texts[text][0]:14} {len(texts[text][1])} {text}" for text in texts if not known[text])
        options.unknown.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"error texts of {', '.join(options.releases)} on the way to a start: how many an entry recognises,")
    print("by its own signature or as one of a family")
    print(f"  {'':14} {'texts':>6} {'signature':>10} {'family':>7} {'share':>7}")
    share = 0.0
    for part in (*(part for part, _ in PARTS), "together"):
        mine = [known[text] for text in texts if part in (texts[text][0], "together")]
        exact = sum(bool(set(found) & SIGNATURES) for found in mine)
        families = sum(bool(found) for found in mine) - exact
        share = (exact + families) / max(len(mine), 1)
        print(f"  {part:14} {len(mine):6} {exact:10} {families:7} {share:7.1%}")
    print(f"wanted: {LEAST:.0%}")
    alarms = {
        text: found
        for release in options.releases
        for text in log_texts(wheel(release, options.cache))
        if (found := [each["code"] for each in diagnose_log(f"WARNING {text}") if each["kind"] == ROOT])
    }
    print(f"texts below the level of an error that an entry takes for a root cause, wanted none: {len(alarms)}")
    for text, found in alarms.items():
        print(f"  {', '.join(found)}: {text}")
    return 0 if share >= LEAST and not alarms else 1


def page() -> str:
    """The tables of docs/reference/diagnosis.md. `benchmarks/pages.py` writes them; failures stand in the order of the report."""
    lines = []
    titles = {
        "model": "The model and its settings",
        "memory": "Memory",
        "kernel": "Code for the GPU",
        "network": "The network between hosts",
    }
    titles |= {
        "ray": "Ray",
        "host": "Host, container and packages",
        "driver": "Driver and GPU",
        "client": "Requests of clients",
    }
    for layer in ("driver", "host", "kernel", "memory", "model", "ray", "network", "client"):
        lines += [f"## {titles[layer]}", "", "| Failure | Kind | vLLM | Source |", "| --- | --- | --- | --- |"]
        for failure in FAILURES:
            if failure.layer == layer:
                cause = TEXTS["en"]["failure_" + failure.code].replace("|", "\\|")
                lines.append(f"| {cause} | {failure.kind} | {failure.releases} | {address(failure.source)} |")
        lines.append("")
    return "\n".join(lines).rstrip("\n")


def address(source: str) -> str:
    """A source as a link to GitHub, where it is an issue there."""
    repository, _, number = source.partition("#")
    if not number:
        return f"`{source}`"
    repository = "vllm-project/vllm" if repository == "vllm" else repository
    return f"[{source}](https://github.com/{repository}/issues/{number})"


def codes(text: str) -> list[str]:
    """The entries that recognise a text as it stands in a log, those of the table apart from those of a family."""
    found = [finding["code"] for finding in diagnose_log(f"ValueError: {text}") if finding["code"] != UNKNOWN]
    return [f"family of {code}" if by_family(text, code) else code for code in found]


def by_family(text: str, code: str) -> bool:
    """Whether only the family of an entry recognises the text, and none of the signatures."""
    signatures = [signature(each) for failure in FAILURES if failure.code == code for each in failure.signatures]
    return not any(each.pattern.search(f"ValueError: {text}") for each in signatures)


def wheel(release: str, folder: Path) -> Path:
    """The wheel of a release, fetched where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (found := sorted(folder.glob(f"vllm-{release}-*.whl"))):
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--python-version",
            "3.12",
        ]
        for platform in ("manylinux1", "manylinux_2_28", "manylinux_2_31", "manylinux_2_35"):
            command += ["--platform", f"{platform}_x86_64"]
        subprocess.run([*command, "--dest", str(folder), f"vllm=={release}"], check=True)
        found = sorted(folder.glob(f"vllm-{release}-*.whl"))
    return found[0]


def error_texts(path: Path) -> Iterator[tuple[str, str]]:
    """Part and text of each error, from a wheel that is read file by file."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            inside = name.removeprefix("vllm/")
            part = next((part for part, begins in PARTS if inside.startswith(begins)), "")
            if part and name.endswith(".py") and inside != name and not LEFT_OUT.search(inside):
                for text in texts_of(archive.read(name).decode()):
                    yield part, text


def log_texts(path: Path) -> set[str]:
    """What a release logs for information and as a warning: no failure, and many a healthy log holds it."""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.startswith("vllm/") and name.endswith(".py")]
        calls = (
            node
            for name in names
            if not LEFT_OUT.search(name)
            for node in ast.walk(ast.parse(archive.read(name)))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args
        )
        return {
            " ".join(plain(call.args[0]).split())
            for call in calls
            if isinstance(call.func, ast.Attribute)
            and re.fullmatch(r"(?:debug|info|warning)(?:_once)?", call.func.attr)
        }


def texts_of(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            said: ast.AST | None = node.exc.args[0]
        elif isinstance(node, ast.Assert):
            said = node.msg
        else:
            continue
        text = " ".join(plain(said).split())
        if len(re.findall(r"[A-Za-z]{2,}", text)) >= WORDS:
            yield text


def plain(node: ast.AST | None) -> str:
    """The text of an expression, with an 8 for each value that is filled in; empty if it is made elsewhere."""
    if isinstance(node, ast.Constant):
        return re.sub(r"%[sdrf]|\{[\w.!:]*\}", "8", node.value) if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(value.value if isinstance(value, ast.Constant) else "8" for value in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        return plain(node.left) + (plain(node.right) if isinstance(node.op, ast.Add) else "")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "join"):
        return plain(node.func.value)
    return ""


if __name__ == "__main__":
    sys.exit(main())
