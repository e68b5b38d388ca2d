"""What playbooks read of a bundle's manifest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleLookupError
from ansible_collections.baremetal.llm.plugins.lookup.bundle_files import LookupModule

RECORD = {"path": "driver/a.run", "kind": "driver", "size": 3, "sha256": "0" * 64, "version": "570.1"}


def look(*bundles: Path, **options: Any) -> Any:
    lookup = LookupModule()
    lookup.set_options = lambda **_given: None  # type: ignore[method-assign]
    lookup.get_option = {"language": "en", **options}.get  # type: ignore[method-assign, assignment]
    return lookup.run([str(bundle) for bundle in bundles])


def make(folder: Path, *records: dict[str, Any]) -> Path:
    (folder / "manifest.yml").write_text(yaml.safe_dump({"schema": 1, "files": list(records)}))
    return folder


def test_the_records_of_a_manifest_are_returned_and_what_changed_is_read_anew(tmp_path: Path) -> None:
    bundle = make(tmp_path, RECORD)
    assert look(bundle) == [RECORD]
    look(bundle)[0]["version"] = "changed by a caller"
    assert look(bundle) == [RECORD]
    make(tmp_path, {**RECORD, "version": "580.2"})
    os.utime(tmp_path / "manifest.yml", ns=(1, 1))
    assert [record["version"] for record in look(bundle)] == ["580.2"]


def test_a_folder_in_the_home_and_several_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    make(tmp_path, RECORD)
    assert look(Path("~"), tmp_path) == [RECORD, RECORD]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("schema: 9\nfiles: []\n", "schema 9"),
        ("files: [", "expected"),
        (yaml.safe_dump({"schema": 1, "files": [RECORD, RECORD]}), "driver/a.run is listed twice"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused_with_its_folder_in_the_language_asked(
    text: str | None, said: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "manifest.yml").write_text(text)
    with pytest.raises(AnsibleLookupError) as refused:
        look(tmp_path)
    assert said in str(refused.value)
    assert str(tmp_path) in str(refused.value)
    with pytest.raises(AnsibleLookupError) as refused:
        look(tmp_path, language="zh")
    assert any("\u4e00" <= letter <= "\u9fff" for letter in str(refused.value))
