"""What a host offers to others, and where it listens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import sha256_of, stamp
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import write_state
from ansible_collections.baremetal.llm.plugins.modules.fanout import DYNAMIC, ports

from tests.support.modules import answer_of


def note(dest: Path, *paths: str) -> None:
    write_state(
        str(dest), {path: {"sha256": sha256_of(str(dest / path)), "stamp": stamp(str(dest / path))} for path in paths}
    )


@pytest.mark.slow
def test_a_host_offers_files_that_are_as_they_came(tmp_path: Path) -> None:
    for path in ("lab--tiny/config.json", "lab--tiny/changed", "lab--tiny/nobody-knows", "lab--other/config.json"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(path)
    note(tmp_path, "lab--tiny/config.json", "lab--tiny/changed", "lab--other/config.json")
    (tmp_path / "lab--tiny/changed").write_text("changed since it came")

    def offered(*offers: str) -> list[dict[str, Any]]:
        files = answer_of("fanout", {"phase": "offer", "dest": str(tmp_path), "offers": list(offers)})["files"]
        return [dict(file) for file in files]

    (one,) = offered("lab--tiny")
    assert (one["path"], one["size"]) == ("lab--tiny/config.json", len("lab--tiny/config.json"))
    assert [file["path"] for file in offered("lab--other/config.json")] == ["lab--other/config.json"]
    assert offered("lab", "none") == []


def test_who_listens_does_so_where_a_firewall_of_this_collection_lets_others_in(tmp_path: Path) -> None:
    said = tmp_path / "range"
    said.write_text("32768\t60999\n")
    assert ports(str(said))[:2] == [32767, 32766]
    assert ports(str(tmp_path / "none"))[0] == 32767
    said.write_text("1024\t60999\n")
    assert ports(str(said))[0] > 1023
    assert max(ports()) < int(Path(DYNAMIC).read_text().split()[0])
