"""The figures of the house, as far as they are computed."""

from __future__ import annotations

from pathlib import Path

from benchmarks import house


def test_the_files_of_a_patch_and_the_words_of_a_file(tmp_path: Path) -> None:
    assert house.touched("--- a/x\n+++ b/roles/x/y.yml\n@@\n+++ b\n--- a/z\n+++ b/z\n") == ["roles/x/y.yml", "z"]
    path = house.ROOT / "benchmarks/house.py"
    assert house.words([path], "ALLOWED")["benchmarks/house.py"] == path.read_text().count("ALLOWED")
    assert house.words([path], "nowhere" + "stands") == {}


def test_every_example_changes_files_that_are_there() -> None:
    for name in house.MOST:
        files = house.touched((house.PATCHES / f"{name}.patch").read_text())
        assert files, name
        assert [file for file in files if not (house.ROOT / file).is_file()] == [], name
