"""What people read is in the catalogue of messages, in both languages, and nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ROOT / "plugins" / "plugin_utils" / "messages"
# Python for people who write playbooks: Ansible's own documentation is English.
DOCUMENTATION = {"DOCUMENTATION", "EXAMPLES", "RETURN"}
# Errors that only a programmer can cause, or that the code around them catches.
PROGRAMMING_ERRORS = {"TypeError", "ValueError"}

# Texts of three and more words that nobody reads, by file and pattern.
EXCEPTIONS = (
    # How a filter is called is the business of whoever writes the playbook.
    ("plugins/filter/*.py", r"^\w+ wants |^\w+: the catalogue has no "),
    # What engines and drivers print, and tables of facts.
    ("plugins/plugin_utils/engines/vllm/engine_log.py", r""),
    ("plugins/plugin_utils/planner/data/failures.py", r""),
    ("plugins/plugin_utils/planner/log_text.py", r""),
    ("plugins/plugin_utils/planner/diagnose.py", r"^\\bhf_"),
    ("plugins/plugin_utils/engines/vllm/start_phases.py", r""),
    ("plugins/plugin_utils/planner/start_progress.py", r"^\(\?P<done>"),
    ("plugins/plugin_utils/planner/data/options.py", r"^\nadditional_config "),
    ("plugins/plugin_utils/planner/data/attention.py", r"^\n(0\.2\.7\||XFORMERS\|)"),
    ("plugins/plugin_utils/planner/data/domains.py", r"^\nall2all_backend "),
    ("plugins/plugin_utils/planner/data/quantization.py", r"^\nawq\|"),
    ("plugins/plugin_utils/planner/data/environment.py", r"^\n[A-Z]"),
    ("plugins/plugin_utils/planner/data/cards.py", r"^NVIDIA "),
    ("plugins/plugin_utils/planner/data/releases.py", r"^\n0\.2\.7\|"),
    ("plugins/plugin_utils/planner/data/flavours.py", r"^\n1cat-"),
    ("plugins/plugin_utils/planner/data/registry.py", r"^\n[A-Z]\w+ "),
    ("plugins/plugin_utils/planner/data/remote_code.py", r"^\naquila -"),
    # Names of options and architectures, in rows.
    ("plugins/plugin_utils/planner/counterparts.py", r"^\nmodel "),
    ("plugins/plugin_utils/engines/llama_cpp/data/options.py", r"^\n[a-z_]+ "),
    ("plugins/plugin_utils/engines/llama_cpp/data/architectures.py", r"^\nafmoe "),
    ("plugins/module_utils/_gpu.py", r"^\n15F7 |^\\\[\?\(n/a|^Open Kernel Module$"),
    ("plugins/module_utils/_gpu.py", r"^GPU is lost$|^Unable to determine|^\n15F7 |^\\\[\?\(n/a|^Open Kernel Module$"),
    ("plugins/plugin_utils/planner/data/generations.py", r"^Ampere or Ada$"),
    ("plugins/plugin_utils/install/packages.py", r"^kylin linux advanced server$"),
    # Files and commands for other programs.
    ("plugins/plugin_utils/bundle/lists.py", r"^#!/bin/sh"),
    ("plugins/plugin_utils/bundle/packages.py", r"^\^Acquire|^dnf |^keys=|^Types: deb|^main restricted universe$"),
    ("plugins/plugin_utils/bundle/signature.py", r"^\(ssh-"),
    ("plugins/plugin_utils/deployment/container_user.py", r"^import "),
    ("plugins/plugin_utils/deployment/unit.py", r"^NoNewPrivileges=|^# Made by |^RestrictAddress|^After=|^Wants="),
    ("plugins/plugin_utils/engines/vllm/collective.py", r"^while IFS="),
    ("plugins/modules/gather.py", r"^import "),
    ("plugins/plugin_utils/deployment/runtime.py", r"^exec |^systemctl "),
    # Expressions of Prometheus and of its templates, and HTML around texts of the catalogue.
    ("plugins/plugin_utils/monitoring/rules.py", r" by \("),
    ("plugins/plugin_utils/status/trends.py", r" by \("),
    ("plugins/plugin_utils/monitoring/consoles.py", r"^body\{|^<|^\{\{ if "),
    # A line of figures under the names that NCCL's own tests give them.
    ("plugins/plugin_utils/reports/summary.py", r"algbw .* busbw"),
    # A host's own words: the catalogue's message quotes them beside the code.
    (
        "plugins/module_utils/_gpu.py",
        r"list of cards|not in the table|no details of|not seen by nvidia-smi|is installed$",
    ),
    ("plugins/module_utils/_programs.py", r"^no answer within "),
    ("plugins/modules/gather.py", r"^no such program$|^it ends with status "),
    # What ssh and sudo print, the beginning of an inventory, and what a person copies into a shell or into Python.
    (
        "plugins/plugin_utils/inventory/discover.py",
        r"^(host key|identification|could not|missing sudo|future feature|requires a) |^---\n|^\^\(Task failed: ",
    ),
    (
        "plugins/plugin_utils/inventory/discover.py",
        r"^(must have|received message|no space|password|change your|subsystem|via scp:|failed to) ",
    ),
    (
        "plugins/plugin_utils/inventory/discover.py",
        r"^(illegal variable|ambiguous output|account|not permitted|system is|no matching|too long) ",
    ),
    ("plugins/plugin_utils/inventory/discover.py", r"^(too many|connection|no valid) "),
    # What nvidia-smi, the driver, iptables and nft print, what a cloud calls a disk, and addresses of repositories.
    ("plugins/module_utils/_gpu.py", r"^infoROM is corrupted$|^\^no answer within|NVRM: "),
    (
        "plugins/module_utils/_left.py",
        r"^\^(-A |:)INPUT |^\^table |^\^\\s\*(type filter|ip saddr) |^\(\?:counter packets ",
    ),
    ("plugins/module_utils/_picture.py", r"^Amazon EC2 "),
    ("plugins/plugin_utils/preflight/packages.py", r"^//apt|-backports\("),
    ("plugins/plugin_utils/preflight/cards.py", r"WPR2|GFW|firmware/|power cables|off the bus|GSP"),
    ("plugins/plugin_utils/reports/use_it.py", r'^--header |^\[\{"role"'),
    # What the driver logs, and what nvidia-smi prints of NVLinks.
    ("plugins/module_utils/_xid.py", r"NVRM|recovery action|required$|^drain and reset$"),
    ("plugins/module_utils/_accept.py", r"Link \("),
    # Scopes of OpenID Connect.
    ("plugins/plugin_utils/gateway/web_ui.py", r"^openid email profile$"),
    # How units begin, and what systemd prints of one that it would not run.
    ("plugins/modules/gather.py", r"^# Made by "),
    ("plugins/modules/files.py", r"^bad unit file setting"),
    # What llama.cpp, LMDeploy, SGLang and Ollama log.
    ("plugins/plugin_utils/engines/llama_cpp/engine.py", r"^build_info:|^model loaded"),
    ("plugins/plugin_utils/engines/lmdeploy/engine.py", r"Loading: |^\^HINT: "),
    ("plugins/plugin_utils/engines/sglang/engine.py", r"^Load weight begin|^Started server process"),
    ("plugins/plugin_utils/engines/ollama/server.py", r"^set -a; "),
    # A configuration of Triton's.
    ("plugins/plugin_utils/engines/triton/server.py", r"^backend: "),
    # HAProxy's configuration, and what programs that use the API are answered.
    ("plugins/plugin_utils/engines/ollama/door.py", r""),
    # What nft prints.
    ("plugins/module_utils/_evidence.py", r"^counter packets "),
    # What the kernel and Ray print.
    ("plugins/module_utils/_live.py", r"NVRM: Xid|pending placement groups|^no figures of an engine "),
    ("plugins/module_utils/_engine.py", r"^the engine answers "),
    ("plugins/module_utils/_connectivity.py", r"^no free port on "),
    ("plugins/modules/network_connectivity.py", r"^cannot listen on "),
)


def is_text(text: str) -> bool:
    """Three words in a row of natural language, or any Chinese."""
    words = re.findall(r"(?<![\w/.{-])[A-Za-z]{2,}(?![\w/(=])", text)
    return (len(words) >= 3 and " " in text) or bool(re.search("[\u4e00-\u9fff]", text))


def is_excepted(path: Path, text: str) -> bool:
    return any(path.match(pattern) and re.search(expected, text) for pattern, expected in EXCEPTIONS)


def not_for_people(tree: ast.AST) -> Iterator[ast.AST]:
    """Documentation, and what programming errors say."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if ast.get_docstring(node) is not None and isinstance(node.body[0], ast.Expr):
                yield node.body[0].value
        elif isinstance(node, ast.Assign):
            if any(isinstance(target, ast.Name) and target.id in DOCUMENTATION for target in node.targets):
                yield from ast.walk(node)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            if isinstance(node.exc.func, ast.Name) and node.exc.func.id in PROGRAMMING_ERRORS:
                yield from ast.walk(node)


def texts_of(source: str) -> Iterator[tuple[int, str]]:
    """The texts in Python code with their lines; those with values in them as a whole."""
    tree = ast.parse(source)
    skipped = {id(node) for node in not_for_people(tree)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            skipped.update(id(part) for part in node.values)
            text = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if is_text(text):
            yield node.lineno, text


def python_files() -> list[Path]:
    files = sorted((ROOT / "plugins").rglob("*.py"))
    return [path for path in files if path.parent.name != "doc_fragments"]


def test_python_holds_no_text_for_people() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text[:100]!r}"
        for path in python_files()
        for line, text in texts_of(path.read_text(encoding="utf-8"))
        if not is_excepted(path.relative_to(ROOT), text)
    ]
    assert len(python_files()) > 150
    assert found == [], "put them into plugins/plugin_utils/messages/en.yml and zh.yml"


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('module.fail_json(msg=f"{path} cannot be read today")', 1),
        ('raise AnsibleActionFail("no such host here")', 1),
        ('return {"remedy": "use a newer release"}', 1),
        ('names = "、"; text = "主机"', 1),
        ('"""What it does for whom."""', 0),
        ('raise ValueError("nothing here writes zstd")', 0),
        ('message("no_room", lang, folder=dest)', 0),
        ('path = "/etc/docker/daemon.json"', 0),
    ],
)
def test_the_search_finds_texts_and_nothing_else(source: str, count: int) -> None:
    assert len(list(texts_of(source))) == count


@pytest.mark.slow
def test_every_exception_is_needed() -> None:
    texts = [
        (path.relative_to(ROOT), text)
        for path in python_files()
        for _line, text in texts_of(path.read_text(encoding="utf-8"))
    ]
    unused = [
        (pattern, expected)
        for pattern, expected in EXCEPTIONS
        if not any(path.match(pattern) and re.search(expected, text) for path, text in texts)
    ]
    assert unused == []


# Tasks


def said_by(content: Any) -> Iterator[str]:
    """What tasks say: the messages of assert, fail, debug and pause."""
    if isinstance(content, dict):
        for key, value in content.items():
            if key in ("fail_msg", "success_msg", "msg", "prompt"):
                yield from value if isinstance(value, list) else [str(value)]
            yield from said_by(value)
    elif isinstance(content, list):
        for entry in content:
            yield from said_by(entry)


def literal(text: str) -> str:
    """What of a template is text already: that outside of the braces, and the quoted texts inside."""
    inside = " ".join(re.findall(r"\{\{.*?\}\}", text, re.DOTALL))
    quoted = re.findall(r"'([^']*)'|\"([^\"]*)\"", inside)
    outside = re.sub(r"\{\{.*?\}\}|\{%.*?%\}", "", text, flags=re.DOTALL)
    return " | ".join([outside.strip(), *(one or other for one, other in quoted if is_text(one or other))])


def test_tasks_say_what_the_catalogue_holds() -> None:
    files = [path for folder in ("roles", "playbooks") for path in sorted((ROOT / folder).rglob("*.yml"))]
    texts = [
        (path, text)
        for path in files
        if not {".llm", "molecule"} & set(path.parts)
        for text in said_by(yaml.safe_load(path.read_text(encoding="utf-8")))
    ]
    assert len(texts) > 30
    found = [f"{path.relative_to(ROOT)}: {text.strip()[:100]!r}" for path, text in texts if is_text(literal(text))]
    assert found == [], "use the filters that read the catalogue of messages"
