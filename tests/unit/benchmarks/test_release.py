"""A wheel says which rows a release adds to the tables."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.options import OPTIONS, sampled
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.releases import RELEASES

from benchmarks.release import DATA, Wheel, changes

FILES = {
    "vllm/engine/arg_utils.py": """
class EngineArgs:
    brand_new: int = 3
def add(parser):
    parser.add_argument("--brand-new", type=int)
    parser.add_argument("--max-model-len")
""",
    "vllm/entrypoints/launchers/cli_args.py": """
class FrontendArgs:
    shiny: list[str] | None = None
    host: str | None = None
""",
    "vllm/model_executor/models/registry.py": """
_TEXT_GENERATION_MODELS = {"NewForCausalLM": ("new", "NewForCausalLM"), "LlamaForCausalLM": ("llama", "LlamaForCausalLM")}
_MULTIMODAL_MODELS = {"SeeingForConditionalGeneration": ("seeing", "Seeing")}
""",
    "vllm/model_executor/models/new.py": "class NewForCausalLM(Module, SupportsPP): ...\nclass Seeing(NewForCausalLM, SupportsLoRA): ...",
    "vllm/model_executor/models/llama.py": "class LlamaForCausalLM(Module, SupportsLoRA, SupportsPP): ...",
    "vllm/envs.py": 'environment_variables = {"VLLM_BRAND_NEW": lambda: 1, "VLLM_API_KEY": lambda: 2}',
    "vllm/elsewhere.py": 'import os\nos.environ.get("VLLM_READ_ELSEWHERE")',
    "vllm/model_executor/layers/quantization/__init__.py": 'QuantizationMethods = Literal["awq", "int3_new"]',
    "vllm/v1/metrics/loggers.py": 'Gauge(name="vllm:num_requests_running")',
}


def wheel(folder: Path, version: str, torch: str = "==2.99.0") -> Wheel:
    path = folder / f"vllm-{version}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in FILES.items():
            archive.writestr(name, text)
        archive.writestr(
            f"vllm-{version}.dist-info/METADATA",
            f'Version: {version}+cpu\nRequires-Python: <3.15,>=3.10\nRequires-Dist: torch{torch}+cpu; platform_machine == "x86_64"\n',
        )
    return Wheel(path)


def test_a_new_release_is_rows_for_each_table(tmp_path: Path) -> None:
    found = changes(wheel(tmp_path, "9.9.0"))
    newest = list(RELEASES)[-1]
    assert f"add:  brand_new int 9.9.0 {newest} - -" in found[f"{DATA}/options.py"]
    assert f"add:  shiny list 9.9.0 {newest} - -" in found[f"{DATA}/options.py"]
    assert "gone in 9.9.0: kv_cache_dtype" in found[f"{DATA}/options.py"]
    assert not [line for line in found[f"{DATA}/options.py"] if line.endswith((" host", " max_model_len"))]
    assert "add:  NewForCausalLM text 9.9.0 - 9.9.0 -" in found[f"{DATA}/registry.py"]
    assert "add:  SeeingForConditionalGeneration multimodal 9.9.0 - 9.9.0 9.9.0" in found[f"{DATA}/registry.py"]
    assert "gone in 9.9.0: Qwen3ForCausalLM" in found[f"{DATA}/registry.py"]
    assert not [line for line in found[f"{DATA}/registry.py"] if "LlamaForCausalLM" in line.split()]
    assert found[f"{DATA}/environment.py"][:2] == ["add:  BRAND_NEW 9.9.0 -", "add:  READ_ELSEWHERE 9.9.0 -"]
    assert "gone in 9.9.0: VLLM_API_KEY" not in found[f"{DATA}/environment.py"]
    assert "add:  int3_new|?|9.9.0|-|9.9.0:?|9.9.0:?" in found[f"{DATA}/quantization.py"]
    [release] = found[f"{DATA}/releases.py"]
    assert re.fullmatch(r"9\.9\.0\|\d{4}-\d\d-\d\d\|V1\|\?\|\?\|2\.99\.0\|-\|\? \(<3\.15\)\|\?\|\?\|\?\|serve", release)
    [metrics] = [lines for file, lines in found.items() if file.endswith("vllm/metrics.yml")]
    assert not [line for line in metrics if "requests_running" in line]
    assert [line for line in metrics if "requests_waiting" in line]


@pytest.mark.parametrize("name", ["brand_new", "shiny"])
def test_an_option_that_the_tables_know_is_no_row(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPTIONS, name, ("int", "9.9.0", None, None))
    lines = changes(wheel(tmp_path, "9.9.0"))[f"{DATA}/options.py"]
    assert not [line for line in lines if name in line.split()]


def test_a_release_that_has_a_name_before_the_tables_do_corrects_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sampled()["uvicorn_log_level"][1] == "0.4.2"
    monkeypatch.setitem(
        FILES,
        "vllm/engine/arg_utils.py",
        FILES["vllm/engine/arg_utils.py"] + '    parser.add_argument("--uvicorn-log-level")\n',
    )
    lines = changes(wheel(tmp_path, "0.4.1"))[f"{DATA}/options.py"]
    assert "since 0.4.1 at the latest: uvicorn_log_level" in lines
