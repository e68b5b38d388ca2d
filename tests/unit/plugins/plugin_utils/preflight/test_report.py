"""What preflight found, as people read it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.report import text, together


def finding(host: str, value: str = "5.10", **more: Any) -> dict[str, Any]:
    said = {
        "what": f"The kernel of the host {host} is old.",
        "value": value,
        "where": "nowhere",
        "allowed": f"a newer one on {host}",
    }
    return {"code": "kernel_too_old", **said, "hosts": [host], **more}


def test_findings_that_differ_by_their_host_alone_are_one() -> None:
    said = together([finding("gpu1"), finding("gpu10"), finding("gpu2", "4.19"), finding("gpu3")], "en")
    assert [entry["what"] for entry in said] == [
        "The kernel of the host gpu1 is old.\nThe same is true of gpu10, gpu3.",
        "The kernel of the host gpu2 is old.",
    ]
    assert said[0]["allowed"] == "a newer one on gpu1"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (finding("gpu1"), finding("gpu2", code="other")),
        (finding("gpu1"), finding("gpu2", where="group_vars")),
        # About several hosts at once, and about none.
        (finding("gpu1", hosts=["gpu1", "gpu2"]), finding("gpu2", hosts=["gpu1", "gpu2"])),
        (finding("gpu1", hosts=[]), finding("gpu2", hosts=[])),
        # A name that is a part of another word.
        (finding("gpu1", value="gpu1-x"), finding("gpu2", value="gpu2-x")),
    ],
)
def test_what_differs_in_more_is_said_apart(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert len(together([first, second], "en")) == 2


@pytest.mark.parametrize(("language", "also"), [("en", "The same is true of gpu2."), ("zh", "gpu2 也是如此。")])
def test_the_header_counts_what_is_printed(language: str, also: str) -> None:
    found = text([finding("gpu1"), finding("gpu2"), finding("gpu3", "4.19")], "preflight_warnings", language)
    assert "2" in found.splitlines()[0]
    assert also in found
    assert text([], "preflight_warnings", language) == ""
