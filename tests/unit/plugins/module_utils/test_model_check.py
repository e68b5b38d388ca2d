"""A model is whole when its files say so: what hubs, clones and programs leave behind, and files that are no such files."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _model_check as model_check
from ansible_collections.baremetal.llm.plugins.module_utils._model_files import listed
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import LANGUAGES, reason

from tests.support.each import check_each
from tests.support.models import write_model

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 4943162336\n" % (b"a" * 64)
PAGE = b"<!DOCTYPE html>\n<html><body>502 Bad Gateway</body></html>"


def codes(folder: Path, **more: Any) -> list[str]:
    """What is found wrong: codes with the paths that they name."""
    names = listed(str(folder))
    found = model_check.model_problems(str(folder), names, leftovers=model_check.unfinished(str(folder)), **more)
    return [f"{one['code']} {Path(one['values']['path']).name}" for one in found]


def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model", size=40)


def gguf(tensors: int = 2, size: int = 64) -> bytes:
    """As llama.cpp writes one: a text, a list of texts, and tensors of 32-bit floats."""

    def text(value: bytes) -> bytes:
        return struct.pack("<Q", len(value)) + value

    head = b"GGUF" + struct.pack("<IQQ", 3, tensors, 2)
    head += text(b"general.architecture") + struct.pack("<I", 8) + text(b"qwen2")
    head += text(b"tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text(b"a") + text(b"b")
    for number in range(tensors):
        head += text(b"t%d" % number) + struct.pack("<IQIQ", 1, size // 4, 0, number * size)
    return head + bytes(-len(head) % 32) + bytes(tensors * size)


def put(name: str, content: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    return change


def cut(name: str, most: int) -> Callable[[Path], None]:
    return lambda folder: put(name, (folder / name).read_bytes()[:most])(folder)


def drop(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def link(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to("../../blobs/none")

    return change


# What is done to a whole model, and what is said then.
CASES: list[tuple[Callable[[Path], None], list[str]]] = [
    (lambda folder: None, []),
    (put(FIRST, POINTER), [f"model_pointer {FIRST}"]),
    (put("tokenizer.json", POINTER), ["model_pointer tokenizer.json"]),
    (put(FIRST, PAGE), [f"model_page {FIRST}"]),
    (put("config.json", PAGE), ["model_page config.json"]),
    (put("config.json", b'{"a": '), ["model_no_json config.json"]),
    (put(FIRST, b""), [f"model_empty {FIRST}"]),
    (put("merges.txt", b""), []),
    (put(FIRST, b"\x10"), [f"model_no_safetensors {FIRST}"]),
    (put(FIRST, struct.pack("<Q", 4) + b"null"), [f"model_no_safetensors {FIRST}"]),
    (put(FIRST, struct.pack("<Q", 1 << 62)), [f"model_no_safetensors {FIRST}"]),
    (cut(FIRST, 60), [f"model_cut_off {FIRST}"]),
    (cut(FIRST, 100), [f"model_cut_off {FIRST}"]),
    (drop(SECOND), [f"model_lacks {INDEX}"]),
    (drop(INDEX), []),
    (put(INDEX, b"[]"), [f"model_no_index {INDEX}"]),
    (link(SECOND), [f"model_link {SECOND}"]),
    (drop("config.json"), ["model_no_config model"]),
    (drop("tokenizer.json"), ["model_no_tokenizer model"]),
    # Whole all the same: what an earlier try left of a file that is there, a clone's own folder, weights of another format.
    (put(f".cache/huggingface/download/{FIRST}.0123.incomplete", b"x"), []),
    (put(f"{FIRST}.part", b"x"), []),
    (put(f"._____temp/{FIRST}", b"x"), []),
    (put(".git/lfs/incomplete/1", b"x"), []),
    (put("pytorch_model.bin", b"x"), []),
    (put("a.gguf", b"no"), []),
    (put(f"{FIRST}.aria2", b"x"), [f"model_unfinished {FIRST}.aria2"]),
    (put("model-2.safetensors.part", b"x"), ["model_unfinished model-2.safetensors.part"]),
    (put("._____temp/model-2.safetensors", b"x"), ["model_unfinished model-2.safetensors"]),
    (put(".model-2.safetensors.Xy12Zb", b"x"), ["model_unfinished .model-2.safetensors.Xy12Zb"]),
]


def test_each_way_to_be_broken_is_named(tmp_path: Path) -> None:
    def check(case: tuple[int, Callable[[Path], None], list[str]]) -> None:
        number, change, expected = case
        folder = model(tmp_path / str(number))
        change(folder)
        assert codes(folder, tokenizer=True) == expected

    check_each({f"case {number}": (number, *case) for number, case in enumerate(CASES)}, check)


def test_all_that_is_wrong_is_said_at_once_with_the_origin(tmp_path: Path) -> None:
    """A clone without LFS: every weight is a pointer. The remedy names the repository, without the user's password."""
    folder = model(tmp_path)
    put(FIRST, POINTER)(folder)
    put(SECOND, POINTER)(folder)
    put(".git/config", b'[remote "origin"]\n\turl = https://me:secret@huggingface.co/Qwen/Qwen2.5-7B\n')(folder)
    with pytest.raises(model_check.ModelError) as raised:
        model_check.require_model(str(folder), listed(str(folder)), True, True)
    for language in LANGUAGES:
        text = reason(raised.value, language)
        assert [word in text for word in (FIRST, SECOND, "4943162336", "git lfs pull", "secret")] == [True] * 4 + [
            False
        ]
        assert "https://huggingface.co/Qwen/Qwen2.5-7B" in text


def test_a_tokenizer_has_many_names(tmp_path: Path) -> None:
    names = ["tokenizer.model", "tekken.json", "vocab.json", "qwen.tiktoken", "tokenizer.model.v3", "sub/vocab.txt"]
    folder = model(tmp_path)
    drop("tokenizer.json")(folder)
    put("tokenizer_config.json", b"{}")(folder)
    assert codes(folder, tokenizer=True) == ["model_no_tokenizer model"]
    for name in names:
        put(name, b"{}")(folder)
        assert codes(folder, tokenizer=True) == [], name
        drop(name)(folder)


def test_a_shard_is_missed_without_an_index(tmp_path: Path) -> None:
    folder = model(tmp_path)
    drop(INDEX)(folder)
    drop(FIRST)(folder)
    assert codes(folder) == [f"model_lacks {SECOND}"]
    [gap] = model_check.gaps(listed(str(folder)))
    assert (gap["code"], gap["values"]["files"]) == ("model_lacks", FIRST)


def test_the_cache_of_a_hub_is_not_the_model(tmp_path: Path) -> None:
    cache = tmp_path / "models--Qwen--Qwen2.5-7B"
    write_model(cache / "snapshots/abc")
    (cache / "blobs").mkdir()
    put("refs/main", b"abc")(cache)
    [wrong] = model_check.model_problems(str(cache), listed(str(cache)))
    assert (wrong["code"], wrong["values"]["snapshot"]) == ("model_cache", str(cache / "snapshots/abc"))
    assert model_check.origin_of(str(cache)) == "Qwen/Qwen2.5-7B"
    (cache / "refs/main").write_bytes(b"\xff")
    assert model_check.model_problems(str(cache), [])[0]["values"]["snapshot"] == str(cache / "snapshots/abc")


def test_gguf_files_tell_where_they_end(tmp_path: Path) -> None:
    whole = gguf()
    said = {}
    for length in (len(whole), len(whole) - 1, len(whole) - 128, 90, 20, 4, 3):
        put("m.gguf", whole[:length])(tmp_path)
        said[length - len(whole)] = codes(tmp_path, tokenizer=True)
    assert said[0] == []
    assert said[-1] == said[-128] == ["model_cut_off m.gguf"]
    assert said[90 - len(whole)] == said[20 - len(whole)] == said[4 - len(whole)] == ["model_no_end m.gguf"]
    assert said[3 - len(whole)] == ["model_no_gguf m.gguf"]


def test_weights_of_torch_end_with_their_list(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with zipfile.ZipFile(tmp_path / "pytorch_model.bin", "w") as archive:
        archive.writestr("data", "x" * 200)
    assert codes(tmp_path) == []
    cut("pytorch_model.bin", 150)(tmp_path)
    assert codes(tmp_path) == ["model_no_end pytorch_model.bin"]
    put("pytorch_model.bin.index.json", json.dumps({"weight_map": {"a": "b.bin"}}).encode())(tmp_path)
    assert "model_lacks pytorch_model.bin.index.json" in codes(tmp_path)


def test_garbage_makes_nothing_fail(tmp_path: Path) -> None:
    """Every name with every beginning: something is said, or nothing, and never an exception."""
    contents = [
        b"",
        b"\0" * 40,
        b"\xff" * 40,
        POINTER,
        PAGE,
        b"[" * 20000,
        b"GGUF" + b"\xff" * 60,
        b"PK\x03\x04",
        b'{"weight_map": 3}',
    ]
    for name in ("m.safetensors", INDEX, "m.gguf", "m.bin", "config.json", "tokenizer.json"):
        for number, content in enumerate(contents):
            folder = tmp_path / f"{name}{number}"
            put(name, content)(folder)
            codes(folder, tokenizer=True)
