"""By the runbook, a host that serves loses an image, a model and a transfer that nothing needs, and nothing else; its server answers all the time."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator

import pytest

from lab.config import CHECKOUT, STATE, load
from tests.support.drills import answering, connect, page

HOST = "node3"
ADDRESS = load().nodes[HOST].data
SSH = ["ssh", "-F", str(STATE / "ssh/config"), HOST]
PAGE = "docs/runbooks/free-space.md"


def there() -> dict[str, set[str]]:
    """Images, containers and files of models on the host, those that nobody has finished among them."""
    node = connect(HOST)
    models = "find /opt/llm/models -type f ! -name .bundle-state.json"
    return {
        "images": set(node.check_output("docker images --all --no-trunc --quiet").split()),
        "tags": set(node.check_output("docker images --format '{{.Repository}}:{{.Tag}}'").split()),
        "containers": set(node.check_output("docker ps --all --format '{{.Names}} {{.ID}}'").splitlines()),
        "files": set(node.check_output(models).split()),
    }


def copied(path: str, name: str) -> str:
    subprocess.run([*SSH, f"cat > /root/{name}"], input=(CHECKOUT / path).read_bytes(), check=True)
    return f"/root/{name}"


@pytest.fixture(scope="module", autouse=True)
def client() -> Iterator[None]:
    """Somebody asks the server of this host all the time, and never waits for an answer in vain."""
    with answering(HOST):
        yield


@pytest.fixture(scope="module")
def left() -> Iterator[dict[str, str]]:
    """What nothing needs, and what is somebody else's."""
    node = connect(HOST)
    found = json.loads(
        node.check_output(f"python3 {copied('molecule/day_two/drills/files/unneeded.py', 'unneeded.py')}").splitlines()[
            -1
        ]
    )
    yield found
    node.check_output(
        f"docker rm shop; docker rmi of-somebody/shop:1 of-somebody/page:1; rm -r {found['strange_model']}"
    )


def test_the_list_tells_apart_what_goes_and_changes_nothing(left: dict[str, str]) -> None:
    before = there()
    said = page(PAGE, 1, 2)
    assert there() == before
    goes = " ".join(re.findall(r"goes: (\S+) \(", said))
    assert left["model"] in goes
    assert left["transfer"] in goes
    assert f"llm-kept:{left['image'][7:19]}" in goes
    for strange in ("of-somebody", "shop"):
        assert strange not in goes
    assert "not ours" in said


def test_what_nothing_needs_goes_and_nothing_else(left: dict[str, str]) -> None:
    before = there()
    pinned = {tag for tag in before["tags"] if tag.startswith("llm-kept:")} - {f"llm-kept:{left['image'][7:19]}"}
    assert pinned, "the version that serves is kept"
    said = page(PAGE, 3, 3)
    after = there()
    assert before["images"] - after["images"] == {left["image"]}
    assert before["files"] - after["files"] == {left["transfer"], f"{left['model']}/model.safetensors"}
    assert before["tags"] - after["tags"] == {f"llm-kept:{left['image'][7:19]}"}
    assert pinned <= after["tags"]
    assert after["containers"] == before["containers"]
    assert left["strange_image"] in after["images"]
    assert re.search(r"node3: removed \d+; ", said), said
    document = json.loads((STATE / "reports/cleanup.json").read_text())
    assert [host["host"] for host in document["hosts"]] == [HOST]
    assert {each["class"] for each in document["hosts"][0]["removed"]} >= {"images", "models", "transfers"}
    assert document["hosts"][0]["damage"] == []


def test_another_run_changes_nothing_and_the_journal_names_the_first(left: dict[str, str]) -> None:
    again = page(PAGE, 3, 3)
    assert re.findall("(?:changed|unreachable|failed)=[1-9]", again) == []
    lines = [json.loads(line) for line in connect(HOST).check_output("cat /opt/llm/journal.jsonl").splitlines()]
    assert [line for line in lines if line.get("playbook") == "cleanup.yml"], "who freed the space"
    assert connect(HOST).file(f"{left['strange_model']}/model.safetensors").exists


def test_the_ordinary_run_has_nothing_to_mend() -> None:
    assert re.findall("(?:changed|unreachable|failed)=[1-9]", page(PAGE, 4, 4)) == []
