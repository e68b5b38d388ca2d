"""What a lie or damage puts in the place of a value, and everywhere that it may stand."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

# Values that programs stumble over, each for another reason, as JSON has them.
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 7, 1 << 70, 10**30, 1.5, -0.0, 1e300, float("inf"), float("nan")),
    *(
        "",
        " ",
        "x",
        "²",
        "１２",
        "-1",
        "1e999",
        "nan",
        "9" * 5000,
        "a\nb",
        "a\0b",
        "\ud800",
        "a\u202eb",
        "../../x",
        "/",
    ),
    *([], {}, [None], [[]], ["x"], [7], {"": None}, {"a": {"b": []}}, {"x": 1}),
)
JUNK = st.sampled_from(ODD) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
# And YAML besides.
YAML_JUNK = JUNK | st.sampled_from((datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1, 1, 1), b"\xff", {1, 2}))

# Files that somebody damaged, or made to do harm, by what is wrong with them.
DAMAGED: dict[str, bytes] = {
    "nothing": b"",
    "binary": b"\xff\xfe\x00",
    "with a mark of its order": b"\xef\xbb\xbf{}",
    "cut off": b'{"format": 1, "a": [',
    "lists within lists": b"[" * 3000 + b"]" * 3000,
    "objects within objects": b'{"a":' * 3000 + b"1" + b"}" * 3000,
    "nested as deep as Python reads": b'{"format": 1, "a": ' + b"[" * 400 + b"]" * 400 + b"}",
    "a number of 5000 digits": b'{"format": 1, "a": ' + b"9" * 5000 + b"}",
    **{
        f"{text} alone": text.encode()
        for text in ("null", "true", "7", "1e999", "NaN", '"x"', '"\\ud800"', "[1]", "{}")
    },
    "no texts": b'{"format": 1, "a": null, "b": [[]], "c": {"d": 7}}',
}

Place = tuple[str | int, ...]


def places(value: Any, above: Place = ()) -> Iterator[Place]:
    """Where something else can stand in a value: itself first."""
    yield above
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from places(inner, (*above, key))


def replaced(value: Any, place: Place, other: Any) -> Any:
    """A copy with something else in one place."""
    if not place:
        return other
    found = copy.deepcopy(value)
    at = found
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = other
    return found


def without(value: Any, place: Place) -> Any:
    """A copy without what is in one place."""
    found = copy.deepcopy(value)
    at = found
    for key in place[:-1]:
        at = at[key]
    del at[place[-1]]
    return found
