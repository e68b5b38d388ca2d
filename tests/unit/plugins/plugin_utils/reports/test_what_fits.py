# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of what fits."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.cards import read_fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.columns import width
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.what_fits import fits_lines

MODELS = ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-14B-Instruct", "Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen3-8B-AWQ")


def lines(fleet: str, language: str = "en") -> list[str]:
    hosts = [(f"gpu{number:02}", gpus) for number, gpus in enumerate(read_fleet(fleet), 1)]
    return fits_lines(hosts, language, MODELS)


def test_a_kind_of_hosts_has_a_table_and_what_does_not_fit() -> None:
    assert lines("3 x 2 V100-PCIE-16GB")[:9] == [
        "3 hosts with 2 x Tesla V100-PCIE-16GB each (gpu01, gpu02, gpu03), vLLM 0.8.5.post1",
        "model                      precision   weights          GPUs  copies          context  at once",
        "-------------------------  ---------  --------  ------------  ------  ---------------  -------",
        "Qwen/Qwen2.5-14B-Instruct  float16    27.6 GiB             2       3  4,352 of 32,768        2",
        "Qwen/Qwen2.5-14B-Instruct  float16    27.6 GiB  6 on 3 hosts       1           32,768        6",
        "Qwen/Qwen2.5-7B-Instruct   float16    14.3 GiB             2       3           32,768        4",
        "Needs more memory with vLLM: Qwen/Qwen2.5-72B-Instruct",
        "These GPUs cannot compute its format: Qwen/Qwen3-8B-AWQ",
        "",
    ]


def test_columns_are_aligned_in_chinese_too() -> None:
    said = lines("3 x 2 V100-PCIE-16GB", "zh")
    table = said[1:6]
    assert len({width(line) for line in table}) == 1
    assert said[0] == "3 台主机（gpu01, gpu02, gpu03），每台 2 x Tesla V100-PCIE-16GB，vLLM 0.8.5.post1"
    assert any(line.startswith("vLLM 需要更多显存：") for line in said)


def test_each_kind_has_its_own_table() -> None:
    said = lines("2 x 4 RTX 4090 + 1 x 2 RTX A6000")
    titles = [line for line in said if ", vLLM " in line]
    assert [title.split(",")[0] for title in titles] == [
        "2 hosts with 4 x NVIDIA GeForce RTX 4090 each (gpu01",
        "gpu03 with 2 x NVIDIA RTX A6000",
    ]


def test_cards_without_a_release_and_cards_that_hold_nothing() -> None:
    assert "no release of vLLM has code for compute capability 6.1" in lines("1 x 1 P40")[0]
    assert not [line for line in lines("1 x 1 P40") if "A plan for one of them" in line], "there is none of them"
    assert [line for line in lines("1 x 1 RTX A6000") if "A plan for one of them" in line]
    small = lines("1 x 1 RTX 4060")
    assert any("Needs more memory" in line for line in small)


def test_little_to_spare_is_said() -> None:
    hosts = [("gpu01", read_fleet("1 x 1 V100-PCIE-16GB")[0])]
    said = fits_lines(hosts, "en", ["meta-llama/Llama-3.1-8B-Instruct"])
    assert any("of 131,072, narrowly" in line for line in said)
