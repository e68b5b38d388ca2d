"""Every command and every link in README.md and docs/."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.ports import (
    CLIENTS,
    COLLECTORS,
    FLEET,
    ITSELF,
    MEMBERS,
    PORTS,
)

from tests.scenarios import load
from tests.support import docs_commands
from tests.support.docs_commands import ROOT, Block, blocks, files, script
from tests.support.each import check_each
from tests.support.inventory_check import look

BLOCKS = [block for path in files() for block in blocks(path)]
RUN = [block for block in BLOCKS if block.kind == "run"]
# The page and, for instance, #a-heading or nothing. Neither images of badges nor addresses elsewhere.
LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


def original(page: Path) -> Path:
    """The page that a Chinese page translates; of another page, itself."""
    return ROOT / str(page.relative_to(ROOT)).replace("docs/zh/", "docs/").replace(".zh-CN.", ".")


TRANSLATIONS = [page for page in files() if original(page) != page]


def name(value: Path | Block) -> str:
    if isinstance(value, Block):
        return f"{value.path.relative_to(ROOT)}:{value.line}"
    return str(value.relative_to(ROOT))


def test_there_is_something_to_look_at() -> None:
    assert len(files()) >= 9
    assert len(RUN) > 20


def test_a_block_says_what_runs_it() -> None:
    known = {"unit", *load()}

    def check(block: Block) -> None:
        assert block.kind in ("run", "example"), (
            "a line with its scenario, or the reason for none, has to stand before it"
        )
        if block.kind == "run":
            assert block.argument in known
        else:
            assert len(block.argument.split()) > 3, "a reason, please"

    check_each({name(block): block for block in BLOCKS}, check)


def test_each_scenario_runs_the_page() -> None:
    """It names this program, itself and the page in one of its playbooks. The commands of a translation are those of its original."""
    asked = sorted({(block.path, block.argument) for block in RUN if block.argument != "unit"})
    check_each({f"{name(page)} by {scenario}": (page, scenario) for page, scenario in asked}, is_run_by)


def is_run_by(case: tuple[Path, str]) -> None:
    page, scenario = case
    folder = ROOT / "molecule" / scenario
    assert (folder / "molecule.yml").is_file()
    texts = [path.read_text() for path in sorted(folder.rglob("*.yml"))]
    assert any(f"docs_scenario: {scenario}\n" in text for text in texts) or any(
        "tests/support/docs_commands.py\n" in text and f"- {scenario}\n" in text for text in texts
    )
    lines = [line.strip() for text in texts for line in text.splitlines()]
    names = {name(page), name(original(page))}
    # Drills that are tests run single blocks of a page, with page() of tests/support/drills.py.
    tests = [path.read_text() for path in sorted(folder.rglob("test_*.py"))]
    named = any(f'"{each}"' in text and "page(" in text for each in names for text in tests)
    assert named or any(line.removeprefix("- ").removeprefix("rebuild_page: ") in names for line in lines)


PAGES_OF_UNIT = sorted({block.path for block in RUN if block.argument == "unit"} - set(TRANSLATIONS))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES_OF_UNIT, ids=name)
def test_run_the_commands_that_need_no_host(page: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PAGER": "cat",
    }
    done = subprocess.run(
        [sys.executable, docs_commands.__file__, "unit", str(page)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    if "+ ansible-playbook playbooks/plan.yml" in done.stdout:
        assert "Inventory | Check" in done.stdout


def test_one_of_these_pages_checks_an_inventory() -> None:
    assert any('playbooks/plan.yml -i "$INVENTORY"' in block.text for block in RUN if block.argument == "unit")


@pytest.mark.parametrize("sample", ["single_node", "offline_v100", "replicas", "low_memory"])
def test_the_inventory_check_accepts_a_sample(sample: str) -> None:
    arguments = ("-i", f"inventories/{sample}", "--limit", "localhost")
    status, said, inventory, _codes = look(ROOT, known_variables(), *arguments, bundle_required=False)
    assert status == 0, said
    assert inventory


def test_links_resolve() -> None:
    check_each({name(page): page for page in files()}, check_links)


def check_links(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target, heading in LINK.findall(text):
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), target
        assert path.is_relative_to(ROOT)
        if heading:
            headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
            assert heading in [re.sub(r"[^\w -]", "", found.lower()).replace(" ", "-") for found in headings], heading


# Pages for people who change the collection. Beside the paths of the checkout they name files of hosts, of runs and of vLLM's wheels.
FOR_DEVELOPERS = [
    "AGENTS.md",
    "CONTRIBUTING.md",
    "docs/architecture.md",
    *("docs/development/" + name for name in ("new-engine.md", "new-release.md")),
]
ELSEWHERE = re.compile(
    r"~|ansible_collections/|build/|records/|decision\.json|vllm/(config|engine|v1)|plugins/module_utils/_name\.py"
)


def test_paths_that_developers_are_told_exist() -> None:
    """From the root of the checkout, below plugins/, or in any role; a word in capitals stands for any name, and a name without a folder lies anywhere."""

    def check(page: Path) -> None:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        named = re.findall(r"`([\w*~.-]*/[\w*./-]*|[\w.-]+\.(?:json|md|py|sh|yml))`", text)
        assert named
        for path in named:
            pattern = re.sub(r"\b[A-Z]{2,}\b", "*", path).strip("/")
            below = ("", "plugins/", "plugins/plugin_utils/", "roles/*/", "tests/unit/plugins/plugin_utils/")
            anywhere = () if "/" in pattern else ("playbooks/", "plugins/**/", "roles/**/")
            found = any(next(ROOT.glob(prefix + pattern), None) for prefix in (*below, *anywhere))
            assert found or ELSEWHERE.match(path), path

    check_each({page: ROOT / page for page in FOR_DEVELOPERS}, check)


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / target).resolve() for target, _heading in LINK.findall(index.read_text())}
    assert {page for page in files() if page != index} <= linked


def test_a_translation_shows_the_same_commands() -> None:
    """But for comments, which are translated."""

    def commands(path: Path) -> list[tuple[str, str, str]]:
        texts = [re.sub(r" +#.*|(?<=:[?])[^}]+", "", block.text) for block in blocks(path)]
        return [
            (block.kind, f"{block.argument} {block.values}", text)
            for block, text in zip(blocks(path), texts, strict=True)
        ]

    def check(page: Path) -> None:
        assert commands(page) == commands(original(page))

    check_each({name(page): page for page in TRANSLATIONS}, check)


def test_a_page_and_its_translation_link_each_other() -> None:
    def linked(page: Path) -> set[Path]:
        return {(page.parent / target).resolve() for target, _heading in LINK.findall(page.read_text())}

    def check(page: Path) -> None:
        assert original(page) in linked(page)
        assert page in linked(original(page))

    check_each({name(page): page for page in TRANSLATIONS}, check)


def test_a_chinese_page_links_the_chinese_page_where_there_is_one() -> None:
    chinese = {original(page): page for page in TRANSLATIONS}

    def check(page: Path) -> None:
        found = LINK.findall(page.read_text())
        # A section may be one that the Chinese page lacks.
        targets = {(page.parent / target).resolve() for target, heading in found if target and not heading}
        assert [name(target) for target in targets if target in chinese and target != original(page)] == []

    check_each({name(page): page for page in TRANSLATIONS}, check)


def test_a_picture_is_well_formed_and_used() -> None:
    pages = "".join(page.read_text() for page in files())

    def check(picture: Path) -> None:
        root = xml.etree.ElementTree.parse(picture).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root.findtext("{http://www.w3.org/2000/svg}title")
        assert picture.name in pages

    check_each({name(picture): picture for picture in (ROOT / "docs" / "images").glob("*.svg")}, check)


def test_the_ports_are_those_of_the_roles() -> None:
    text = (ROOT / "docs" / "reference" / "network.md").read_text()
    for role in ("ray", "vllm", "monitoring"):
        found = re.findall(
            r"^ +(\w+_port):\n(?: +\w.*\n)*? +default: (\d+)$",
            (ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text(),
            re.MULTILINE,
        )
        assert found, role
        for variable, port in found:
            rows = [line for line in text.splitlines() if line.startswith("|") and f"`{variable}`" in line]
            assert len(rows) == 1, variable
            assert port in rows[0], variable


def security_rows() -> list[str]:
    """What docs/security.md has to say of each port, from the table that the firewall is made of."""
    who = {
        MEMBERS: "the deployment's hosts",
        # Members are let in to every port, those that only the host itself needs too.
        ITSELF: "the deployment's hosts",
        CLIENTS: "the deployment's hosts, `llm_gateway`, `llm_monitoring`, `llm_firewall_api_sources`",
        COLLECTORS: "the deployment's hosts, `llm_monitoring`",
        FLEET: "the deployment's hosts, `llm_monitoring`, all hosts that send their journal",
    }
    rows = ["| 22, or where sshd listens | every host | `ansible_port` | everybody |"]
    for port in PORTS:
        number = str(port.first) if port.first == port.last else f"{port.first} to {port.last}"
        where = "the head" if port.head_only else "every host"
        where += {"ray": ", with Ray", "mp": ", without Ray", "": ""}[port.executor]
        where += ", if `llm_monitoring` has hosts" if port.watched else ""
        where += f" and `{port.asked_by}`" if port.asked_by else ""
        variables = ", ".join(f"`{name}`" for name in (port.variable, port.last_variable) if name)
        rows.append(f"| {number} | {where} | {variables} | {who[port.reached_by]} |")
    opened = "the deployment's hosts; everybody where another program listened before"
    rows.append(
        f"| what the kernel hands out (32768 to 60999) | every host | `llm_firewall_dynamic_ports_enabled` | {opened} |"
    )
    return rows


def test_the_table_of_who_reaches_which_port_is_that_of_the_firewall() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    section = text.split("## Who reaches which port", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][2:]
    assert rows == security_rows()


PAGE = """# A page

<!-- run: unit -->
```bash
A=1  # a comment
B=2
```

<!-- example: there is no such thing -->
```bash
false
```

```yaml
a: b
```

1. A step

   <!-- run: unit -->
   ```bash
   echo "$A"
   ```

<!-- run: other -->
```python
print("$A")
```

```python
not_run()
```
"""


def test_blocks_become_a_script(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    found = blocks(page)
    assert [(block.line, block.kind, block.argument) for block in found] == [
        (4, "run", "unit"),
        (10, "example", "there is no such thing"),
        (21, "run", "unit"),
        (26, "run", "other"),
    ]
    wanted = [block for block in found if block.argument == "unit"]
    assert script(wanted, {"A": "x"}) == 'A=x  # a comment\nB=2\n\n   echo "$A"\n'
    assert script(found[3:], {}) == "python - <<'END_OF_PYTHON'\nprint(\"$A\")\nEND_OF_PYTHON\n"


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("runbooks/*.md")), ids=name)
def test_the_first_block_of_a_runbook_puts_the_programs_on_path(page: Path) -> None:
    assert [block.text.startswith("source .venv/bin/activate ") for block in blocks(page)[:1]] != [False]


def test_what_a_reader_fills_in_has_a_value_in_tests_and_none_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- run: unit A=x/y B=2 -->\n```bash\nA=${A:?your own one} # a comment\nB=${B:?two}\necho $A\n```\n"
    )
    found = blocks(page)
    assert script(found, {"B": "3"}) == "A=x/y # a comment\nB=3\necho $A\n"
    done = subprocess.run(["bash", "-c", found[0].text], capture_output=True, text=True, env={"LC_ALL": "C"})
    assert (done.returncode, done.stdout) == (127, "")
    assert "A: your own one" in done.stderr


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("runbooks/*.md")), ids=name)
def test_a_runbook_leaves_its_reader_no_value_of_the_lab(page: Path) -> None:
    """Whoever pastes the first block as it is gets an error, not commands for hosts of somebody else."""
    for block in blocks(page)[:1]:
        assigned = re.findall(r"^([A-Z_]+)=(.*?)(?: +#.*)?$", block.text, re.MULTILINE)
        assert [name for name, value in assigned if not re.fullmatch(rf"\$\{{{name}:\?[^}}]+\}}", value)] == []
        assert {name for name, _value in assigned} == set(block.values)


@pytest.mark.parametrize("values", [{"C": "1"}, {"a": "1"}])
def test_a_variable_that_the_first_block_does_not_set_is_refused(tmp_path: Path, values: dict[str, str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    with pytest.raises(ValueError, match="0 times"):
        script(blocks(page)[:1], values)


def test_a_page_without_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match="no such block"):
        script([], {})
