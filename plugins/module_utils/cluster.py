# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why the hosts of a deployment form no cluster, told host by host."""

from __future__ import annotations

import re
from typing import Any, Callable, Iterator, Mapping

TEXTS: dict[str, dict[str, str]] = {
    "lost": {
        "en": "{host} failed or did not answer earlier in this run, and the plan of its deployment needs it. Its own message above says why.",
        "zh": "{host} 在本次运行中已失败或无响应，而其部署的计划需要它。原因见上文中它自己的消息。",
    },
    "no_ray": {
        "en": "{host}: the image holds no Ray ({found}). Set vllm_executor to mp (vLLM 0.11.1 and later), or take an image with Ray.",
        "zh": "{host}：镜像中没有 Ray（{found}）。将 vllm_executor 设为 mp（vLLM 0.11.1 及以上），或使用带 Ray 的镜像。",
    },
    "versions": {
        "en": "{host} would run {found}, and the head {head} runs {wanted}. All hosts need the same: bring the same image there"
        " (playbooks/images.yml).",
        "zh": "{host} 将运行 {found}，而头节点 {head} 为 {wanted}。所有主机必须一致：在该主机上加载同一镜像（playbooks/images.yml）。",
    },
    "absent_unreachable": {
        "en": "{host} does not answer the controller",
        "zh": "{host} 不响应控制端",
    },
    "absent_no_container": {
        "en": "{host} has no container {container}",
        "zh": "{host} 上没有容器 {container}",
    },
    "absent_version": {
        "en": "{host} runs another release of Ray or Python than the head: {line}",
        "zh": "{host} 的 Ray 或 Python 版本与头节点不同：{line}",
    },
    "absent_token": {
        "en": "{host} has another Ray token than the head: run playbooks/serve.yml for all hosts of the deployment, without --limit",
        "zh": "{host} 的 Ray 令牌与头节点不同：对该部署的所有主机运行 playbooks/serve.yml，不加 --limit",
    },
    "absent_no_way_to_head": {
        "en": "{host} does not reach the head's port {head}: a firewall, or a network that does not carry it"
        " (llm_cluster_network, ray_port)",
        "zh": "{host} 无法访问头节点端口 {head}：防火墙，或所选网络不通（llm_cluster_network、ray_port）",
    },
    "absent_no_way_back": {
        "en": "the head does not reach port {port} of {host} ({address}), though {host} reaches the head: a firewall in one direction"
        " (ray_node_manager_port)",
        "zh": "{host} 可访问头节点，但头节点无法访问 {host}（{address}）的端口 {port}：防火墙单向拦截（ray_node_manager_port）",
    },
    "absent_address": {
        "en": "{host} joined with the address {found}, and {address} was agreed: see llm_cluster_network and llm_cluster_interface",
        "zh": "{host} 以地址 {found} 加入，而约定的是 {address}：见 llm_cluster_network 与 llm_cluster_interface",
    },
    "absent_gpus": {
        "en": "{host} joined with {found} GPUs, and the plan counts {wanted}",
        "zh": "{host} 加入时有 {found} 块 GPU，而计划为 {wanted} 块",
    },
    "absent_unknown": {
        "en": "{host} did not join; its container is {state}",
        "zh": "{host} 未加入；其容器状态为 {state}",
    },
    "absent_log": {"en": "the end of its log", "zh": "其日志末尾"},
}
LOG_LINES = 8


def cluster_problems(found: Mapping[str, Any], language: str = "en") -> list[str]:
    """A text for each problem. ``found`` holds what was looked at: any of the keys of ``CHECKS``."""
    return [text for name, check in CHECKS.items() if found.get(name) for text in check(found[name], language)]


def _text(code: str, lang: str, **values: Any) -> str:
    return TEXTS[code][lang].format(**values)


def _lost(hosts: list[str], lang: str) -> Iterator[str]:
    """Hosts of the plan that this run has lost already."""
    for host in hosts:
        yield _text("lost", lang, host=host)


def _versions(look: Mapping[str, Any], lang: str) -> Iterator[str]:
    """``{head, hosts: {host: {ray, python}}}``; ray is empty where the image has none."""
    told: dict[str, str] = {}
    for host, found in look["hosts"].items():
        told[host] = "Ray {0}, Python {1}".format(found.get("ray"), found.get("python"))
        if not found.get("ray"):
            yield _text("no_ray", lang, host=host, found="Python {0}".format(found.get("python")))
    head = look["head"] if look["head"] in told else min(told, default="")
    for host, text in told.items():
        if text != told[head] and look["hosts"][host].get("ray"):
            yield _text("versions", lang, host=host, found=text, head=head, wanted=told[head])


def _absent(look: Mapping[str, Any], lang: str) -> Iterator[str]:
    """``{head, port, planned: {host: gpus}, joined: [{host, address, gpus}], addresses: {host: address}, logs, states, forth, back}``.

    The last four are the results of tasks that looped over the missing hosts: the end of the container's log and its state, and
    a try to connect from the host to the head, and back.
    """
    joined = {node["host"]: node for node in look["joined"]}
    results = {kind: {entry["item"]: entry for entry in look[kind]} for kind in ("logs", "states", "forth", "back")}
    for host, gpus in look["planned"].items():
        node = joined.get(host)
        address = look["addresses"].get(host)
        values = {
            "host": host,
            "head": look["head"],
            "port": look["port"],
            "address": address,
            "container": "llm-ray",
            "wanted": gpus,
        }
        if node is None:
            mine = {kind: results[kind].get(host) or {} for kind in results}
            yield _why_absent(values, mine, lang)
        elif address and node["address"] != address:
            yield _text("absent_address", lang, found=node["address"], **values)
        elif node["gpus"] != gpus:
            yield _text("absent_gpus", lang, found=node["gpus"], **values)


def _why_absent(values: dict[str, Any], results: Mapping[str, Mapping[str, Any]], lang: str) -> str:
    log = [str(results["logs"].get(stream) or "") for stream in ("stdout", "stderr")]
    lines = "\n".join(log).strip().splitlines()
    state = str(results["states"].get("stdout") or "").strip()
    mismatch = next((line.strip() for line in lines if "Version mismatch" in line), "")
    # The first that is true is the cause; those below it would only follow from it. A connection that failed has a message.
    causes: list[tuple[str, bool]] = [
        ("absent_unreachable", bool(results["states"].get("unreachable"))),
        ("absent_no_container", not state),
        ("absent_version", bool(mismatch)),
        ("absent_token", any(re.search("authenticat|InvalidAuthToken", line, re.IGNORECASE) for line in lines)),
        ("absent_no_way_to_head", "msg" in results["forth"]),
        ("absent_no_way_back", "msg" in results["back"]),
        ("absent_unknown", True),
    ]
    code = next(code for code, true in causes if true)
    told = [_text(code, lang, state=state, line=mismatch, **values)]
    if lines:
        told += ["  {0}:".format(_text("absent_log", lang)), *["    " + line for line in lines[-LOG_LINES:]]]
    return "\n".join(told)


CHECKS: dict[str, Callable[[Any, str], Iterator[str]]] = {
    "lost": _lost,
    "versions": _versions,
    "absent": _absent,
}
