# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every text that this collection says to people, in English and Chinese, in one place.

A problem is refused with four things: what is wrong, the value, where to set it, and what is allowed. So a problem
code has two entries here: ``<code>`` says what, ``<code>_allowed`` says what is allowed.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

LANGUAGES = ("en", "zh")

MESSAGES: dict[str, dict[str, str]] = {
    # How problems are printed
    "problems_header_one": {
        "en": "One problem in the inventory. No host has been touched.",
        "zh": "清单中有 1 个问题。尚未改动任何主机。",
    },
    "problems_header": {
        "en": "{count} problems in the inventory. No host has been touched.",
        "zh": "清单中有 {count} 个问题。尚未改动任何主机。",
    },
    "label_value": {"en": "value:", "zh": "当前值："},
    "label_where": {"en": "where:", "zh": "设置位置："},
    "label_allowed": {"en": "allowed:", "zh": "允许："},
    "nothing": {"en": "(not set)", "zh": "（未设置）"},
    "nothing_there": {"en": "(none)", "zh": "（无）"},
    "and_more": {"en": "{names} and {count} more", "zh": "{names} 等，另有 {count} 个"},
    "where_inventory": {"en": "the inventory", "zh": "清单文件"},
    "where_group": {"en": "group_vars/{group}.yml", "zh": "group_vars/{group}.yml"},
    "where_host": {"en": "host_vars/{host}.yml", "zh": "host_vars/{host}.yml"},
    "where_command_line": {"en": "the command line (-e)", "zh": "命令行（-e）"},
    "where_group_of_inventory": {
        "en": "the inventory, group {group}",
        "zh": "清单文件，组 {group}",
    },
    "where_hosts_network": {
        "en": "the network configuration of the hosts",
        "zh": "主机的网络配置",
    },
    "unresolved": {
        "en": "Not checked, because it cannot be evaluated before the hosts are known: {name} of {hosts} ({reason})",
        "zh": "未检查（在获取主机信息之前无法求值）：{hosts} 的 {name}（{reason}）",
    },
    "inventory_not_parsed": {
        "en": "The inventory could not be read again to find the groups: {reason}",
        "zh": "无法再次读取清单以查找各组：{reason}",
    },
    # The report at the end of a playbook
    "report_deployment": {"en": "Deployment {deployment} on {hosts}", "zh": "部署 {deployment}，主机 {hosts}"},
    "report_plan": {
        "en": "plan: tensor parallel {tensor} x pipeline parallel {pipeline}, executor {executor}, {tokens} tokens of KV cache expected",
        "zh": "计划：张量并行 {tensor} × 流水线并行 {pipeline}，执行器 {executor}，预计 KV 缓存 {tokens} 个 token",
    },
    "report_rank": {"en": "rank {rank} runs on {host}", "zh": "rank {rank} 运行于 {host}"},
    "report_answer": {
        "en": "{url}, model {model}: asked {prompt!r}, it answered {answer!r} ({tokens} tokens)",
        "zh": "{url}，模型 {model}：提问 {prompt!r}，回答 {answer!r}（{tokens} 个 token）",
    },
    "report_collective": {
        "en": "all-reduce over {ranks} ranks, {backend}, measured {measured}",
        "zh": "{ranks} 个 rank 的 all-reduce，{backend}，测于 {measured}",
    },
    "report_link": {
        "en": "at best {percent} % of the slowest link's {gigabits} Gbit/s",
        "zh": "最高为最慢链路 {gigabits} Gbit/s 的 {percent}%",
    },
    "report_fabric": {
        "en": "at best {percent} % of the {gigabits} Gbit/s of {via}, the slowest between the GPUs",
        "zh": "最高为 GPU 间最慢链路 {via} 的 {gigabits} Gbit/s 的 {percent}%",
    },
    "report_stages": {"en": "How long it took", "zh": "各阶段耗时"},
    "report_total": {"en": "all of it", "zh": "总计"},
    # Types, as people write them
    "type_str": {"en": "text", "zh": "文本"},
    "type_path": {"en": "a path", "zh": "路径"},
    "type_int": {"en": "a whole number", "zh": "整数"},
    "type_float": {"en": "a number", "zh": "数字"},
    "type_bool": {"en": "true or false", "zh": "true 或 false"},
    "type_list": {"en": "a list", "zh": "列表"},
    "type_dict": {"en": "a mapping (key: value)", "zh": "映射（键: 值）"},
    # Deployments
    "no_deployments_group": {
        "en": "The inventory has no group llm_deployments, so there is no model to serve.",
        "zh": "清单中没有 llm_deployments 组，因此没有可供服务的模型。",
    },
    "no_deployments_group_near": {
        "en": "The inventory has no group llm_deployments. Is it the group {nearest}, misspelled?",
        "zh": "清单中没有 llm_deployments 组。是否把它误写成了 {nearest}？",
    },
    "no_deployments_group_near_allowed": {
        "en": "a group llm_deployments whose children are the deployments: one group per model, holding its hosts",
        "zh": "需要一个 llm_deployments 组，其子组即为各个部署：每个模型一个组，包含为其服务的主机",
    },
    "no_deployments_group_allowed": {
        "en": "a group llm_deployments whose children are the deployments: one group per model, holding the hosts that serve it",
        "zh": "需要一个 llm_deployments 组，其子组即为各个部署：每个模型一个组，包含为其服务的主机",
    },
    "no_deployment": {
        "en": "The group llm_deployments has no child group, so there is no model to serve.",
        "zh": "llm_deployments 组没有子组，因此没有可供服务的模型。",
    },
    "no_deployment_allowed": {
        "en": "one child group per model under 'children:' of llm_deployments, holding the hosts that serve it",
        "zh": "在 llm_deployments 的 children: 下为每个模型设置一个子组，包含为其服务的主机",
    },
    "hosts_outside_deployments": {
        "en": "Hosts are in llm_deployments itself but in none of its child groups, so it is not said what they serve.",
        "zh": "有主机直接位于 llm_deployments 组中，但不在其任何子组中，因此不知道它们应服务哪个模型。",
    },
    "hosts_outside_deployments_allowed": {
        "en": "move them into a child group of llm_deployments; there are: {deployments}",
        "zh": "将它们移入 llm_deployments 的某个子组；现有子组：{deployments}",
    },
    "deployment_without_host": {
        "en": "The deployment {deployment} has no host.",
        "zh": "部署 {deployment} 没有主机。",
    },
    "deployment_without_host_allowed": {
        "en": "at least one host in the group {deployment}, or no such group",
        "zh": "组 {deployment} 中至少要有一台主机，否则请删除该组",
    },
    "host_in_two_deployments": {
        "en": "The host {host} is in more than one deployment.",
        "zh": "主机 {host} 同时属于多个部署。",
    },
    "host_in_two_deployments_allowed": {
        "en": "one deployment per host: its GPUs serve one model",
        "zh": "每台主机只能属于一个部署：它的 GPU 只服务一个模型",
    },
    "duplicate_address": {
        "en": "The hosts {hosts} have the same address, so they are one machine under several names.",
        "zh": "主机 {hosts} 的地址相同，即同一台机器有多个名称。",
    },
    "duplicate_address_allowed": {
        "en": "another ansible_host for every host",
        "zh": "每台主机的 ansible_host 必须各不相同",
    },
    "head_not_in_deployment": {
        "en": "ray_head_host of the deployment {deployment} is not one of its hosts.",
        "zh": "部署 {deployment} 的 ray_head_host 不是它的主机。",
    },
    "head_not_in_deployment_allowed": {
        "en": "one of {hosts}; left out, it is the first of them",
        "zh": "可选：{hosts}；不设置时为其中第一台",
    },
    "settings_differ": {
        "en": "{name} is not the same on all hosts of the deployment {deployment}, which serve one model together.",
        "zh": "部署 {deployment} 的各主机共同服务一个模型，但它们的 {name} 不一致。",
    },
    "settings_differ_allowed": {
        "en": "one value, set once for the group {deployment}",
        "zh": "为组 {deployment} 统一设置一个值",
    },
    "served_name_two_models": {
        "en": "The deployments {deployments} have the same served model name but not the same model.",
        "zh": "部署 {deployments} 的服务模型名称相同，但模型不同。",
    },
    "served_name_two_models_allowed": {
        "en": "the same vllm_model for all replicas of '{served}', or another vllm_served_model_name",
        "zh": "「{served}」 的所有副本使用同一个 vllm_model，或更换 vllm_served_model_name",
    },
    "too_few_gpus": {
        "en": "The deployment {deployment} asks for {wanted} GPUs (tensor parallel {tensor} x pipeline parallel {pipeline}),"
        " but its hosts declare {declared}.",
        "zh": "部署 {deployment} 需要 {wanted} 块 GPU（张量并行 {tensor} × 流水线并行 {pipeline}），但其主机只声明了 {declared} 块。",
    },
    "too_few_gpus_allowed": {
        "en": "vllm_tensor_parallel_size x vllm_pipeline_parallel_size of at most {declared}, or more GPUs in llm_gpus; declared: {per_host}",
        "zh": "vllm_tensor_parallel_size × vllm_pipeline_parallel_size 不超过 {declared}，或在 llm_gpus 中声明更多 GPU；当前声明：{per_host}",
    },
    # Variables
    "unknown_variable": {
        "en": "Unknown variable {name} on {hosts}. Did you mean {nearest}?",
        "zh": "{hosts} 上有未知变量 {name}。您是否想写 {nearest}？",
    },
    "unknown_variable_allowed": {
        "en": "a variable of this collection; if {name} belongs to something else, list it in llm_foreign_variables",
        "zh": "本集合的变量；如果 {name} 属于其他软件，请将其列入 llm_foreign_variables",
    },
    "unknown_variable_no_hint": {
        "en": "Unknown variable {name} on {hosts}; names that begin with {prefix} belong to this collection.",
        "zh": "{hosts} 上有未知变量 {name}；以 {prefix} 开头的名称属于本集合。",
    },
    "unknown_variable_no_hint_allowed": {
        "en": "a variable of this collection; if {name} belongs to something else, list it in llm_foreign_variables",
        "zh": "本集合的变量；如果 {name} 属于其他软件，请将其列入 llm_foreign_variables",
    },
    "unknown_vllm_variable": {
        "en": "Unknown variable {name} on {hosts}.",
        "zh": "{hosts} 上有未知变量 {name}。",
    },
    "unknown_vllm_variable_allowed": {
        "en": "a variable of this collection; an engine option without one goes into vllm_options, here '{option}'",
        "zh": "本集合的变量；没有专门变量的引擎选项应写入 vllm_options，此处为 「{option}」",
    },
    "suspicious_variable": {
        "en": "The variable {name} on {hosts} is used by nothing here and looks like {nearest}.",
        "zh": "{hosts} 上的变量 {name} 未被使用，且与 {nearest} 非常相似。",
    },
    "suspicious_variable_allowed": {
        "en": "{nearest}; if {name} is meant for something else, list it in llm_foreign_variables",
        "zh": "{nearest}；如果 {name} 另有用途，请将其列入 llm_foreign_variables",
    },
    "missing_variable": {
        "en": "{name} is not set for the deployment {deployment}.",
        "zh": "部署 {deployment} 没有设置 {name}。",
    },
    "missing_variable_allowed": {
        "en": "{example}",
        "zh": "{example}",
    },
    "example_vllm_model": {
        "en": "the model's name or its directory on the hosts, for example Qwen/Qwen2.5-14B-Instruct",
        "zh": "模型名称或其在主机上的目录，例如 Qwen/Qwen2.5-14B-Instruct",
    },
    "example_vllm_version": {
        "en": 'the vLLM release to run, in quotes, for example "0.8.5.post1"',
        "zh": '要运行的 vLLM 版本，需加引号，例如 "0.8.5.post1"',
    },
    "wrong_type": {
        "en": "{name} on {hosts} has the wrong type.",
        "zh": "{hosts} 上的 {name} 类型不正确。",
    },
    "wrong_type_allowed": {"en": "{expected}", "zh": "{expected}"},
    "not_a_choice": {
        "en": "{name} on {hosts} has a value that does not exist.",
        "zh": "{hosts} 上的 {name} 的取值无效。",
    },
    "not_a_choice_allowed": {"en": "one of {choices}", "zh": "可选值：{choices}"},
    "not_a_choice_near": {
        "en": "{name} on {hosts} has a value that does not exist. Did you mean {nearest}?",
        "zh": "{hosts} 上的 {name} 的取值无效。您是否想写 {nearest}？",
    },
    "not_a_choice_near_allowed": {"en": "one of {choices}", "zh": "可选值：{choices}"},
    "out_of_range": {
        "en": "{name} on {hosts} is out of range.",
        "zh": "{hosts} 上的 {name} 超出范围。",
    },
    "out_of_range_allowed": {"en": "{range}", "zh": "{range}"},
    "range_from": {"en": "{low} or more", "zh": "不小于 {low}"},
    "range_between": {"en": "{low} to {high}", "zh": "{low} 到 {high}"},
    "range_above": {"en": "more than {low}, up to {high}", "zh": "大于 {low}，不超过 {high}"},
    "unknown_key": {
        "en": "{name} on {hosts} has an unknown key {key}.",
        "zh": "{hosts} 上的 {name} 含有未知的键 {key}。",
    },
    "unknown_key_allowed": {"en": "the keys {keys}", "zh": "允许的键：{keys}"},
    "missing_key": {
        "en": "{name} on {hosts} lacks the key {key}.",
        "zh": "{hosts} 上的 {name} 缺少键 {key}。",
    },
    "missing_key_allowed": {"en": "the keys {keys}", "zh": "允许的键：{keys}"},
    "version_not_quoted": {
        "en": "{name} on {hosts} is a number, not text: YAML drops its last zero, so 0.10 becomes 0.1.",
        "zh": "{hosts} 上的 {name} 是数字而不是文本：YAML 会去掉末尾的零，0.10 会变成 0.1。",
    },
    "version_not_quoted_allowed": {
        "en": 'the version in quotes, for example {name}: "0.10.0"',
        "zh": '带引号的版本号，例如 {name}: "0.10.0"',
    },
    "version_malformed": {
        "en": "{name} on {hosts} is not a version.",
        "zh": "{hosts} 上的 {name} 不是版本号。",
    },
    "version_malformed_allowed": {
        "en": 'a release\'s full version without a leading v, for example "0.8.5.post1"',
        "zh": '完整的版本号，不带前缀 v，例如 "0.8.5.post1"',
    },
    "model_is_url": {
        "en": "vllm_model of the deployment {deployment} is a URL.",
        "zh": "部署 {deployment} 的 vllm_model 是一个 URL。",
    },
    "model_is_url_allowed": {
        "en": "the model's name alone ({suggestion}) or its directory on the hosts",
        "zh": "仅填写模型名称（{suggestion}）或其在主机上的目录",
    },
    "option_has_variable": {
        "en": "vllm_options of {hosts} sets {key}, which has a variable of its own.",
        "zh": "{hosts} 的 vllm_options 设置了 {key}，但它有专门的变量。",
    },
    "option_has_variable_allowed": {
        "en": "set {variable} instead and take {key} out of vllm_options",
        "zh": "请改为设置 {variable}，并从 vllm_options 中删除 {key}",
    },
    "option_spelling": {
        "en": "vllm_options of {hosts} has the key {key}; options are written with underscores and without dashes before them.",
        "zh": "{hosts} 的 vllm_options 含有键 {key}；选项应使用下划线，且前面不加短横线。",
    },
    "option_spelling_allowed": {"en": "{suggestion}", "zh": "{suggestion}"},
    "gpus_malformed": {
        "en": "llm_gpus of {hosts} is malformed: {detail}.",
        "zh": "{hosts} 的 llm_gpus 格式不正确：{detail}。",
    },
    "gpus_malformed_allowed": {
        "en": "a list with one entry per GPU, as nvidia-smi reports them:"
        ' {{name: Tesla V100-PCIE-16GB, memory_mib: 16384, compute_capability: "7.0"}}',
        "zh": "每块 GPU 一项的列表，内容与 nvidia-smi 的输出一致："
        '{{name: Tesla V100-PCIE-16GB, memory_mib: 16384, compute_capability: "7.0"}}',
    },
    "gpus_not_a_list": {"en": "it is not a list", "zh": "不是列表"},
    "gpus_entry_not_a_mapping": {"en": "entry {index} is not a mapping", "zh": "第 {index} 项不是映射"},
    "gpus_key_missing": {"en": "entry {index} lacks {key}", "zh": "第 {index} 项缺少 {key}"},
    "gpus_key_unknown": {"en": "entry {index} has the unknown key {key}", "zh": "第 {index} 项含有未知的键 {key}"},
    "gpus_name_bad": {"en": "name of entry {index} is not text", "zh": "第 {index} 项的 name 不是文本"},
    "gpus_memory_bad": {
        "en": "memory_mib of entry {index} is not a number of MiB of at least 1024",
        "zh": "第 {index} 项的 memory_mib 不是以 MiB 为单位且不小于 1024 的整数",
    },
    "gpus_capability_bad": {
        "en": 'compute_capability of entry {index} is not like "7.0"',
        "zh": '第 {index} 项的 compute_capability 不是 "7.0" 这样的形式',
    },
    # Network
    "network_header": {
        "en": "The hosts of the deployment cannot agree on a network.",
        "zh": "该部署的各主机无法就网络达成一致。",
    },
    "network_malformed": {
        "en": "{name} is not a network.",
        "zh": "{name} 不是网络地址。",
    },
    "network_malformed_allowed": {
        "en": "a network in CIDR form, for example {suggestion}; left out, the subnet that all hosts share is found",
        "zh": "CIDR 形式的网络，例如 {suggestion}；不设置时会自动查找所有主机共有的子网",
    },
    # The proof of the network
    "mesh_header": {
        "en": "The hosts of the deployment do not reach each other as a cluster has to (tried: {networks}). Nothing has been started.",
        "zh": "该部署的各主机之间无法按集群要求互相连通（已尝试：{networks}）。尚未启动任何服务。",
    },
    "mesh_elsewhere": {"en": "See what {host} says.", "zh": "见 {host} 的消息。"},
    "mesh_no_path": {
        "en": "No packet gets through in either direction over {network}: {pairs}.",
        "zh": "通过 {network} 双向都不通：{pairs}。",
    },
    "mesh_no_path_allowed": {
        "en": "a network that connects all hosts of the deployment: look at cables, switch ports, VLANs and firewalls, "
        "or name another one in llm_cluster_network",
        "zh": "连通该部署所有主机的网络：请检查线缆、交换机端口、VLAN 和防火墙，或用 llm_cluster_network 指定另一个网络",
    },
    "mesh_one_way": {
        "en": "The path is asymmetric over {network}: packets are lost in the direction {pairs}; those of the other direction arrive.",
        "zh": "通过 {network} 的路径不对称：{pairs} 方向的数据包丢失，反方向可以到达。",
    },
    "mesh_one_way_allowed": {
        "en": "both directions open: look at the firewall of the receiver (incoming) and of the sender (outgoing), and at their routes",
        "zh": "双向畅通：请检查接收方（入站）和发送方（出站）的防火墙以及路由",
    },
    "mesh_port_blocked": {
        "en": "Port {port} cannot be reached over {network}, though other ports can ({reason}): {pairs}.",
        "zh": "通过 {network} 无法连接端口 {port}，而其他端口可以（{reason}）：{pairs}。",
    },
    "mesh_port_blocked_allowed": {
        "en": "open between the hosts of the deployment: look at the receiver's firewall; llm_firewall_enabled: true opens what is needed",
        "zh": "在该部署的主机之间开放：请检查接收方的防火墙；llm_firewall_enabled: true 会开放所需端口",
    },
    "mesh_port_taken": {
        "en": "Port {port} of the host {host} in {network} is taken by {program}.",
        "zh": "主机 {host} 在 {network} 上的端口 {port} 已被 {program} 占用。",
    },
    "mesh_port_taken_allowed": {
        "en": "a port that is free on all hosts of the deployment: another {variable}, or end that program",
        "zh": "在该部署所有主机上都空闲的端口：更改 {variable}，或结束该程序",
    },
    "mesh_other_host": {
        "en": "{address} shall be {host}, but to {sender} it is {other} that answers there: two hosts have one address in {network}.",
        "zh": "{address} 应为 {host}，但 {sender} 连接时应答的是 {other}：{network} 中两台主机使用了同一地址。",
    },
    "mesh_other_host_allowed": {"en": "an address of its own for every host", "zh": "每台主机使用各自的地址"},
    "mesh_stranger": {
        "en": "Between {sender} and {host} somebody else answers on port {port} in {network}.",
        "zh": "在 {network} 中，{sender} 连接 {host} 的端口 {port} 时由其他程序应答。",
    },
    "mesh_stranger_allowed": {
        "en": "a direct path: no proxy and no address translation between the hosts of a deployment",
        "zh": "直接路径：同一部署的主机之间不能有代理或地址转换",
    },
    "mesh_stream": {
        "en": "From {sender} to {receiver} connections open over {network}, but data does not get through ({reason}); "
        "the largest packet that did had {mtu} bytes.",
        "zh": "从 {sender} 到 {receiver} 可以通过 {network} 建立连接，但数据无法通过（{reason}）；能通过的最大数据包为 {mtu} 字节。",
    },
    "mesh_stream_allowed": {
        "en": "the same MTU on the interfaces of all hosts, and at least that on the switches between them",
        "zh": "所有主机接口使用相同的 MTU，且中间交换机不小于该值",
    },
    "mesh_mtu_differs": {
        "en": "The interfaces in {network} differ in their MTU: {sizes}.",
        "zh": "{network} 中各接口的 MTU 不一致：{sizes}。",
    },
    "mesh_mtu_path": {
        "en": "Over {network} only packets up to {mtu} bytes get through, though both interfaces take {expected}: {pairs}.",
        "zh": "通过 {network} 只能传输不超过 {mtu} 字节的数据包，而两端接口均为 {expected}：{pairs}。",
    },
    "mesh_rates_differ": {
        "en": "{slow} carries {low} and {fast} carries {high} over {network}: look for a port with the wrong speed or duplex.",
        "zh": "在 {network} 上，{slow} 为 {low}，而 {fast} 为 {high}：请检查端口速率或双工设置。",
    },
    "mesh_rdma_lacking": {
        "en": "{kind} is active on {count} of {all} hosts only, so all of them use sockets instead of RDMA; look at the ports of {hosts}.",
        "zh": "{all} 台主机中只有 {count} 台的 {kind} 处于活动状态，因此全部主机改用套接字而非 RDMA；请检查 {hosts} 的端口。",
    },
    "mesh_passed_over": {"en": "{network} was passed over. {reason}", "zh": "未使用 {network}。{reason}"},
    "mesh_kept": {
        "en": "{network} is in use and was kept; {other} works too and would be preferred: name it in llm_cluster_network to move.",
        "zh": "{network} 正在使用，予以保留；{other} 也可用且更优：如需迁移，请在 llm_cluster_network 中指定。",
    },
    "mesh_network_chosen": {"en": "network {network}, proved", "zh": "网络 {network}，已验证"},
    "mesh_network_alone": {"en": "network {network}, one host", "zh": "网络 {network}，单台主机"},
    "mesh_network_unproved": {
        "en": "network {network}, not proved in this run: it was not about {hosts}",
        "zh": "网络 {network}，本次运行未验证：未包含 {hosts}",
    },
    "mesh_network_other": {"en": "network {network}, not used", "zh": "网络 {network}，未使用"},
    "mesh_corner": {"en": "from, to", "zh": "发送，接收"},
    "mesh_cell_dead": {"en": "no ({reason})", "zh": "不通（{reason}）"},
    "mesh_cell_ports": {"en": "not {ports} ({reason})", "zh": "{ports} 不通（{reason}）"},
    "mesh_cell_open": {"en": "open", "zh": "连通"},
    "mesh_summary": {
        "en": "{good} of {all} paths between {hosts} hosts work; measured streams: {low} to {high}",
        "zh": "{hosts} 台主机之间 {all} 条路径中 {good} 条可用；测得速率：{low} 至 {high}",
    },
    "interface_missing": {
        "en": "The interface {interface} is not on the host {host}.",
        "zh": "主机 {host} 上没有网络接口 {interface}。",
    },
    "interface_missing_allowed": {
        "en": "an interface that {host} has: {interfaces}",
        "zh": "主机 {host} 上现有的接口：{interfaces}",
    },
    "interface_unusable": {
        "en": "The interface {interface} of the host {host} is down or has no address to use.",
        "zh": "主机 {host} 的网络接口 {interface} 未启用或没有可用地址。",
    },
    "interface_unusable_allowed": {
        "en": "an interface that is up and has an address: {interfaces}",
        "zh": "已启用且有地址的接口：{interfaces}",
    },
    "interface_outside_network": {
        "en": "The interface {interface} of the host {host} has no address in {network}.",
        "zh": "主机 {host} 的网络接口 {interface} 没有属于 {network} 的地址。",
    },
    "interface_outside_network_allowed": {
        "en": "an interface with an address in {network}: {interfaces}",
        "zh": "地址属于 {network} 的接口：{interfaces}",
    },
    "no_shared_network": {
        "en": "The hosts of the deployment share no subnet, so they cannot form a cluster.",
        "zh": "该部署的主机没有共同的子网，无法组成集群。",
    },
    "no_shared_network_allowed": {
        "en": "a subnet on which every host has an address; where hosts reach each other through a router, name the network that"
        " holds all their addresses in llm_cluster_network",
        "zh": "每台主机都有地址的共同子网；如果主机之间经路由器互通，请在 llm_cluster_network 中写出包含全部地址的网络",
    },
    "no_shared_network_wanted": {
        "en": "The interfaces chosen for the hosts share no subnet, so the hosts cannot form a cluster.",
        "zh": "为各主机选定的接口没有共同的子网，无法组成集群。",
    },
    "no_shared_network_wanted_allowed": {
        "en": "interfaces on one subnet, or none, so that they are found; where hosts reach each other through a router, name the"
        " network that holds all their addresses in llm_cluster_network",
        "zh": "同一子网上的接口，或者不指定而由程序自动查找；如果主机之间经路由器互通，请在 llm_cluster_network 中写出包含全部地址的网络",
    },
    "not_in_network": {
        "en": "The host {host} has no address in {network}.",
        "zh": "主机 {host} 没有属于 {network} 的地址。",
    },
    "not_in_network_allowed": {
        "en": "an address in {network} on every host, or another llm_cluster_network",
        "zh": "每台主机都要有属于 {network} 的地址，否则请更改 llm_cluster_network",
    },
    "network_ipv6": {
        "en": "{network} is an IPv6 network, and the API of vLLM is served over IPv4 only.",
        "zh": "{network} 是 IPv6 网络，而 vLLM 的 API 只通过 IPv4 提供。",
    },
    "network_ipv6_allowed": {
        "en": "an IPv4 address on every host, in a network that all hosts of the deployment share",
        "zh": "每台主机都有 IPv4 地址，且同属该部署所有主机共有的网络",
    },
    "same_address": {
        "en": "The hosts {hosts} have the same address {address}.",
        "zh": "主机 {hosts} 的地址相同：{address}。",
    },
    "same_address_allowed": {
        "en": "another address for every host on {network}",
        "zh": "在 {network} 上每台主机的地址必须各不相同",
    },
    "firewall_ports_clash": {
        "en": "Variables of {host} name the same port, or the port of sshd.",
        "zh": "{host} 的若干变量使用了同一端口，或使用了 sshd 的端口。",
    },
    "firewall_ports_clash_allowed": {
        "en": "one of each pair on a port that nothing else uses",
        "zh": "每对变量中的一个改用未被占用的端口",
    },
    "firewall_kept": {
        "en": "The addresses of {names} are not known in this run, so the firewall of {host} is left as it is.",
        "zh": "本次运行中无法得知 {names} 的地址，因此 {host} 的防火墙保持不变。",
    },
    "firewall_unresolved": {
        "en": "No address of {names} is known (llm_gateway, llm_monitoring), so the firewall of {host} does not let them in: "
        "set ansible_host to an address, or make the name known to the controller.",
        "zh": "无法得知 {names}（llm_gateway、llm_monitoring）的地址，因此 {host} 的防火墙不会放行它们：请将 ansible_host 设为地址，或让控制机能解析该名称。",
    },
    "firewall_zone_accepts": {
        "en": "firewalld accepts everything in the zone {names} of {host} (target ACCEPT): there the ports of the deployment are open to everybody.",
        "zh": "{host} 上 firewalld 的区域 {names} 接受一切流量（目标为 ACCEPT）：部署的端口在该区域对所有人开放。",
    },
    # Hosts, before they are changed
    "preflight_header_one": {
        "en": "One problem with the hosts. Nothing has been changed.",
        "zh": "主机存在 1 个问题。尚未做任何改动。",
    },
    "preflight_header": {
        "en": "{count} problems with the hosts. Nothing has been changed.",
        "zh": "主机存在 {count} 个问题。尚未做任何改动。",
    },
    "preflight_warnings_one": {
        "en": "One warning about the hosts.",
        "zh": "关于主机有 1 条警告。",
    },
    "preflight_warnings": {
        "en": "{count} warnings about the hosts.",
        "zh": "关于主机有 {count} 条警告。",
    },
    "preflight_ok": {"en": "ok", "zh": "正常"},
    "severity_error": {"en": "error", "zh": "错误"},
    "severity_warning": {"en": "warning", "zh": "警告"},
    "check_unknown": {
        "en": "preflight_severities names a check that does not exist.",
        "zh": "preflight_severities 中写了不存在的检查项。",
    },
    "check_unknown_allowed": {"en": "a code of preflight, such as {codes}", "zh": "preflight 的检查代码，例如 {codes}"},
    "process_text": {"en": "{name} (process {pid})", "zh": "{name}（进程 {pid}）"},
    "process_container": {
        "en": "{name} (process {pid}, container {container})",
        "zh": "{name}（进程 {pid}，容器 {container}）",
    },
    "process_unknown": {"en": "an unknown process", "zh": "未知进程"},
    "where_nowhere": {"en": "the host itself", "zh": "主机本身"},
    "system_not_supported": {
        "en": "The system of {names} is not supported.",
        "zh": "不支持 {names} 的操作系统。",
    },
    "system_not_supported_allowed": {
        "en": "{systems}; another one, untested, can be added to preflight_supported_systems",
        "zh": "{systems}；如需使用其他未经测试的系统，可将其加入 preflight_supported_systems",
    },
    "architecture_not_supported": {
        "en": "The processor architecture of {names} is not supported.",
        "zh": "不支持 {names} 的处理器架构。",
    },
    "architecture_not_supported_allowed": {
        "en": "{architectures}; another one, untested, can be added to preflight_supported_architectures",
        "zh": "{architectures}；如需使用其他未经测试的架构，可将其加入 preflight_supported_architectures",
    },
    "no_gpu_found": {
        "en": "The host {host} of the deployment {deployment} has no NVIDIA GPU, neither for nvidia-smi nor on the PCI bus.",
        "zh": "部署 {deployment} 的主机 {host} 没有 NVIDIA GPU：nvidia-smi 和 PCI 总线上均未发现。",
    },
    "no_gpu_found_allowed": {
        "en": "a host with GPUs; 'lspci -d 10de:' on {host} lists the cards that it sees",
        "zh": "带有 GPU 的主机；在 {host} 上运行 lspci -d 10de: 可列出它识别到的显卡",
    },
    "gpu_count_differs": {
        "en": "The host {host} has {found} GPUs, but llm_gpus declares {declared}.",
        "zh": "主机 {host} 有 {found} 块 GPU，但 llm_gpus 声明了 {declared} 块。",
    },
    "gpu_count_differs_allowed": {
        "en": "one entry in llm_gpus for each card of {host}, or no llm_gpus: the cards are found without it; there are: {cards}",
        "zh": "llm_gpus 中为 {host} 的每块显卡写一项，或者不设置 llm_gpus（会自动识别显卡）；现有：{cards}",
    },
    "gpu_differs": {
        "en": "GPU {index} of the host {host} is not the one that llm_gpus declares: {key} is {found}.",
        "zh": "主机 {host} 的 GPU {index} 与 llm_gpus 的声明不符：{key} 实际为 {found}。",
    },
    "gpu_differs_allowed": {
        "en": "{key}: {found}, or no llm_gpus: the cards are found without it",
        "zh": "{key}: {found}，或者不设置 llm_gpus（会自动识别显卡）",
    },
    "too_few_gpus_found": {
        "en": "The deployment {deployment} asks for {wanted} GPUs (tensor parallel {tensor} x pipeline parallel {pipeline}),"
        " but its hosts have {found}.",
        "zh": "部署 {deployment} 需要 {wanted} 块 GPU（张量并行 {tensor} × 流水线并行 {pipeline}），但其主机只有 {found} 块。",
    },
    "too_few_gpus_found_allowed": {
        "en": "vllm_tensor_parallel_size x vllm_pipeline_parallel_size of at most {found}, or more hosts; there are: {per_host}",
        "zh": "vllm_tensor_parallel_size × vllm_pipeline_parallel_size 不超过 {found}，或增加主机；现有：{per_host}",
    },
    "disk_too_small": {
        "en": "The disk {mount} of the host {host} is too small for what shall go to {directories}.",
        "zh": "主机 {host} 的磁盘 {mount} 空间不足，无法容纳要放入 {directories} 的内容。",
    },
    "disk_too_small_value": {"en": "{available} free", "zh": "可用 {available}"},
    "disk_too_small_allowed": {
        "en": "{needed} free: {parts}, and {reserve} that stay free (preflight_disk_reserve_gib)",
        "zh": "可用空间不少于 {needed}：{parts}，另保留 {reserve}（preflight_disk_reserve_gib）",
    },
    "kernel_too_old": {
        "en": "The kernel of the host {host} is older than {least}.",
        "zh": "主机 {host} 的内核早于 {least}。",
    },
    "kernel_too_old_allowed": {
        "en": "{least} or newer: install the distribution's current kernel and reboot; an older one, untested, is accepted with"
        " preflight_kernel_minimum",
        "zh": "{least} 或更新：请安装发行版当前的内核并重启；如需使用更旧且未经测试的内核，可设置 preflight_kernel_minimum",
    },
    "selinux_labels": {
        "en": "SELinux is enforcing on the host {host} and Docker labels containers, which then may not read llm_host_dir.",
        "zh": "主机 {host} 的 SELinux 处于强制模式，且 Docker 会为容器打标签，容器可能无法读取 llm_host_dir。",
    },
    "selinux_labels_allowed": {
        "en": "docker_daemon_options: {{selinux-enabled: false}}, or a label for llm_host_dir:"
        " semanage fcontext -a -t container_file_t '/opt/llm(/.*)?' && restorecon -R /opt/llm",
        "zh": "docker_daemon_options: {{selinux-enabled: false}}，或为 llm_host_dir 设置标签："
        "semanage fcontext -a -t container_file_t '/opt/llm(/.*)?' && restorecon -R /opt/llm",
    },
    "clock_differs": {
        "en": "The clock of the host {host} is off from that of {middle}.",
        "zh": "主机 {host} 的时钟与 {middle} 的时钟不一致。",
    },
    "clock_differs_allowed": {
        "en": "at most {limit} s (preflight_clock_limit_seconds); let chrony or systemd-timesyncd keep it, offline with one of the hosts"
        " as server: 'timedatectl' on {host} shows the state",
        "zh": "不超过 {limit} 秒（preflight_clock_limit_seconds）；请用 chrony 或 systemd-timesyncd 同步时间，离线时可让其中一台主机作为时间"
        "服务器：在 {host} 上运行 timedatectl 可查看状态",
    },
    "memory_too_small": {
        "en": "The host {host} has too little memory for what is asked of it: {needed}, with {ranks} GPUs.",
        "zh": "主机 {host} 的内存不足：{ranks} 块 GPU 共需 {needed}。",
    },
    "memory_too_small_allowed": {
        "en": "{needed} or more ({parts}), besides hugepages ({hugepages}); ask for less, or take GPUs or memory of another host",
        "zh": "除大页内存（{hugepages}）外至少 {needed}（{parts}）；请减少需求，或增加内存",
    },
    "memory_below_weights": {
        "en": "The host {host} has less memory than the weights of its model ({weights}) and what else it needs ({needed}): every GPU"
        " reads the files, and they will come from the disk each time.",
        "zh": "主机 {host} 的内存小于模型权重（{weights}）与其他需求（{needed}）之和：每块 GPU 都要读取这些文件，将每次都从磁盘读取。",
    },
    "memory_below_weights_allowed": {
        "en": "it works, but loading takes longer; more memory, or fewer hugepages ({hugepages})",
        "zh": "可以运行，但加载较慢；可增加内存，或减少大页内存（{hugepages}）",
    },
    "shm_too_small": {
        "en": "/dev/shm of the host {host} is smaller than Ray's object store.",
        "zh": "主机 {host} 的 /dev/shm 小于 Ray 的对象存储。",
    },
    "shm_too_small_allowed": {
        "en": "{needed} or more (mount -o remount,size=... /dev/shm, and the same in /etc/fstab), or a smaller ray_object_store_memory_gib;"
        " Ray takes the disk instead",
        "zh": "不小于 {needed}（mount -o remount,size=... /dev/shm，并写入 /etc/fstab），或减小 ray_object_store_memory_gib；否则 Ray 会改用磁盘",
    },
    "gpu_lost": {
        "en": "A GPU of the host {host} is on the PCI bus, but the driver does not see it.",
        "zh": "主机 {host} 有 GPU 出现在 PCI 总线上，但驱动识别不到。",
    },
    "gpu_lost_allowed": {
        "en": "all cards: look for 'NVRM: Xid' in 'dmesg' on {host}; a cold start (power off and on) brings back a card that fell off"
        " the bus, else it or its riser is broken",
        "zh": "全部显卡可用：请在 {host} 的 dmesg 中查找 NVRM: Xid；断电重启可恢复掉线的显卡，否则显卡或转接卡已损坏",
    },
    "gpu_problem": {
        "en": "Something is wrong with the GPUs of the host {host}.",
        "zh": "主机 {host} 的 GPU 有问题。",
    },
    "gpu_problem_allowed": {
        "en": "none: see 'nvidia-smi' and 'dmesg' on {host}",
        "zh": "无问题：请在 {host} 上查看 nvidia-smi 和 dmesg",
    },
    "unknown_pci_device": {
        "en": "The host {host} has a GPU that is not known by its PCI id, and no driver that names it.",
        "zh": "主机 {host} 有一块无法通过 PCI 编号识别的 GPU，且没有驱动可以识别它。",
    },
    "unknown_pci_device_allowed": {
        "en": "say in llm_gpus what it is, or install the driver first (playbooks/prepare.yml)",
        "zh": "请在 llm_gpus 中写明型号，或先安装驱动（playbooks/prepare.yml）",
    },
    "nvidia_smi_failed": {
        "en": "nvidia-smi fails on the host {host}.",
        "zh": "主机 {host} 上 nvidia-smi 运行失败。",
    },
    "nvidia_smi_failed_allowed": {
        "en": "a driver that answers: playbooks/prepare.yml installs one, unless nvidia_driver_method is present; see 'dmesg' on {host}",
        "zh": "可正常应答的驱动：playbooks/prepare.yml 会安装驱动（nvidia_driver_method 为 present 时除外）；请在 {host} 上查看 dmesg",
    },
    "nvidia_smi_unreadable": {
        "en": "nvidia-smi on the host {host} answers with something unknown.",
        "zh": "主机 {host} 上 nvidia-smi 的输出无法识别。",
    },
    "nvidia_smi_unreadable_allowed": {
        "en": "the output of NVIDIA's program: 'command -v nvidia-smi' on {host} shows which one runs",
        "zh": "NVIDIA 官方程序的输出：在 {host} 上运行 command -v nvidia-smi 可查看实际运行的程序",
    },
    "driver_mismatch": {
        "en": "On the host {host} another driver is loaded than is installed.",
        "zh": "主机 {host} 上已加载的驱动与已安装的驱动不同。",
    },
    "driver_mismatch_allowed": {
        "en": "one version: playbooks/prepare.yml reboots the host, unless nvidia_driver_method is present: then reboot {host} yourself",
        "zh": "版本一致：playbooks/prepare.yml 会重启该主机；nvidia_driver_method 为 present 时请自行重启 {host}",
    },
    "driver_differs": {
        "en": "The hosts of the deployment {deployment} have different drivers.",
        "zh": "部署 {deployment} 的各主机驱动版本不同。",
    },
    "driver_differs_allowed": {
        "en": "one version on all of them: install it yourself, or let nvidia_driver_method be another than present",
        "zh": "所有主机使用同一版本：请自行安装，或将 nvidia_driver_method 设为 present 以外的值",
    },
    "gpu_ecc_errors": {
        "en": "GPU {index} of the host {host} has counted memory errors that it could not correct since its driver was loaded.",
        "zh": "主机 {host} 的 GPU {index} 自驱动加载以来出现了无法纠正的显存错误。",
    },
    "gpu_ecc_errors_allowed": {
        "en": "none (preflight_ecc_uncorrected_limit): 'nvidia-smi -i {index} -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT' on {host}; reset the"
        " card or reboot, and if they come back, have it replaced",
        "zh": "无错误（preflight_ecc_uncorrected_limit）：在 {host} 上运行 nvidia-smi -i {index} -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT；"
        "请重置显卡或重启，若再次出现请更换显卡",
    },
    "gpu_memory_worn": {
        "en": "The memory of GPU {index} of the host {host} has broken places that it cannot replace any more.",
        "zh": "主机 {host} 的 GPU {index} 的显存有无法再替换的坏块。",
    },
    "gpu_memory_worn_allowed": {
        "en": "a card without that: have it replaced (NVIDIA names this a reason for return)",
        "zh": "没有此类故障的显卡：请更换（NVIDIA 将此列为退换理由）",
    },
    "gpu_reset_pending": {
        "en": "GPU {index} of the host {host} waits for a reset, with which it puts broken memory out of use.",
        "zh": "主机 {host} 的 GPU {index} 需要重置，以停用损坏的显存。",
    },
    "gpu_reset_pending_allowed": {
        "en": "nothing pending: reboot {host}, or 'nvidia-smi -i {index} --gpu-reset' while nothing uses the card",
        "zh": "没有待处理项：请重启 {host}，或在无程序使用该显卡时运行 nvidia-smi -i {index} --gpu-reset",
    },
    "gpu_throttled": {
        "en": "GPU {index} of the host {host} slows itself down.",
        "zh": "主机 {host} 的 GPU {index} 正在降频。",
    },
    "gpu_throttled_allowed": {
        "en": "no such reason: look at its temperature, fans and power supply ('nvidia-smi -i {index} -q -d TEMPERATURE,POWER' on {host})",
        "zh": "无此原因：请检查温度、风扇和供电（在 {host} 上运行 nvidia-smi -i {index} -q -d TEMPERATURE,POWER）",
    },
    "gpu_link_narrow": {
        "en": "GPU {index} of the host {host} uses fewer PCIe lanes than it could: {widest}.",
        "zh": "主机 {host} 的 GPU {index} 使用的 PCIe 通道数少于其最大值 {widest}。",
    },
    "gpu_link_narrow_allowed": {
        "en": "{widest} in a slot with that many lanes; else the card or its riser does not sit well. Between GPUs without NVLink this"
        " costs speed",
        "zh": "在支持 {widest} 的插槽上应为 {widest}；否则显卡或转接卡接触不良。没有 NVLink 的 GPU 之间速度会受影响",
    },
    "mtu_differs": {
        "en": "The interfaces of the deployment {deployment} on the cluster's network have different MTUs.",
        "zh": "部署 {deployment} 的各主机在集群网络上的接口 MTU 不同。",
    },
    "mtu_differs_allowed": {
        "en": "one MTU on all hosts and on the switch between them (9000 where the switch allows it)",
        "zh": "所有主机及其间交换机使用相同的 MTU（交换机允许时为 9000）",
    },
    "host_name_unknown": {
        "en": "The host {host} does not know its own name, {name}.",
        "zh": "主机 {host} 无法解析自己的主机名 {name}。",
    },
    "host_name_unknown_allowed": {
        "en": "a line '127.0.1.1 {name}' in /etc/hosts of {host}",
        "zh": "在 {host} 的 /etc/hosts 中加入一行 127.0.1.1 {name}",
    },
    "host_name_elsewhere": {
        "en": "The name of the host {host}, {name}, stands for an address of another machine.",
        "zh": "主机 {host} 的主机名 {name} 解析到了另一台机器的地址。",
    },
    "host_name_elsewhere_allowed": {
        "en": "an address of {host} itself: correct DNS or its /etc/hosts",
        "zh": "应为 {host} 自己的地址：请更正 DNS 或其 /etc/hosts",
    },
    "port_taken": {
        "en": "The port {port} of the host {host} is taken.",
        "zh": "主机 {host} 的端口 {port} 已被占用。",
    },
    "port_taken_allowed": {
        "en": "a free port: stop what holds it, or set {variable} to another",
        "zh": "空闲端口：请停止占用它的程序，或将 {variable} 设为其他端口",
    },
    "service_foreign": {
        "en": "The host {host} runs a model server or Ray that is not this collection's.",
        "zh": "主机 {host} 上运行着不属于本集合的模型服务或 Ray。",
    },
    "service_foreign_allowed": {
        "en": "none, for it holds GPUs, memory or ports that the plan counts on: stop and disable it; if it may stay,"
        " preflight_severities: {{service_foreign: warning}}",
        "zh": "不应有：它会占用计划所需的 GPU、内存或端口，请停止并禁用它；如需保留，可设置 preflight_severities: {{service_foreign: warning}}",
    },
    "gpu_busy": {
        "en": "Other programs use GPUs of the host {host}.",
        "zh": "主机 {host} 的 GPU 正被其他程序使用。",
    },
    "gpu_busy_allowed": {
        "en": "none: their memory is missing to vLLM; stop them, or preflight_severities: {{gpu_busy: warning}}",
        "zh": "不应有：会占用 vLLM 所需的显存；请停止它们，或设置 preflight_severities: {{gpu_busy: warning}}",
    },
    "gpu_text": {"en": "{count} x {name}", "zh": "{count} × {name}"},
    "gpu_unknown": {"en": "unknown card", "zh": "未知显卡"},
    # The driver that a host shall get
    "driver_version_malformed": {
        "en": "nvidia_driver_version {version} is no version of a driver. Allowed: as in 570.195.03.",
        "zh": "nvidia_driver_version {version} 不是驱动版本号。允许的写法：例如 570.195.03。",
    },
    "driver_branch_too_new": {
        "en": "The driver {version} (nvidia_driver_version) does not drive a GPU of compute capability {capability}, which this host "
        "has. R{last} is the last branch that does. Allowed: {last}.x or older; put such a driver into the bundle.",
        "zh": "驱动 {version}（nvidia_driver_version）不支持本主机上计算能力为 {capability} 的 GPU，R{last} 是最后一个支持它的分支。"
        "允许：{last}.x 或更旧的版本；请将这样的驱动放入离线包。",
    },
    "driver_open_module": {
        "en": "nvidia_driver_kernel_module is open, but this host has a GPU of compute capability {capability}: the open kernel "
        "modules drive 7.5 (Turing) and newer. Allowed: proprietary.",
        "zh": "nvidia_driver_kernel_module 为 open，但本主机的 GPU 计算能力为 {capability}：开放内核模块只支持 7.5（Turing）及更新的 GPU。"
        "允许：proprietary。",
    },
    "driver_proprietary_module": {
        "en": "nvidia_driver_kernel_module is proprietary, but this host has a GPU of compute capability {capability}, which only the "
        "open kernel modules drive. Allowed: auto or open.",
        "zh": "nvidia_driver_kernel_module 为 proprietary，但本主机的 GPU 计算能力为 {capability}，只有开放内核模块支持它。"
        "允许：auto 或 open。",
    },
    "driver_proprietary_gone": {
        "en": "nvidia_driver_kernel_module is proprietary, but drivers since R{first} have no such modules (nvidia_driver_version "
        "{version}). Allowed: auto or open, or an older driver.",
        "zh": "nvidia_driver_kernel_module 为 proprietary，但 R{first} 起的驱动不再提供此类模块（nvidia_driver_version 为 {version}）。"
        "允许：auto 或 open，或更旧的驱动。",
    },
    "driver_no_common_module": {
        "en": "No kind of kernel modules drives all GPUs of this host (compute capabilities {capabilities}). Keep one kind of cards "
        "in a host.",
        "zh": "没有任何一种内核模块能同时支持本主机的所有 GPU（计算能力 {capabilities}）。同一主机请只使用同一类显卡。",
    },
    "driver_system_unknown": {
        "en": "nvidia_driver_method is {method}, but which packages make a driver on {system} is not known. Allowed: method runfile, or "
        "name the packages in nvidia_driver_package_names.",
        "zh": "nvidia_driver_method 为 {method}，但不知道 {system} 上的驱动由哪些软件包组成。允许：使用 runfile 方式，"
        "或在 nvidia_driver_package_names 中写明软件包。",
    },
    "driver_source_unknown": {
        "en": "nvidia_driver_package_source is {source}, which {system} does not have. Allowed: {sources}.",
        "zh": "nvidia_driver_package_source 为 {source}，而 {system} 没有这一来源。允许：{sources}。",
    },
    "driver_branch_needed": {
        "en": "The names of the packages on {system} depend on the branch. Set nvidia_driver_version, as in 570.195.03.",
        "zh": "{system} 上的软件包名称取决于驱动分支。请设置 nvidia_driver_version，例如 570.195.03。",
    },
    "driver_secure_boot": {
        "en": "Secure Boot is on: the kernel loads no module that is not signed, so the driver would be installed and not work. Turn "
        "Secure Boot off in the firmware's setup; or sign the modules with a key that is enrolled on the host (mokutil --import) and "
        "set nvidia_driver_signed_modules_enabled to true.",
        "zh": "安全启动（Secure Boot）已开启：内核不会加载未签名的模块，驱动即使安装也无法工作。请在固件设置中关闭安全启动；"
        "或使用已在主机登记的密钥（mokutil --import）为模块签名，并将 nvidia_driver_signed_modules_enabled 设为 true。",
    },
    "driver_headers_missing": {
        "en": "The kernel modules have to be built for the running kernel {kernel}, and its headers (package {package}) are neither on "
        "the host nor in the bundle, which holds {held}. Put the package into the bundle, or boot a kernel whose headers are there.",
        "zh": "需要为正在运行的内核 {kernel} 编译内核模块，但主机和离线包中都没有它的头文件（软件包 {package}）；离线包中有 {held}。"
        "请将该软件包放入离线包，或启动一个已有头文件的内核。",
    },
    "driver_unowned": {
        "en": "There are files of a driver (libnvidia-ml.so.1) that no package owns, and no nvidia-uninstall to remove them: an "
        "installation was interrupted, or the driver was unpacked by hand. Run once with nvidia_driver_method runfile, which writes "
        "over them; then {method} can take over.",
        "zh": "存在不属于任何软件包的驱动文件（libnvidia-ml.so.1），也没有可用来删除它们的 nvidia-uninstall：安装曾被中断，"
        "或驱动是手工解压的。请先以 nvidia_driver_method: runfile 运行一次（会覆盖这些文件），之后即可改用 {method}。",
    },
    "driver_fabric_manager_unknown": {
        "en": "This host has NVSwitches, and its GPUs do not work without the fabric manager; but which package that is on {system} from "
        "the source {source} is not known. Name it in nvidia_driver_fabric_manager_package.",
        "zh": "本主机装有 NVSwitch，没有 fabric manager 则 GPU 无法工作；但不知道 {system}（来源 {source}）上对应哪个软件包。"
        "请在 nvidia_driver_fabric_manager_package 中写明。",
    },
    "driver_version_open": {
        "en": "Which driver is meant for {host}? nvidia_driver_version is not set, and for nvidia_driver_method {method} on {system} the bundle"
        " {bundle} holds: {bundled}.",
        "zh": "{host} 应使用哪个驱动？没有设置 nvidia_driver_version，而对于 {system} 上的 nvidia_driver_method {method}，离线包 {bundle} 中有：{bundled}。",
    },
    "driver_version_open_allowed": {
        "en": "nvidia_driver_version, one of the bundle's; or a bundle that holds exactly one",
        "zh": "nvidia_driver_version 设为离线包中的某个版本；或者离线包中只放一个驱动",
    },
    "driver_not_bundled": {
        "en": "The bundle {bundle} holds no driver with the version that {host} shall get, for nvidia_driver_method {method}.",
        "zh": "离线包 {bundle} 中没有 {host} 所需版本的驱动（nvidia_driver_method 为 {method}）。",
    },
    "driver_not_bundled_allowed": {
        "en": "one of the bundle's: {bundled}; or add the driver to bundle_artefacts and make the bundle again",
        "zh": "离线包中的某个版本：{bundled}；或将驱动加入 bundle_artefacts 并重新制作离线包",
    },
    "driver_repository_unsigned": {
        "en": "nvidia_driver_repository_key is not set for {host}: packages of a repository without a key could come from anybody.",
        "zh": "{host} 没有设置 nvidia_driver_repository_key：没有密钥的软件源，其软件包可能来自任何人。",
    },
    "driver_repository_unsigned_allowed": {
        "en": "nvidia_driver_repository_key: the path of the key on the host (or its URL, for dnf)",
        "zh": "nvidia_driver_repository_key：主机上密钥的路径（dnf 也可用 URL）",
    },
    "driver_reboot_needed": {
        "en": "{installed} is installed on {host}, and {loaded} ({kind} kernel module) stays loaded until the host reboots.",
        "zh": "{host} 上安装的是 {installed}，而在主机重启之前加载的仍是 {loaded}（{kind} 内核模块）。",
    },
    "driver_reboot_needed_allowed": {
        "en": "reboot it yourself when nothing serves there, and run this again; or nvidia_driver_reboot: auto",
        "zh": "在其上没有服务运行时自行重启，然后重新运行；或设置 nvidia_driver_reboot: auto",
    },
    "driver_nouveau_stays": {
        "en": "nouveau has the GPUs of {host} and could not be unloaded. It is blacklisted now.",
        "zh": "nouveau 占用着 {host} 的 GPU，无法卸载。现已将其列入黑名单。",
    },
    "driver_nouveau_stays_allowed": {
        "en": "reboot the host and run this again; or nvidia_driver_reboot: auto",
        "zh": "重启主机并重新运行；或设置 nvidia_driver_reboot: auto",
    },
    "driver_fabric_manager_differs": {
        "en": "The fabric manager of {host} ({package}) is not that of its driver, {version}; so no GPU works.",
        "zh": "{host} 的 fabric manager（{package}）与其驱动 {version} 的版本不同，因此 GPU 都无法工作。",
    },
    "driver_fabric_manager_differs_allowed": {
        "en": "{package} of the version {version}: put it into the bundle",
        "zh": "版本为 {version} 的 {package}：请将其放入离线包",
    },
    "driver_gpus_missing": {
        "en": "llm_gpus declares {declared} GPUs for {host}, and its driver sees {found}.",
        "zh": "llm_gpus 为 {host} 声明了 {declared} 块 GPU，而其驱动看到 {found} 块。",
    },
    "driver_gpus_missing_allowed": {
        "en": "as many as there are; or look for the missing card: 'dmesg | grep NVRM' on {host}",
        "zh": "与实际数量一致；或查找缺少的显卡：在 {host} 上运行 dmesg | grep NVRM",
    },
    "driver_not_installed": {
        "en": "NVIDIA's installer did not install {version} on {host} (exit status {status}):\n{log}",
        "zh": "NVIDIA 安装程序未能在 {host} 上安装 {version}（退出状态 {status}）：\n{log}",
    },
    "driver_not_installed_allowed": {
        "en": "what its log asks for; if a driver is loaded and something uses it, stop that (docker ps, nvidia-smi) or reboot {host}; then run"
        " this again",
        "zh": "请按其日志处理；如果已加载的驱动正在被使用，请停止相关程序（docker ps、nvidia-smi）或重启 {host}；然后重新运行",
    },
    "driver_loaded": {"en": "{version} is loaded", "zh": "已加载 {version}"},
    "driver_not_loaded": {"en": "no driver is loaded", "zh": "未加载驱动"},
    "driver_not_working": {
        "en": "The driver of {host} does not work as it should (wanted: {wanted}, installed: {installed}, loaded: {loaded}).{problems}",
        "zh": "{host} 的驱动工作不正常（需要：{wanted}，已安装：{installed}，已加载：{loaded}）。{problems}",
    },
    "driver_not_working_allowed": {"en": "{remedy}", "zh": "{remedy}"},
    "driver_remedy_mismatch": {
        "en": "one version: the old module stays loaded until the host reboots, so reboot it and run this again",
        "zh": "版本一致：主机重启前仍加载旧模块，请重启主机并重新运行",
    },
    "driver_remedy_present": {
        "en": "a driver that works: with nvidia_driver_method present this collection installs none. Install one yourself, or set"
        " nvidia_driver_method to runfile",
        "zh": "可用的驱动：nvidia_driver_method 为 present 时本集合不安装驱动。请自行安装，或将 nvidia_driver_method 设为 runfile",
    },
    "driver_remedy_runfile": {
        "en": "a driver that works: look at /var/log/nvidia-installer.log and at 'dmesg | grep NVRM' on the host",
        "zh": "可用的驱动：请在主机上查看 /var/log/nvidia-installer.log 和 dmesg | grep NVRM",
    },
    "driver_remedy_packages": {
        "en": "a driver that works: look at 'dkms status', at the make.log below /var/lib/dkms and at 'dmesg | grep NVRM' on the host",
        "zh": "可用的驱动：请在主机上查看 dkms status、/var/lib/dkms 下的 make.log 和 dmesg | grep NVRM",
    },
    "driver_would_install": {
        "en": "{packages} would be installed ({version}).",
        "zh": "将安装 {packages}（{version}）。",
    },
    "driver_newest": {"en": "in the newest version", "zh": "最新版本"},
    "driver_reboots_later": {
        "en": "{host} reboots at the end of the play, for {installed} in place of {loaded}.",
        "zh": "{host} 将在 play 结束时重启，以 {installed} 取代 {loaded}。",
    },
    "driver_no_headers": {"en": "none", "zh": "（无）"},
    # What the planner refuses, and a host that is to be rebuilt
    "plan_refused": {
        "en": "The deployment {deployment} cannot start as it is set: {reason}.",
        "zh": "部署 {deployment} 按当前设置无法启动：{reason}。",
    },
    "plan_refused_allowed": {"en": "{remedy}", "zh": "{remedy}"},
    "node_unknown": {
        "en": "It is not said which host was rebuilt.",
        "zh": "没有说明重建的是哪台主机。",
    },
    "node_unknown_allowed": {"en": "one of {hosts}", "zh": "可选：{hosts}"},
    # Engine and container toolkit
    "install_header": {
        "en": "{host} is refused ({count}). It has not been changed.",
        "zh": "{host} 被拒绝（{count} 个问题）。尚未做任何改动。",
    },
    "install_version_open": {
        "en": "Which version is meant for {host}? {prefix}version is not set, and the bundle {bundle} holds: {bundled}.",
        "zh": "{host} 应使用哪个版本？没有设置 {prefix}version，而离线包 {bundle} 中有：{bundled}。",
    },
    "install_version_open_allowed": {
        "en": "{prefix}version, one of the bundle's; or a bundle that holds exactly one",
        "zh": "{prefix}version 设为离线包中的某个版本；或者离线包中只放一个版本",
    },
    "install_repository_offline": {
        "en": "{host} shall get packages from their publisher, but llm_offline says that it has no internet.",
        "zh": "{host} 要从发布者的软件源安装，但 llm_offline 表示它没有互联网。",
    },
    "install_repository_offline_allowed": {
        "en": "{prefix}method: packages, which come from the bundle; or llm_offline: false",
        "zh": "{prefix}method: packages（从离线包安装），或 llm_offline: false",
    },
    "install_no_repository": {
        "en": "The publisher has no repository for the system of {host}, {system}.",
        "zh": "发布者没有适用于 {host} 的系统 {system} 的软件源。",
    },
    "install_no_repository_allowed": {
        "en": "{prefix}method: packages with packages of the distribution or of the bundle, or present",
        "zh": "{prefix}method: packages（发行版或离线包中的软件包），或 present",
    },
    "engine_other_kind_static": {
        "en": "{host} has a Docker Engine from a package already (its docker.service lies below /usr/lib/systemd).",
        "zh": "{host} 上已有来自软件包的 Docker Engine（其 docker.service 位于 /usr/lib/systemd 下）。",
    },
    "engine_other_kind_static_allowed": {
        "en": "docker_method: present or packages, to keep it; or docker_switch_enabled: true, to have its packages removed. Images and"
        " containers stay; containers that run are stopped, and started again by their restart policy",
        "zh": "docker_method: present 或 packages（保留它）；或 docker_switch_enabled: true（移除其软件包）。镜像和容器会保留；运行中的容器会"
        "停止，并按其重启策略重新启动",
    },
    "engine_other_kind_package": {
        "en": "{host} has a Docker Engine from an archive already (its docker.service lies in /etc/systemd/system).",
        "zh": "{host} 上已有来自压缩包的 Docker Engine（其 docker.service 位于 /etc/systemd/system 中）。",
    },
    "engine_other_kind_package_allowed": {
        "en": "docker_method: static or present, to keep it; or docker_switch_enabled: true, to have it removed. Images and containers"
        " stay; containers that run are stopped, and started again by their restart policy",
        "zh": "docker_method: static 或 present（保留它）；或 docker_switch_enabled: true（移除它）。镜像和容器会保留；运行中的容器会"
        "停止，并按其重启策略重新启动",
    },
    "engine_root_moves": {
        "en": "The data root of the engine of {host} would move, and images or containers lie in the old one, {old}.",
        "zh": "{host} 上引擎的数据目录将改变，但旧目录 {old} 中有镜像或容器。",
    },
    "engine_root_moves_allowed": {
        "en": "{old}, where they are; or move them first (systemctl stop docker docker.socket containerd; rsync -aHAX {old}/ {new}/) and"
        " set docker_data_root_change_enabled: true, which without moving them starts with an empty one",
        "zh": "{old}（现有位置）；或先迁移数据（systemctl stop docker docker.socket containerd; rsync -aHAX {old}/ {new}/），再设置"
        " docker_data_root_change_enabled: true；如果不迁移，引擎将从空目录开始",
    },
    "engine_runtime_flags": {
        "en": "{path} gives the engine of {host} the runtime nvidia on its command line. daemon.json will have it, too, and with both the"
        " engine does not start.",
        "zh": "{path} 在命令行中为 {host} 的引擎指定了 nvidia 运行时。daemon.json 中也会有它，两者并存时引擎无法启动。",
    },
    "engine_runtime_flags_allowed": {
        "en": "the same without --add-runtime (or no such file, if that is all that it says), then 'systemctl daemon-reload'",
        "zh": "删除其中的 --add-runtime（如果文件中没有其他内容则删除文件），然后运行 systemctl daemon-reload",
    },
    "engine_wrong_version": {
        "en": "{host} runs Docker Engine {found}, and {wanted} is wanted.",
        "zh": "{host} 运行的是 Docker Engine {found}，而需要的是 {wanted}。",
    },
    "engine_wrong_version_allowed": {
        "en": "docker_version as it runs, or empty; or a docker_method that installs {wanted}",
        "zh": "docker_version 与运行版本一致或留空；或使用能安装 {wanted} 的 docker_method",
    },
    "toolkit_missing": {
        "en": "{host} lacks NVIDIA's container toolkit{wanted}.",
        "zh": "{host} 缺少 NVIDIA 容器工具包{wanted}。",
    },
    "toolkit_missing_allowed": {
        "en": "install it, or set nvidia_container_toolkit_method to another than present; if it was just installed, another one comes first"
        " in the path of root ('type -a nvidia-ctk'): remove that",
        "zh": "请安装它，或将 nvidia_container_toolkit_method 设为 present 以外的值；若刚安装过，说明 root 的 PATH 中有另一个"
        "（type -a nvidia-ctk）：请删除",
    },
    "toolkit_runtime_unknown": {
        "en": "The engine of {host} does not know the runtime nvidia.",
        "zh": "{host} 的引擎不认识 nvidia 运行时。",
    },
    "toolkit_runtime_unknown_allowed": {
        "en": "the runtime nvidia in /etc/docker/daemon.json, and an engine that was started with it: 'journalctl -u docker' on {host}",
        "zh": "/etc/docker/daemon.json 中有 nvidia 运行时，且引擎已据此启动：在 {host} 上查看 journalctl -u docker",
    },
    "toolkit_gpus_unseen": {
        "en": "A container on {host} does not see the GPUs that the host sees:\n{seen}",
        "zh": "{host} 上的容器看不到主机上的 GPU：\n{seen}",
    },
    "toolkit_gpus_unseen_allowed": {
        "en": "the same list in a container of {image}: look at /etc/docker/daemon.json (runtimes) and 'journalctl -u docker' on {host}, and"
        " run playbooks/prepare.yml again",
        "zh": "在 {image} 的容器中得到相同的列表：请在 {host} 上检查 /etc/docker/daemon.json（runtimes）和 journalctl -u docker，然后重新运行"
        " playbooks/prepare.yml",
    },
    # Docker's daemon.json
    "daemon_json_not_json": {
        "en": "{path} is no valid JSON: line {line}, column {column}: {reason}.\n{shown}\n"
        "Correct that line on the host, or move the file away, and run this again. Nothing was changed.",
        "zh": "{path} 不是有效的 JSON：第 {line} 行，第 {column} 列：{reason}。\n{shown}\n"
        "请在主机上更正这一行，或将该文件移走，然后重新运行。未做任何更改。",
    },
    "daemon_json_not_an_object": {
        "en": '{path} holds {found}, from line {line} on; Docker wants one object there, like {{"live-restore": true}}.\n'
        "Correct it on the host, or move the file away, and run this again. Nothing was changed.",
        "zh": '{path} 从第 {line} 行起是 {found}；Docker 要求这里是一个对象，例如 {{"live-restore": true}}。\n'
        "请在主机上更正，或将该文件移走，然后重新运行。未做任何更改。",
    },
    "daemon_json_list": {"en": "a list", "zh": "列表"},
    "daemon_json_str": {"en": "a text", "zh": "文本"},
    "daemon_json_number": {"en": "a number", "zh": "数字"},
    "daemon_json_bool": {"en": "true or false", "zh": "布尔值"},
    "daemon_json_null": {"en": "null", "zh": "null"},
    # Bundle
    "bundle_dir_missing": {
        "en": "llm_offline is true but llm_bundle_dir is not set, so there is nothing to install from.",
        "zh": "llm_offline 为 true，但没有设置 llm_bundle_dir，因此没有安装来源。",
    },
    "bundle_dir_missing_allowed": {
        "en": "llm_bundle_dir: the bundle's directory on this machine, the one that holds manifest.yml",
        "zh": "llm_bundle_dir：本机上的离线包目录，其中包含 manifest.yml",
    },
    "bundle_missing": {
        "en": "llm_offline is true but there is no bundle: {path} does not exist.",
        "zh": "llm_offline 为 true，但没有离线包：{path} 不存在。",
    },
    "bundle_missing_allowed": {
        "en": "the directory of a bundle made by playbooks/bundle.yml and copied to this machine",
        "zh": "由 playbooks/bundle.yml 制作并复制到本机的离线包目录",
    },
    "bundle_unreadable": {
        "en": "The bundle's manifest cannot be used: {reason}.",
        "zh": "无法使用离线包的清单文件：{reason}。",
    },
    "bundle_unreadable_allowed": {
        "en": "a manifest.yml of schema {schema}, as playbooks/bundle.yml writes it; copy the bundle again",
        "zh": "由 playbooks/bundle.yml 生成的 schema {schema} 格式的 manifest.yml；请重新复制离线包",
    },
    "bundle_not_a_mapping": {"en": "it is not a mapping", "zh": "不是映射"},
    "bundle_no_engine": {
        "en": "{images} holds no Ray, and a deployment runs with it. It is added by a Docker engine on this machine, and none answers.",
        "zh": "{images} 中没有 Ray，而有部署需要它。Ray 由本机的 Docker 引擎添加，但引擎没有响应。",
    },
    "bundle_no_engine_allowed": {
        "en": "an engine that answers: start one, or set DOCKER_HOST; or name an image that holds Ray in vllm_image; or set vllm_executor to mp",
        "zh": "可用的引擎：请启动引擎或设置 DOCKER_HOST；或在 vllm_image 中指定带 Ray 的镜像；或将 vllm_executor 设为 mp",
    },
    "bundle_no_images": {
        "en": "The engine of this machine has no image {images}.",
        "zh": "本机的引擎中没有镜像 {images}。",
    },
    "bundle_no_images_allowed": {
        "en": "images that are there: pull or build them first, or take them out of bundle_images",
        "zh": "引擎中已有的镜像：请先拉取或构建，或将其从 bundle_images 中删除",
    },
    "inspect_nothing": {"en": "It is not said which image is meant.", "zh": "没有说明要查看哪个镜像。"},
    "inspect_nothing_allowed": {
        "en": "an archive, or an image of this machine's engine, for example -e image=images.tar",
        "zh": "镜像归档文件或本机引擎中的镜像，例如 -e image=images.tar",
    },
    "bundle_schema": {"en": "its schema is {found}", "zh": "其 schema 为 {found}"},
    "bundle_without_model": {
        "en": "The bundle does not hold the model of the deployment {deployment}.",
        "zh": "离线包中没有部署 {deployment} 的模型。",
    },
    "bundle_without_model_allowed": {
        "en": "a model of the bundle {path}: {models}; or add the model to the bundle with playbooks/bundle.yml",
        "zh": "离线包 {path} 中的模型：{models}；或用 playbooks/bundle.yml 将该模型加入离线包",
    },
    "bundle_without_image": {
        "en": "The bundle does not hold the image of the deployment {deployment}.",
        "zh": "离线包中没有部署 {deployment} 的镜像。",
    },
    "bundle_without_image_allowed": {
        "en": "an image of the bundle {path}: {images}; or add the image to the bundle with playbooks/bundle.yml",
        "zh": "离线包 {path} 中的镜像：{images}；或用 playbooks/bundle.yml 将该镜像加入离线包",
    },
    "bundle_without_version": {
        "en": "The bundle holds no image with the vLLM release of the deployment {deployment}.",
        "zh": "离线包中没有包含部署 {deployment} 所需 vLLM 版本的镜像。",
    },
    "bundle_without_version_allowed": {
        "en": "a release in the bundle {path}: {images}; or add the image to the bundle with playbooks/bundle.yml",
        "zh": "离线包 {path} 中的版本：{images}；或用 playbooks/bundle.yml 将该镜像加入离线包",
    },
    "image_of_other_version": {
        "en": "vllm_image of the deployment {deployment} holds vLLM {found}, not vllm_version {wanted}.",
        "zh": "部署 {deployment} 的 vllm_image 中是 vLLM {found}，而不是 vllm_version 指定的 {wanted}。",
    },
    "image_of_other_version_allowed": {
        "en": 'vllm_version: "{found}", or another vllm_image',
        "zh": 'vllm_version: "{found}"，或更换 vllm_image',
    },
    # What a bundle shall hold, and what is wrong with one
    "wanted_no_driver": {
        "en": "Which driver shall the bundle hold? {host} declares no GPUs (llm_gpus) and no nvidia_driver_version. Set one of them, name a "
        "driver in bundle_artefacts, or set nvidia_driver_method to present.",
        "zh": "离线包应包含哪个驱动？{host} 既没有声明 GPU（llm_gpus），也没有设置 nvidia_driver_version。请设置其中之一，或在 bundle_artefacts "
        "中指定驱动，或将 nvidia_driver_method 设为 present。",
    },
    "wanted_unknown_gpu": {
        "en": "llm_gpus of {host}: {reason}. Correct it, or set nvidia_driver_version.",
        "zh": "{host} 的 llm_gpus：{reason}。请更正，或设置 nvidia_driver_version。",
    },
    "wanted_no_systems": {
        "en": "{host} is offline and needs {packages} from the bundle, but nothing says what system the hosts run. Set bundle_systems, as in "
        "[debian-12]; allowed: {allowed}. Or name os_packages in bundle_artefacts.",
        "zh": "{host} 处于离线状态，需要离线包提供 {packages}，但没有说明主机运行什么系统。请设置 bundle_systems，例如 [debian-12]；允许：{allowed}。"
        "或在 bundle_artefacts 中指定 os_packages。",
    },
    "wanted_unknown_system": {
        "en": "bundle_systems: {value} is not known. Allowed: {allowed}.",
        "zh": "bundle_systems：未知的系统 {value}。允许：{allowed}。",
    },
    "wanted_compression_engine": {
        "en": "bundle_image_compression: {value} is not loaded by the Docker Engine of {hosts} ({version}), only by {lowest} or later. Set it to {best} or "
        "auto, or set another docker_version.",
        "zh": "bundle_image_compression：{hosts} 的 Docker Engine（{version}）不能加载 {value}，需要 {lowest} 或更高版本。请设为 {best} 或 auto，或更换 "
        "docker_version。",
    },
    "wanted_compression_writer": {
        "en": "bundle_image_compression: {value} needs the library zstandard for the Python that runs Ansible: pip install zstandard. Or set it to gzip, "
        "none or auto.",
        "zh": "bundle_image_compression：{value} 需要为运行 Ansible 的 Python 安装 zstandard 库：pip install zstandard。或者设为 gzip、none 或 auto。",
    },
    "wanted_no_revision": {
        "en": "bundle_model_sources: {value} is neither a path, an address, nor HUB:PUBLISHER/NAME[@REVISION] with one of the hubs "
        "huggingface and modelscope.",
        "zh": "bundle_model_sources：{value} 既不是路径或网址，也不是 HUB:PUBLISHER/NAME[@REVISION]（HUB 为 huggingface 或 modelscope）。",
    },
    # Why a bundle cannot be used
    "bundle_unusable": {
        "en": "The bundle cannot be used: {reason}\nIts folder is llm_bundle_dir ({bundle}); playbooks/bundle.yml makes one.",
        "zh": "无法使用离线包：{reason}\n其目录为 llm_bundle_dir（{bundle}）；可用 playbooks/bundle.yml 制作。",
    },
    "bundle_not_read": {
        "en": "The bundle {bundle} (llm_bundle_dir) cannot be read: {reason}",
        "zh": "无法读取离线包 {bundle}（llm_bundle_dir）：{reason}",
    },
    "bundle_unknown_files": {
        "en": "{count} files in {bundle} that its manifest does not know: {names}",
        "zh": "{bundle} 中有 {count} 个文件不在其 manifest 中：{names}",
    },
    "bundle_link": {
        "en": "{path} in {bundle} is a link or lies behind one. Remove the link.",
        "zh": "{bundle} 中的 {path} 是链接，或位于链接之后。请移除该链接。",
    },
    "bundle_not_a_file": {
        "en": "{path} is in the manifest but is no file of the bundle {bundle}. Copy the bundle again, or make it again.",
        "zh": "{path} 在 manifest 中，但离线包 {bundle} 中没有这个文件。请重新复制或重新制作离线包。",
    },
    "no_room": {
        "en": "{folder} ({variable}) has {free} free, and {needed} are needed. Make room, or set {variable} to a folder on a larger disk.",
        "zh": "{folder}（{variable}）剩余 {free}，而需要 {needed}。请腾出空间，或将 {variable} 设为更大磁盘上的目录。",
    },
    "not_writable": {
        "en": "{folder}: {reason}. Set {variable} to a folder that can be written.",
        "zh": "{folder}：{reason}。请将 {variable} 设为可写的目录。",
    },
    # Copying a bundle to the hosts
    "copy_none": {
        "en": "The bundle {bundle} holds no {kind}. Add it and run playbooks/bundle.yml again, or ask for what it holds.",
        "zh": "离线包 {bundle} 中没有 {kind}。请添加后重新运行 playbooks/bundle.yml，或改为其中已有的内容。",
    },
    "copy_none_with": {
        "en": "The bundle {bundle} holds no {kind} with {wanted}. Add it and run playbooks/bundle.yml again, or ask for what it holds.",
        "zh": "离线包 {bundle} 中没有符合 {wanted} 的 {kind}。请添加后重新运行 playbooks/bundle.yml，或改为其中已有的内容。",
    },
    "copy_damaged": {
        "en": "These files did not arrive as the manifest describes them; nothing of them was kept:\n{files}\n"
        "If it happens again the bundle itself is damaged: verify it with playbooks/bundle.yml --tags verify.",
        "zh": "以下文件到达后与 manifest 不符，均未保留：\n{files}\n"
        "如果再次发生，说明离线包本身已损坏：请用 playbooks/bundle.yml --tags verify 校验。",
    },
    "copy_digest": {
        "en": "{path}: SHA-256 {found} on the host, {wanted} in the manifest",
        "zh": "{path}：主机上的 SHA-256 为 {found}，manifest 中为 {wanted}",
    },
    # Carrying a bundle on disks
    "carry_no_source": {
        "en": "None of {folders} (bundle_import) holds {manifest} or {plan}. Name the folder that the bundle was exported to, or that the script of the "
        "lists has filled.",
        "zh": "{folders}（bundle_import）中都没有 {manifest} 或 {plan}。请指定导出离线包的目录，或由列表脚本填充的目录。",
    },
    "carry_not_fetched": {
        "en": "{path} is on none of {folders}: the bundle will lack it",
        "zh": "{path} 不在 {folders} 中：离线包将缺少它",
    },
    "carry_differs": {
        "en": "{path} in the bundle {bundle} is not what its manifest says. Run --tags verify.",
        "zh": "离线包 {bundle} 中的 {path} 与其 manifest 不符。请运行 --tags verify。",
    },
    "carry_short": {"en": "{path} ended {missing} early", "zh": "{path} 提前结束，还缺 {missing}"},
    "carry_missing": {
        "en": "On none of {folders} (bundle_import), or of another size than it should have there:\n{files}\n"
        "Put in all disks of the bundle, or copy these files again.",
        "zh": "以下文件不在 {folders}（bundle_import）中，或大小不符：\n{files}\n请插入离线包的所有磁盘，或重新复制这些文件。",
    },
    "carry_damaged": {
        "en": "Damaged on the way; nothing of these was kept, and everything else was:\n{files}\n"
        "Copy them again from where the bundle was made, and run this again.",
        "zh": "以下文件在途中损坏，均未保留，其余文件已保留：\n{files}\n请从制作离线包的机器重新复制，然后再次运行。",
    },
    "carry_archive": {
        "en": "{path} cannot be read as an archive of images: {reason}. Copy it again.",
        "zh": "无法将 {path} 作为镜像归档读取：{reason}。请重新复制。",
    },
    "carry_no_images": {
        "en": "The images {images} are in no archive below images/ on {folders} (bundle_import). Let the script of the lists run again until "
        "it says that it is complete, and copy what it fetched again.",
        "zh": "{folders}（bundle_import）的 images/ 下没有任何归档包含镜像 {images}。请重新运行列表脚本，直到它提示已完成，然后重新复制其下载的内容。",
    },
    # Fetching what a bundle shall hold
    "artefact_missing": {
        "en": "{source} ({kind}) is neither a file nor a folder with files. Look at bundle_artefacts.",
        "zh": "{source}（{kind}）既不是文件，也不是含有文件的目录。请检查 bundle_artefacts。",
    },
    "compress_failed": {
        "en": "{source} cannot be compressed to {dest}: {reason}. Is there room for both?",
        "zh": "无法将 {source} 压缩为 {dest}：{reason}。磁盘空间是否足够同时存放两者？",
    },
    "fetch_no_answer": {"en": "{url}: {reason}", "zh": "{url}：{reason}"},
    "fetch_failed": {"en": "{path} could not be fetched:\n{answers}", "zh": "无法获取 {path}：\n{answers}"},
    "fetch_incomplete": {
        "en": "{failures}\nRun this again: what has arrived, also of half a file, is not fetched again.",
        "zh": "{failures}\n请重新运行：已到达的内容（包括文件的一部分）不会重复下载。",
    },
    "source_no_model": {
        "en": "{source} holds no config.json, so it is no model that vLLM serves: {files}",
        "zh": "{source} 中没有 config.json，因此不是 vLLM 可服务的模型：{files}",
    },
    "source_no_client": {
        "en": "Python's {module} is not installed for the Python that runs Ansible ({python}). Install it with\n"
        "  {python} -m pip install {package}\nor take the model from a folder: bundle_artefacts, or bundle_model_sources with a path.",
        "zh": "运行 Ansible 的 Python（{python}）未安装 {module}。请安装：\n"
        "  {python} -m pip install {package}\n或从目录获取模型：bundle_artefacts，或在 bundle_model_sources 中填写路径。",
    },
    "source_refused": {
        "en": "{source} cannot be read from {endpoint} ({variables}_endpoint): {reason}\nIf the model is gated or private, accept its licence "
        "there and put a token into {variables}_token (ansible-vault).",
        "zh": "无法从 {endpoint}（{variables}_endpoint）读取 {source}：{reason}\n如果该模型受限或为私有，请在该网站接受其许可协议，"
        "并将令牌写入 {variables}_token（使用 ansible-vault）。",
    },
    "source_no_apt": {
        "en": "{source}: this machine has no apt-get. Make the bundle on Debian or Ubuntu, or name a folder of packages in bundle_artefacts.",
        "zh": "{source}：本机没有 apt-get。请在 Debian 或 Ubuntu 上制作离线包，或在 bundle_artefacts 中指定软件包目录。",
    },
    "source_no_keyring": {
        "en": "{source}: the keyring {keyring}, which the packages' signatures are checked with, is not there. Install it "
        "(debian-archive-keyring or ubuntu-keyring), or say in bundle_os_keyrings where it is.",
        "zh": "{source}：找不到用于校验软件包签名的密钥环 {keyring}。请安装（debian-archive-keyring 或 ubuntu-keyring），"
        "或在 bundle_os_keyrings 中指定其位置。",
    },
    "source_no_dnf": {
        "en": "{source}: this machine has neither dnf nor docker (for a container that has it). Install one of them, or name a folder of "
        "packages in bundle_artefacts.",
        "zh": "{source}：本机既没有 dnf，也没有 docker（用于运行带 dnf 的容器）。请安装其一，或在 bundle_artefacts 中指定软件包目录。",
    },
    "source_program_failed": {
        "en": "{source}: {program} ended with {status}:\n{said}",
        "zh": "{source}：{program} 以状态 {status} 结束：\n{said}",
    },
    "package_no_name": {"en": "{names}: no name of a package", "zh": "{names}：不是软件包名称"},
    "package_no_digest": {"en": "apt names no SHA-256 of {name}", "zh": "apt 没有给出 {name} 的 SHA-256"},
    "wheel_no_requirement": {
        "en": "bundle_wheels: {names}: no requirement like requests==2.32.3",
        "zh": "bundle_wheels：{names} 不是 requests==2.32.3 这样的依赖声明",
    },
    "engine_no_client": {
        "en": "Docker's client for Python is not installed: {python} -m pip install docker. Or leave bundle_images empty.",
        "zh": "未安装 Docker 的 Python 客户端：{python} -m pip install docker。或将 bundle_images 留空。",
    },
    "engine_no_answer": {
        "en": "Images are pulled and saved by a Docker engine, and none answers on this machine: {reason}. Start one, or set DOCKER_HOST.",
        "zh": "拉取和保存镜像需要 Docker Engine，而本机没有响应：{reason}。请启动它，或设置 DOCKER_HOST。",
    },
    "image_not_pulled": {
        "en": "The image {image} is not in this machine's engine and could not be pulled:\n{answers}\n"
        "Pull, build or load it yourself, or name a mirror in llm_registry_mirrors.",
        "zh": "本机的 Docker Engine 中没有镜像 {image}，且无法拉取：\n{answers}\n请自行拉取、构建或加载，或在 llm_registry_mirrors 中指定镜像站。",
    },
    # A bundle that is not what its manifest says
    "faults_header": {
        "en": "The bundle {bundle} is not what its manifest says. No host has been touched.",
        "zh": "离线包 {bundle} 与其 manifest 不符。尚未改动任何主机。",
    },
    "faults_remedy": {
        "en": "Copy these files again from where the bundle was made, or make it again there: playbooks/bundle.yml.",
        "zh": "请从制作离线包的机器重新复制这些文件，或在那里重新制作：playbooks/bundle.yml。",
    },
    "fault_missing": {"en": "missing", "zh": "缺失"},
    "fault_link": {
        "en": "a link, which may lead anywhere, instead of a file",
        "zh": "是链接（可能指向任意位置），而不是文件",
    },
    "fault_size": {"en": "wrong size", "zh": "大小不符"},
    "fault_corrupt": {
        "en": "corrupt: its SHA-256 is not that of the manifest",
        "zh": "已损坏：SHA-256 与 manifest 不符",
    },
    "fault_swapped": {"en": "swapped with another file", "zh": "与其他文件互换"},
    "fault_extra": {
        "en": "extra: not in the manifest, and used by nothing",
        "zh": "多余：不在 manifest 中，不会被使用",
    },
    "images_not_bundled": {
        "en": "The bundle {bundle} does not hold the image {images} that {host} needs.",
        "zh": "离线包 {bundle} 中没有 {host} 所需的镜像 {images}。",
    },
    "images_not_bundled_allowed": {
        "en": "an image of the bundle; or add it to bundle_images and run playbooks/bundle.yml again",
        "zh": "离线包中的镜像；或将其加入 bundle_images 并重新运行 playbooks/bundle.yml",
    },
    # What is inside an image
    "image_driver": {"en": "lowest driver {lowest}", "zh": "最低驱动版本 {lowest}"},
    "image_libraries": {
        "en": "library          parts  built for (in few parts only)",
        "zh": "库               部分数  构建目标（仅少数部分包含）",
    },
    "image_strays": {"en": "few: {names}", "zh": "少数：{names}"},
    "image_serves": {
        "en": "vLLM and torch hold code for the compute capabilities {gpus}, and for later ones of the same first number.",
        "zh": "vLLM 与 torch 均包含适用于计算能力 {gpus} 的代码，也适用于主版本号相同的更高计算能力。",
    },
    "image_serves_none": {
        "en": "There is no GPU that both vLLM and torch hold CUDA code for.",
        "zh": "没有 vLLM 与 torch 均包含其 CUDA 代码的 GPU。",
    },
    "image_unreadable": {
        "en": "{path} cannot be read as an archive of images: {reason}",
        "zh": "无法将 {path} 作为镜像归档读取：{reason}",
    },
    "image_nowhere": {
        "en": "{reference} is neither a file on this machine nor an image of its engine ({reason}). Allowed: an archive written by "
        "'docker save', or an image that 'docker images' lists.",
        "zh": "{reference} 既不是本机上的文件，也不是本机 Docker Engine 中的镜像（{reason}）。允许：由 docker save 写出的归档，"
        "或 docker images 列出的镜像。",
    },
    # The images of a bundle, against GPUs and driver
    "images_header": {
        "en": "Problems with the images of the bundle: {count}. They would not run where they are going.",
        "zh": "离线包中的镜像存在 {count} 个问题，它们无法在目标主机上运行。",
    },
    "image_without_cuda": {
        "en": "The image of the deployment {deployment} holds no CUDA code of vLLM or torch, so it can use no GPU.",
        "zh": "部署 {deployment} 的镜像中没有 vLLM 或 torch 的 CUDA 代码，无法使用任何 GPU。",
    },
    "image_without_cuda_allowed": {"en": "{advice}", "zh": "{advice}"},
    "image_without_code": {
        "en": "The image of the deployment {deployment} holds no code for its GPUs of compute capability {capability}; it is built for {holds}.",
        "zh": "部署 {deployment} 的镜像中没有适用于其计算能力为 {capability} 的 GPU 的代码；其构建目标为 {holds}。",
    },
    "image_without_code_allowed": {"en": "{advice}", "zh": "{advice}"},
    "image_needs_driver": {
        "en": "The driver of the deployment {deployment} is too old for its image {image}: CUDA {cuda} needs {lowest} or newer.",
        "zh": "部署 {deployment} 的驱动对其镜像 {image} 来说过旧：CUDA {cuda} 需要 {lowest} 或更新的驱动。",
    },
    "image_needs_driver_allowed": {
        "en": "nvidia_driver_version {lowest} or newer, with such a driver in the bundle; or with this one: {advice}",
        "zh": "nvidia_driver_version 不低于 {lowest}，并将该驱动放入离线包；若继续使用现有驱动：{advice}",
    },
    "image_advice": {
        "en": "vllm_version {newest}, the newest release whose official image works here; or an image of your own that is built for these GPUs",
        "zh": "vllm_version {newest}，即官方镜像可在此运行的最新版本；或自行为这些 GPU 构建镜像",
    },
    "image_advice_best": {
        "en": "vllm_version {best}, which serves these GPUs best, up to {newest}, the newest release whose official image works here; or an"
        " image of your own that is built for these GPUs",
        "zh": "vllm_version {best}（最适合这些 GPU），最高到 {newest}（官方镜像可在此运行的最新版本）；或自行为这些 GPU 构建镜像",
    },
    "image_advice_no_driver": {
        "en": "no official image runs with the driver {driver}; install a newer one",
        "zh": "没有官方镜像可使用驱动 {driver}；请安装更新的驱动",
    },
    "image_advice_none": {
        "en": "an image of your own that is built for these GPUs ({gpus}); no official one is",
        "zh": "自行为这些 GPU（{gpus}）构建镜像；没有适用的官方镜像",
    },
    # The all-reduce over every rank
    "collective_limited": {
        "en": "The all-reduce over every rank of {deployment} is not done: {outside} are not part of this run.",
        "zh": "未对 {deployment} 的所有 rank 执行 all-reduce：{outside} 不在本次运行中。",
    },
    "collective_limited_allowed": {
        "en": "--limit with all of {hosts}, or none",
        "zh": "--limit 包含全部 {hosts}，或不使用 --limit",
    },
    "collective_failed": {
        "en": "{deployment}: the all-reduce over {hosts} failed on {host}:\n{log}",
        "zh": "{deployment}：{hosts} 的 all-reduce 在 {host} 上失败：\n{log}",
    },
    "collective_failed_allowed": {
        "en": "every rank comes and has the right sums: one that does not come is kept away by a network or a firewall; wrong sums are of a GPU"
        " or what joins it to others",
        "zh": "所有 rank 到齐且求和正确：rank 未到通常是网络或防火墙问题；求和错误则是某块 GPU 或其互连有问题",
    },
    # The first token
    "token_none": {
        "en": "{deployment} generated no token within {seconds} s (vllm_start_seconds): {reason}\n"
        "The end of 'docker logs llm-vllm' on {host}:\n{log}",
        "zh": "{deployment} 在 {seconds} 秒内（vllm_start_seconds）没有生成 token：{reason}\n{host} 上 docker logs llm-vllm 的末尾：\n{log}",
    },
    "token_none_allowed": {
        "en": "a server whose log names no error: docs/troubleshooting.md lists what it may say; where it only loads slowly, a larger"
        " vllm_start_seconds. The containers go on trying",
        "zh": "日志中没有错误的服务：可能的内容见 docs/troubleshooting.md；如果只是加载较慢，请增大 vllm_start_seconds。容器会继续尝试",
    },
    # The hosts that shall form a cluster
    "cluster_lost": {
        "en": "{host} failed or did not answer earlier in this run, and the plan of its deployment needs it. Its own message above says why.",
        "zh": "{host} 在本次运行中已失败或无响应，而其部署的计划需要它。原因见上文中它自己的消息。",
    },
    "cluster_no_ray": {
        "en": "{host}: the image holds no Ray ({found}). Set vllm_executor to mp (vLLM 0.11.1 and later), or take an image with Ray.",
        "zh": "{host}：镜像中没有 Ray（{found}）。将 vllm_executor 设为 mp（vLLM 0.11.1 及以上），或使用带 Ray 的镜像。",
    },
    "cluster_versions": {
        "en": "{host} would run {found}, and the head {head} runs {wanted}. All hosts need the same: bring the same image there"
        " (playbooks/images.yml).",
        "zh": "{host} 将运行 {found}，而头节点 {head} 为 {wanted}。所有主机必须一致：在该主机上加载同一镜像（playbooks/images.yml）。",
    },
    "cluster_absent": {
        "en": "{deployment}: not all hosts joined the Ray cluster at {head} within {seconds} s.\n{reasons}",
        "zh": "{deployment}：并非所有主机都在 {seconds} 秒内加入 {head} 的 Ray 集群。\n{reasons}",
    },
    "cluster_absent_allowed": {
        "en": "{hosts} in the cluster: mend what is said above; where a host is only slow, a larger ray_wait_seconds",
        "zh": "{hosts} 均在集群中：请解决上述问题；如果主机只是较慢，请增大 ray_wait_seconds",
    },
    "cluster_absent_unreachable": {
        "en": "{host} does not answer the controller",
        "zh": "{host} 不响应控制端",
    },
    "cluster_absent_no_container": {
        "en": "{host} has no container {container}",
        "zh": "{host} 上没有容器 {container}",
    },
    "cluster_absent_version": {
        "en": "{host} runs another release of Ray or Python than the head: {line}",
        "zh": "{host} 的 Ray 或 Python 版本与头节点不同：{line}",
    },
    "cluster_absent_token": {
        "en": "{host} has another Ray token than the head, or none: run playbooks/serve.yml for all hosts of the deployment, without --limit",
        "zh": "{host} 的 Ray 令牌与头节点不同，或没有令牌：对该部署的所有主机运行 playbooks/serve.yml，不加 --limit",
    },
    "cluster_absent_no_way_to_head": {
        "en": "{host} does not reach the head's port {head}: a firewall, or a network that does not carry it"
        " (llm_cluster_network, ray_port)",
        "zh": "{host} 无法访问头节点端口 {head}：防火墙，或所选网络不通（llm_cluster_network、ray_port）",
    },
    "cluster_absent_no_way_back": {
        "en": "the head does not reach port {port} of {host} ({address}), though {host} reaches the head: a firewall in one direction"
        " (ray_node_manager_port)",
        "zh": "{host} 可访问头节点，但头节点无法访问 {host}（{address}）的端口 {port}：防火墙单向拦截（ray_node_manager_port）",
    },
    "cluster_absent_address": {
        "en": "{host} joined with the address {found}, and {address} was agreed: see llm_cluster_network and llm_cluster_interface",
        "zh": "{host} 以地址 {found} 加入，而约定的是 {address}：见 llm_cluster_network 与 llm_cluster_interface",
    },
    "cluster_absent_gpus": {
        "en": "{host} joined with {found} GPUs, and the plan counts {wanted}",
        "zh": "{host} 加入时有 {found} 块 GPU，而计划为 {wanted} 块",
    },
    "cluster_absent_unknown": {"en": "{host} did not join", "zh": "{host} 未加入"},
    "cluster_absent_state": {"en": "its container is {state}", "zh": "其容器状态：{state}"},
    "cluster_absent_log": {"en": "the end of its log:", "zh": "其日志末尾："},
}

_NAMES_SHOWN = 8
_VALUE_SHOWN = 200


def language(value: Any) -> str:
    """The language to speak: the value if it is one of ours, else English."""
    return value if isinstance(value, str) and value in LANGUAGES else "en"


def message(code: str, lang: str = "en", **values: Any) -> str:
    """The text of a code in a language, its placeholders filled in."""
    return MESSAGES[code][language(lang)].format(**values)


def names(items: Sequence[Any], lang: str = "en", limit: int = _NAMES_SHOWN) -> str:
    """A list of names as people write it, cut where it would fill the screen."""
    texts = [str(item) for item in items]
    if not texts:
        return message("nothing_there", lang)
    if len(texts) <= limit:
        return ", ".join(texts)
    return message("and_more", lang, names=", ".join(texts[:limit]), count=len(texts) - limit)


def shown(value: Any, lang: str = "en") -> str:
    """A value as it would stand in an inventory, in one line."""
    if value is None or value == "":
        return message("nothing", lang)
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str):
        text = '"{0}"'.format(value)
    elif isinstance(value, Mapping):
        text = "{" + ", ".join("{0}: {1}".format(key, shown(item, lang)) for key, item in value.items()) + "}"
    elif isinstance(value, (list, tuple)):
        text = "[" + ", ".join(shown(item, lang) for item in value) + "]"
    else:
        text = str(value)
    text = " ".join(text.split())
    return text if len(text) <= _VALUE_SHOWN else text[: _VALUE_SHOWN - 3] + "..."


def problem(code: str, lang: str = "en", value: str = "", where: str = "", **values: Any) -> dict[str, str]:
    """A refusal: its code and the four things that it has to say. ``value`` and ``where`` are texts already."""
    return {
        "code": code,
        "what": message(code, lang, **values),
        "value": value or message("nothing", lang),
        "where": where or message("where_inventory", lang),
        "allowed": message(code + "_allowed", lang, **values),
    }


def render(problems: Sequence[Mapping[str, str]], lang: str = "en", header: str | None = None) -> str:
    """All problems as one text of several lines, for a terminal."""
    if header is None:
        code = "problems_header_one" if len(problems) == 1 else "problems_header"
        header = MESSAGES[code][language(lang)].format(count=len(problems))
    labels = [(key, message("label_" + key, lang)) for key in ("value", "where", "allowed")]
    width = max(len(label) for _key, label in labels)
    lines: list[str] = [header]
    for number, entry in enumerate(problems, start=1):
        mark = "{0}. ".format(number)
        indent = " " * len(mark)
        lines += ["", mark + entry["what"]]
        for key, label in labels:
            pad = "　" if language(lang) == "zh" else " "
            lines.append(indent + label + pad * (width - len(label)) + (" " if pad == " " else "") + entry[key])
    return "\n".join(lines)


class Refused(Exception):
    """Why something cannot be done, as a code of the catalogue: whoever catches it knows in which language to say so."""

    def __init__(self, code: str, **values: Any) -> None:
        super().__init__(message(code, **values))
        self.code = code
        self.values = values


def reason(error: Exception, lang: str = "en") -> str:
    """The text of an error, in the language if the catalogue has it. What others raise is as they wrote it."""
    return message(error.code, lang, **error.values) if isinstance(error, Refused) else str(error)
