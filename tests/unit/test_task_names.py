"""A task is named `Area | Verb object`, a play of a scenario `Verb object`: with nouns, where a pronoun makes a riddle."""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PRONOUN = re.compile(r"\b(it|them|its|they|their|those|what|who)\b", re.IGNORECASE)
# Names begin with these. A verb that is missing may be added.
VERBS = """accept add adopt all-reduce alter apply ask begin blacklist break bring build bundle cause change check choose
collect compare complete compress configure connect copy cut damage decide describe downgrade download end expect explain fail
fetch fill find finish follow forget form free freeze gather get give go hand have hold insert install keep kill learn leave
let limit link list listen load look lose make mark measure mend merge name note pass plan plant prepare print propose push
put read reboot record refuse reload remember remove renew replace report reset restart restore rotate run save say send serve
set share show start stop switch take tell test touch trust try turn unload unpack upgrade use verify wait walk write"""


def offenders(where: str, items: object) -> Iterator[str]:
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict) and ("block" in item or "hosts" in item or any("." in str(key) for key in item)):
            area_verb = re.match(r"([A-Z][^|]* \| )?([A-Z][a-z-]+)", name := str(item.get("name")))
            scenario = where.startswith("molecule/") and {"hosts", "ansible.builtin.import_playbook"} & item.keys()
            named = area_verb and (area_verb[1] or scenario) and area_verb[2].lower() in VERBS.split()
            yield from [] if named and not PRONOUN.search(name) else [f"{where}: {name}"]
            for key in {"block", "rescue", "always", "tasks", "pre_tasks", "post_tasks", "handlers"} & item.keys():
                yield from offenders(where, item[key])


def test_names_are_verb_and_object() -> None:
    paths = [path for folder in ("roles", "playbooks", "molecule") for path in sorted((ROOT / folder).rglob("*.yml"))]
    read = {path: yaml.load(path.read_text().replace("!unsafe", ""), yaml.CSafeLoader) for path in paths}
    assert [name for path in paths for name in offenders(path.relative_to(ROOT).as_posix(), read[path])] == []


def test_a_riddle_is_refused() -> None:
    names = ["Docker | Start it", "Docker | The engine", "Start the engine", "Docker | Start the engine"]
    play = {"name": "Start", "hosts": "all", "tasks": [{"name": name, "a.b.c": {}} for name in names]}
    assert list(offenders("molecule/docker", [play])) == [f"molecule/docker: {name}" for name in names[:3]]
