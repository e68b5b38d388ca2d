"""What only vLLM is or does is in its rooms, engines/vllm and roles/vllm, beside the planner of its memory. All others ask engines/find.py."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = re.compile(r"plugins/plugin_utils/(engines/vllm|planner|messages)/|roles/vllm/")
# Documentation, and what of it stands in a plugin.
PAGE = re.compile(r"README\.md$|/meta/\w+\.yml$")
TEXTS = re.compile(
    r'^(?:DOCUMENTATION|EXAMPLES|RETURN) = r?""".*?^"""|^  runbook:\n(?:    [^\n]*\n|\n)*', re.DOTALL | re.MULTILINE
)
ALLOWED = {
    "the list of engines": r"plugins/module_utils/_engines\.py|plugins/plugin_utils/engines/\w+\.(py|yml)|roles/common/(defaults|vars)/main\.yml",
    "a filter, a variable, a key of a record: names that people or hosts have": r"plugins/filter/\w+\.py|plugins/plugin_utils/filters\.py"
    r"|plugins/plugin_utils/(inventory/forms|deployment/sections)\.py|plugins/module_utils/_(served|bundle)\.py|roles/models/vars/main\.yml",
    "plays name the roles that they run, and tags": r"playbooks/(accept|rollback|validate)\.yml"
    r"|playbooks/stages/(collective|decide|network|serve)\.yml",
    "the probe, a question and the filter of paths travel alone: what programs of engines are called there": r"roles/common/files/"
    r"(ask|llm-probe|llm_api_paths)\.py",
    "a return runs the roles of the engine": r"roles/common/tasks/go_back\.yml",
    "the role ray serves vLLM": r"roles/ray/(tasks/main\.yml|files/cluster\.py)",
    "what images hold and what foreign programs are called": r"plugins/module_utils/_(image_archive|cuda_compatibility|host)\.py",
    "Triton runs vLLM inside": r"plugins/plugin_utils/engines/triton/\w+\.(py|yml)",
    "a bundle adds Ray to images of vLLM only": r"roles/bundle/tasks/adopt_ray\.yml",
}


def naming(root: Path) -> Iterator[str]:
    for path in sorted(path for folder in ("plugins", "roles", "playbooks") for path in (root / folder).rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.suffix in (".py", ".yml", ".j2", ".sh", ".cfg") and not ROOMS.match(name) and not PAGE.search(name):
            if re.search("vllm", TEXTS.sub("", path.read_text(encoding="utf-8")), re.IGNORECASE):
                yield name


def test_no_other_room_names_vllm() -> None:
    found = list(naming(ROOT))
    assert [name for name in found if not any(re.fullmatch(allowed, name) for allowed in ALLOWED.values())] == []
    for why, allowed in ALLOWED.items():
        assert any(re.fullmatch(allowed, name) for name in found), why
