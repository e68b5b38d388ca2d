# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs as people write them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._gpu import PRODUCTS
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import LANGUAGES, reason
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.cards import (
    Card,
    cards,
    declared_gpus,
    find_card,
    read_fleet,
    read_gpus_line,
    said_fleet,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.gpus import GPUS
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import read_gpu

# Cards of a few customers: what the driver keeps for itself is not known.
TAKEN_AS_THEY_ARE = ("NVIDIA A100-SXM-64GB", "NVIDIA H20-3e")


def test_every_card_is_one_that_the_planner_knows() -> None:
    assert len(cards()) > 60
    for card in cards():
        row = next(row for row in GPUS if row[0].upper() in card.name.upper())
        assert card.compute_capability == "{}.{}".format(*row[1])
        if card.name not in TAKEN_AS_THEY_ARE:
            assert card.memory_mib in row[3], card.name
        assert read_gpu(card.as_gpu(), "gpu").name == card.name


def test_the_capabilities_of_both_tables_agree() -> None:
    for product in PRODUCTS.values():
        for card in cards():
            if card.name == product.name:
                assert card.compute_capability == product.compute_capability


@pytest.mark.parametrize("card", cards(), ids=lambda card: f"{card.name}-{card.memory_mib}")
def test_a_card_is_found_by_the_name_that_nvidia_smi_prints(card: Card) -> None:
    same = [one for one in cards() if one.name == card.name]
    text = card.name if same[0] == card else f"{card.name} {card.memory_mib / 1024:.0f}GB"
    assert find_card(text) == card


@pytest.mark.parametrize(
    ("text", "name", "memory_mib"),
    [
        ("RTX 4090", "NVIDIA GeForce RTX 4090", 24564),
        ("rtx4090", "NVIDIA GeForce RTX 4090", 24564),
        ("4090", "NVIDIA GeForce RTX 4090", 24564),
        ("4090D", "NVIDIA GeForce RTX 4090 D", 24564),
        ("4090 48G", "NVIDIA GeForce RTX 4090", 49140),
        ("2080Ti", "NVIDIA GeForce RTX 2080 Ti", 11264),
        ("2080 Ti 22 GB", "NVIDIA GeForce RTX 2080 Ti", 22528),
        ("A6000", "NVIDIA RTX A6000", 49140),
        ("RTX A6000", "NVIDIA RTX A6000", 49140),
        ("RTX 6000 Ada", "NVIDIA RTX 6000 Ada Generation", 49140),
        ("RTX PRO 6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887),
        ("V100-PCIE-16GB", "Tesla V100-PCIE-16GB", 16384),
        ("V100 16GB", "Tesla V100-PCIE-16GB", 16384),
        ("v100-32g", "Tesla V100-PCIE-32GB", 32768),
        ("V100 SXM2 32GB", "Tesla V100-SXM2-32GB", 32768),
        ("A100 80GB", "NVIDIA A100 80GB PCIe", 81920),
        ("A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", 40960),
        ("H100", "NVIDIA H100 PCIe", 81559),
        ("H100 80GB HBM3", "NVIDIA H100 80GB HBM3", 81559),
        ("H100 NVL", "NVIDIA H100 NVL", 95830),
        ("T4", "Tesla T4", 15360),
        ("L40", "NVIDIA L40", 46068),
        ("L40S", "NVIDIA L40S", 46068),
    ],
)
def test_a_short_name_is_understood(text: str, name: str, memory_mib: int) -> None:
    found = find_card(text)
    assert isinstance(found, Card)
    assert (found.name, found.memory_mib) == (name, memory_mib)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("V100", "input_card_which", "Tesla V100-PCIE-16GB (16384 MiB)"),
        ("A100", "input_card_which", "'A100 80GB'"),
        ("6000", "input_card", "NVIDIA RTX 6000 Ada Generation"),
        ("RTX 9999", "input_card", "RTX"),
        ("V100 24GB", "input_card", "V100"),
        ("MI300X", "input_card", "llm_gpus"),
        ("GPU", "input_card", "nvidia-smi"),
    ],
)
def test_another_name_gets_the_nearest(text: str, code: str, said: str) -> None:
    found = find_card(text)
    assert not isinstance(found, Card)
    assert found.code == code
    assert said in found.say("en")
    assert found.say("zh")


@pytest.mark.parametrize(
    ("text", "sizes", "names"),
    [
        ("3 x 2 Tesla V100-PCIE-16GB", [2, 2, 2], ["Tesla V100-PCIE-16GB"]),
        ("3x2 V100-PCIE-16GB", [2, 2, 2], ["Tesla V100-PCIE-16GB"]),
        ("3 × 2 × 4090", [2, 2, 2], ["NVIDIA GeForce RTX 4090"]),
        ("2 * 1 A6000", [1, 1], ["NVIDIA RTX A6000"]),
        ("2 x 4 RTX 4090 + 1 x 2 RTX A6000", [4, 4, 2], ["NVIDIA GeForce RTX 4090", "NVIDIA RTX A6000"]),
        ("1 X 1 T4, 1 X 1 L4", [1, 1], ["Tesla T4", "NVIDIA L4"]),
    ],
)
def test_a_fleet_is_read(text: str, sizes: list[int], names: list[str]) -> None:
    fleet = read_fleet(text)
    assert [len(host) for host in fleet] == sizes
    assert list(dict.fromkeys(gpu["name"] for host in fleet for gpu in host)) == names
    assert set(fleet[0][0]) == {"name", "memory_mib", "compute_capability"}


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("", ["input_fleet"]),
        ("RTX 4090", ["input_fleet"]),
        ("3 x 2", ["input_fleet"]),
        ("8 8 H100", ["input_fleet"]),
        ("2 x RTX 4090", ["input_fleet_number"]),
        ("3 x 4090", ["input_fleet_number"]),
        ("0 x 2 4090", ["input_fleet_size"]),
        ("1 x 65 4090", ["input_fleet_size"]),
        ("9999 x 1 4090", ["input_fleet_size"]),
        ("1 x 1 V100", ["input_card_which"]),
        ("1 x 1 foo + 2 x 4090 + 1 x 1 T4", ["input_card", "input_fleet_number"]),
    ],
)
def test_a_fleet_that_cannot_be_read_is_refused_with_all_that_is_wrong(text: str, codes: list[str]) -> None:
    with pytest.raises(InputError) as refused:
        read_fleet(text)
    why = refused.value.why
    found = [fault.code for fault in why.values["faults"]] if why.code == "input_faults" else [why.code]
    assert found == codes
    for lang in LANGUAGES:
        assert reason(refused.value, lang).startswith("llm_fleet")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("2 x Tesla V100-PCIE-16GB", ["Tesla V100-PCIE-16GB"] * 2),
        ("1 4090", ["NVIDIA GeForce RTX 4090"]),
        ("1 x 4090 + 1 x A6000", ["NVIDIA GeForce RTX 4090", "NVIDIA RTX A6000"]),
    ],
)
def test_the_gpus_of_a_host_are_one_line(text: str, names: list[str]) -> None:
    assert [gpu["name"] for gpu in read_gpus_line(text)] == names
    assert declared_gpus(text) == read_gpus_line(text)


@pytest.mark.parametrize("text", ["4090", "x", "0 x 4090", "2 x 2 x 4090", "65 x T4", "2 x nothing"])
def test_a_line_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"gpu01\.llm_gpus"):
        read_gpus_line(text, "gpu01.llm_gpus")


@pytest.mark.parametrize("value", [None, [], [{"name": "any", "memory_mib": 8192, "compute_capability": "8.6"}]])
def test_a_list_of_gpus_stays_as_it_is(value: Any) -> None:
    assert declared_gpus(value) == list(value or [])


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({}, ""),
        ({"_raw_params": "x 2 T4"}, ""),
        ({"llm_fleet": "3", "_raw_params": "x 2 Tesla V100-PCIE-16GB"}, "3 x 2 Tesla V100-PCIE-16GB"),
        ({"llm_fleet": "2x4", "_raw_params": "RTX 4090 + 1 x 2 RTX A6000"}, "2x4 RTX 4090 + 1 x 2 RTX A6000"),
        ({"llm_fleet": "3 x 2 T4", "_raw_params": "other"}, "3 x 2 T4"),
        ({"llm_fleet": 3, "_raw_params": None}, "3"),
    ],
)
def test_what_ansible_cuts_off_the_command_line_is_put_back(variables: dict[str, Any], text: str) -> None:
    assert said_fleet(variables) == text


@pytest.mark.parametrize(
    "text", ["9" * 5000 + " x 1 V100", "1 x " + "9" * 5000 + " V100", "² x 2 V100", "1 x 2 V100 " + "9" * 5000 + "GB"]
)
def test_numbers_that_python_does_not_read_are_refused(text: str) -> None:
    with pytest.raises(InputError) as error:
        read_fleet(text)
    assert reason(error.value, "zh")
