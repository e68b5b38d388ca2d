# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command of vLLM's own benchmark, `vllm bench serve`, and why it cannot run. Its figures are those of BenchmarkMetrics in vllm/benchmarks/serve.py."""

from __future__ import annotations

import posixpath

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.container import LABEL, SECURITY
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import folder_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.mounts import model_volumes, secrets_volume
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.paths import SECRETS
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import is_venv
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Benchmark
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.unit import run_once, unit_environment
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.serving import pools
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import error_text, language, message
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key

# It loads torch and the tokenizer, and holds its requests.
MEMORY = "8g"


def benchmark_section(member: Member) -> Benchmark:
    """vLLM's own benchmark of the server, from a container or a unit beside it: what that takes of memory is not the server's."""
    mine = member.variables
    tokens = {name: int(mine[f"vllm_benchmark_{name}_tokens"]) for name in ("input", "output")}
    return {
        "problem": _problem(member, sum(tokens.values())),
        "command": [
            *(_run(member) if is_venv(mine) else _docker_run(member)),
            *("-s", "--", str(mine["vllm_benchmark_timeout_seconds"])),
            _key_file(member),
            *(f"--base-url={member.url}", f"--model={member.served_model_name}", f"--tokenizer={_tokenizer(member)}"),
            *("--dataset-name=random", *(f"--random-{name}-len={count}" for name, count in tokens.items())),
            *("--ignore-eos", f"--num-prompts={mine['vllm_benchmark_requests']}"),
            f"--max-concurrency={mine['vllm_benchmark_concurrency']}",
            *("--percentile-metrics=ttft,itl", "--metric-percentiles=99", "--disable-tqdm"),
        ],
    }


def _key_file(member: Member) -> str:
    """Where the program reads the API key, or nothing where none is asked for."""
    if not member.enabled("vllm_api_key_enabled"):
        return ""
    return member.key_file if is_venv(member.variables) else f"{SECRETS}/{posixpath.basename(member.key_file)}"


def _docker_run(member: Member) -> list[str]:
    secrets = [f"--volume={secrets_volume(member)}"] if member.enabled("vllm_api_key_enabled") else []
    return [
        *("docker", "run", "--rm", "--interactive", f"--name={member.names['benchmark']}"),
        f"--label={LABEL}={member.deployment.name}",
        *("--network=host", "--userns=host", f"--user={member.deployment.user}"),
        # It computes nothing on a GPU, and some releases end where they see none: https://github.com/vllm-project/vllm/issues/23967
        *("--runtime=nvidia", "--env=NVIDIA_VISIBLE_DEVICES=all", "--env=NVIDIA_DRIVER_CAPABILITIES=utility"),
        *("--cap-drop=ALL", *(f"--security-opt={option}" for option in SECURITY), "--env=HOME=/tmp"),
        *("--env=HF_HUB_OFFLINE=1", f"--memory={MEMORY}", f"--pids-limit={member.variables['ray_pids_limit']}"),
        *secrets,
        *(f"--volume={volume}" for volume in model_volumes(member)),
        *("--entrypoint=/bin/bash", member.deployment.image),
    ]


def _run(member: Member) -> list[str]:
    seconds, path = int(member.variables["vllm_benchmark_timeout_seconds"]), unit_environment(member, {}, {})["PATH"]
    variables = {"PATH": path, "HOME": "/tmp", "HF_HUB_OFFLINE": "1"}  # its own: PrivateTmp
    begun = run_once(
        seconds,
        *(f"Environment={name}={value}" for name, value in variables.items()),
        *(f"MemoryMax={MEMORY.upper()}", f"TasksMax={member.variables['ray_pids_limit']}"),
        unit=member.names["benchmark"],
    )
    return [*begun, "/bin/bash"]


def _problem(member: Member, tokens: int) -> str:
    """Why the benchmark cannot run, or nothing."""
    lang, version = language(member.variables["llm_language"]), member.deployment.version
    where = message("where_group", lang, group=member.deployment.name)
    if release_key(version) < release_key(changes.BENCHMARK_SINCE):
        return error_text("benchmark_release", lang, version, where, since=changes.BENCHMARK_SINCE)
    if pools(member.variables.get("vllm_options") or {}):
        return error_text("benchmark_pooling", lang, str(member.variables["vllm_options"]), where)
    length = int(member.deployment.plan["settings"].get("max_model_len", tokens))
    if tokens > length:
        return error_text("benchmark_too_long", lang, str(tokens), where, length=length)
    return ""


def _tokenizer(member: Member) -> str:
    """The folder of the tokenizer on the hosts."""
    return folder_of(member.variables, str(member.variables.get("vllm_tokenizer") or member.variables["vllm_model"]))
