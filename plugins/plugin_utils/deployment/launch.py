# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is started on each host of a deployment: Ray's node, vLLM, its probe, the all-reduce, the benchmark. Plain data for the roles."""

from __future__ import annotations

import functools
import ipaddress
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import container_user
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.devices import DEVICES
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import gpus_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import (
    folder_of,
    folders_outside,
    needed_models,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names_on
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.serving import FILES, FOLDER, answers_with, pools
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.work import digest
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import error_text, language, message
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.environment import (
    cluster_environment,
    hosts_of,
    p2p_missing,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.launch import joins_hosts, launch, ranked_hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import unknown_option
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key, resolve_release

GIB = 1 << 30
# What vLLM's benchmark may take: it loads torch and the tokenizer, and holds its requests.
BENCHMARK_MEMORY = "8g"
# Where the containers see what the host lends them.
SCRIPTS, SECRETS, RAY_TOKEN = "/llm", "/run/secrets", "/run/secrets/ray_token"
# What is compiled when an engine starts, kept for the next start also where the container is another one: torch.compile's graphs and what else
# vLLM caches (vllm/envs.py, since 0.5.3.post1), kernels of Triton (triton/runtime/cache.py), Inductor (torch/_inductor/runtime/cache_dir_utils.py),
# FlashInfer (flashinfer/jit/env.py) and CUDA's own compiler (CUDA programming guide, environment variables).
CACHE = "/var/cache/llm"
CACHES = {
    "VLLM_CACHE_ROOT": f"{CACHE}/vllm",
    "TRITON_CACHE_DIR": f"{CACHE}/triton",
    "TORCHINDUCTOR_CACHE_DIR": f"{CACHE}/inductor",
    "FLASHINFER_WORKSPACE_BASE": CACHE,
    "CUDA_CACHE_PATH": f"{CACHE}/cuda",
}
# vLLM's options, where the release reads them from a file. It lies in the folder of the scripts.
CONFIG_FILE = "vllm.yaml"
# The last word of the probe, which the server hands on to gateways.
PROBE = "/run/llm-probe"
# Ray gets a twentieth of the host's memory for its objects, within these bounds.
OBJECT_STORE_SHARE, OBJECT_STORE_GIB = 20, (1, 8)
# A program in a container gets no rights that it was not started with, such as those of a setuid program.
SECURITY = ["no-new-privileges"]
# What a server offers outside of /v1 that answers with this: its clients need it, as the probe does.
KIND_PATHS = {"class": ("/classify",), "pooled": ("/pooling",)}
RDMA_DEVICES = "/dev/infiniband:/dev/infiniband"
# How often a node asks its head whether it still belongs to the cluster. By itself it learns only after a minute that another head has come
# (NodeManager.GcsCheckAlive in src/ray/raylet/node_manager.cc), and until then its GPUs are missing.
RAY_LIVENESS = {"RAY_raylet_liveness_self_check_interval_ms": "5000"}
# Engines before 23 never end what runs in a container that is restarted meanwhile, as the probe may do: who waits for it waits for ever.
RAY_EXEC = ["timeout", "60", "docker", "exec"]


def object_store_gib(variables: Mapping[str, Any]) -> float:
    """In whole GiB: kernels count a host's memory differently by some MiB, and another number would restart Ray and load the model again."""
    said = variables.get("ray_object_store_memory_gib")
    if said is not None:
        return float(said)
    memory_mib = (variables.get("ansible_facts") or {}).get("llm_memory_mib") or 0
    least, most = OBJECT_STORE_GIB
    return min(max(round(memory_mib / 1024 / OBJECT_STORE_SHARE), least), most)


def model_path(variables: Mapping[str, Any]) -> str:
    """Where the model lies on its hosts."""
    return folder_of(variables, str(variables["vllm_model"]))


@dataclass(frozen=True)
class Deployment:
    """One deployment whose hosts agreed on a network.

    ``variables`` holds for each host its variables, defaults included, with ``ansible_facts`` and ``llm_interface``.
    """

    name: str
    head: str
    hosts: Sequence[str]
    plan: Mapping[str, Any]
    image: str
    variables: Mapping[str, Mapping[str, Any]]
    # The content of the small files that the server reads, by name.
    files: Mapping[str, str] = field(default_factory=dict)
    # What things are called on each host, as deployment/names.py has it.
    names: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def by_ray(self) -> bool:
        return bool(self.plan["executor"] == "ray")

    @functools.cached_property
    def planned(self) -> list[str]:
        """The hosts with ranks, in rank order."""
        return ranked_hosts(self.plan["nodes"])

    @functools.cached_property
    def joins_hosts(self) -> bool:
        return joins_hosts(self.plan["executor"], self.plan["nodes"])

    @functools.cached_property
    def gpus(self) -> dict[str, int]:
        """How many GPUs the plan counts on each host; others of the host stay free."""
        return {node["host"]: len(node["ranks"]) for node in self.plan["nodes"] if node["ranks"]}

    def address(self, host: str) -> str:
        return str((self.variables[host].get("llm_interface") or {}).get("address") or "")

    @property
    def ray_address(self) -> str:
        return f"{self.address(self.head) or self.head}:{self.variables[self.head]['ray_port']}"

    @functools.cached_property
    def network_hosts(self) -> dict[str, dict[str, Any]]:
        return hosts_of(self.hosts, self.variables)

    @functools.cached_property
    def etc_hosts(self) -> dict[str, str]:
        """A name for the address of each rank's host, which is of no other use.

        torch asks who each address of another rank is, in the form that a socket for both kinds of IP shows it, which no usual entry of
        a hosts file has (torch/csrc/distributed/c10d/socket.cpp). A name server that does not answer costs 10 s each time.
        """
        if len(self.planned) < 2:
            return {}
        names = {f"{host}.rank": _mapped(self.address(host)) for host in self.planned}
        if release_key(self.vllm_version) < release_key(changes.HOST_IP_SINCE):
            # The route to that name is how these releases learn their own address.
            names[changes.ADDRESS_NAME] = self.address(self.head)
        return names

    @property
    def vllm_version(self) -> str:
        return str(self.variables[self.head]["vllm_version"])

    @functools.cached_property
    def launch(self) -> dict[str, dict[str, Any]]:
        """vLLM's command line and environment on each host that runs it."""
        mine = self.variables[self.head]
        settings = dict(self.plan["settings"])
        facts = [self.variables[host].get("ansible_facts") or {} for host in self.hosts]
        if p2p_missing(each.get("llm_gpu_p2p") for each in facts):
            if unknown_option("disable_custom_all_reduce", resolve_release(mine["vllm_version"])) is None:
                settings.setdefault("disable_custom_all_reduce", True)
        service = {
            "head": self.head,
            "model": model_path(mine),
            "served_model_name": mine.get("vllm_served_model_name") or mine["vllm_model"],
            "port": mine["vllm_port"],
            "master_port": mine["vllm_master_port"],
            "addresses": {host: self.address(host) for host in self.planned},
            "ray_address": self.ray_address,
            "config_file": f"{SCRIPTS}/{CONFIG_FILE}",
        }
        return launch(settings, mine["vllm_version"], self.plan["executor"], self.plan["nodes"], service)

    @functools.cached_property
    def uid(self) -> int:
        """The user of all containers."""
        return container_user.container_uid(self.variables[self.head], [self.variables[host] for host in self.hosts])

    def of(self, host: str) -> Member:
        return Member(self, host, self.variables[host])


@dataclass(frozen=True)
class Member:
    """One host of a deployment."""

    deployment: Deployment
    host: str
    variables: Mapping[str, Any]

    @property
    def is_head(self) -> bool:
        return self.host == self.deployment.head

    @property
    def address(self) -> str:
        return self.deployment.address(self.host)

    @functools.cached_property
    def names(self) -> dict[str, Any]:
        """What the containers and units of the deployment are called on this host."""
        return names_on(self.host, self.deployment.names)

    @property
    def folder(self) -> str:
        """Everything of the deployment that is not shared with others of the machine."""
        return f"{self.variables['llm_host_dir']}{self.names['folder']}"

    def enabled(self, variable: str) -> bool:
        return is_true(self.variables[variable])

    def sections(self) -> dict[str, Any]:
        """What the roles ray and vllm read."""
        interface = self.variables.get("llm_interface") or {}
        return {
            "is_head": self.is_head,
            "image": self.deployment.image,
            # The container of the head, which may be outside of this run.
            "server": names_on(self.deployment.head, self.deployment.names)["vllm"],
            "interface": interface.get("interface"),
            "address": self.address,
            "tmp": {"path": self.tmp, "uid": self.deployment.uid},
            "cache": self.cache,
            "user_check": container_user.check_command(self.deployment.uid, self.deployment.image, self.model_folders),
            "ray": self.ray(),
            "vllm": self.vllm(),
        }

    # -- what both containers have ------------------------------------------------------------------------------------
    @functools.cached_property
    def environment(self) -> dict[str, Any]:
        """One decision, made where the network was verified, for everything that opens a connection between hosts."""
        hosts = self.deployment.network_hosts
        found: dict[str, Any] = cluster_environment(self.host, hosts) if self.host in hosts else {}
        if "VLLM_HOST_IP" in found and release_key(self.deployment.vllm_version) < release_key(
            changes.VLLM_HOST_IP_SINCE
        ):
            found["HOST_IP"] = found["VLLM_HOST_IP"]
        found |= {
            "NVIDIA_VISIBLE_DEVICES": str(self.variables.get(DEVICES) or "all"),
            "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        if not self.enabled("ray_memory_monitor_enabled"):
            found["RAY_memory_monitor_refresh_ms"] = "0"
        if self.deployment.by_ray:
            found |= self.ray_token_environment
        if self.deployment.uid != container_user.ROOT:
            found |= container_user.ENVIRONMENT
        found |= {**self.variables["vllm_environment"], **self.variables["ray_environment"]}
        return {name: value if isinstance(value, (bool, str)) else str(value) for name, value in found.items()}

    @property
    def ray_token_environment(self) -> dict[str, str]:
        """Ray reads its token from a file, so that neither a process list nor 'docker inspect' shows it.

        Since Ray 2.52: https://docs.ray.io/en/latest/ray-security/token-auth.html. Older releases ignore the variables.
        """
        if self.enabled("ray_token_enabled"):
            return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": RAY_TOKEN}
        return {"RAY_AUTH_MODE": "disabled"}

    @property
    def ray_metrics_environment(self) -> dict[str, str]:
        """Where the monitor and the dashboard of a head show their metrics.

        python/ray/autoscaler/_private/constants.py and python/ray/dashboard/consts.py read these; there is no option for them.
        """
        return {
            "AUTOSCALER_METRIC_PORT": str(self.variables["ray_monitor_metrics_port"]),
            "DASHBOARD_METRIC_PORT": str(self.variables["ray_dashboard_metrics_port"]),
        }

    @property
    def volumes(self) -> list[str]:
        """The two containers of a head see the same /tmp: Ray's session and vLLM's sockets lie there."""
        extra = [f"{volume.removesuffix(':ro')}:ro" for volume in map(str, self.variables["vllm_extra_volumes"])]
        own = [f"{self.folder}/scripts:{SCRIPTS}:ro", f"{self.tmp}:/tmp", f"{self.cache}:{CACHE}"]
        return [*own, *self.model_volumes, *extra]

    @property
    def model_volumes(self) -> list[str]:
        folders = [self.variables["models_dir"], *folders_outside(self.variables)]
        return [f"{folder}:{folder}:ro" for folder in folders]

    @property
    def tmp(self) -> str:
        """A folder for each user: what one of them left, another one may neither use nor remove."""
        uid = self.deployment.uid
        return f"{self.folder}/tmp" + (f"-{uid}" if uid != container_user.ROOT else "")

    @property
    def cache(self) -> str:
        """A folder for each user, image and kind of GPU, so that what an image compiled goes when the image goes."""
        image = re.sub(r"[^A-Za-z0-9.]+", "-", self.deployment.image.rpartition("/")[2])
        kinds = sorted({str(gpu["compute_capability"]) for gpu in gpus_of(self.variables)})
        return f"{self.folder}/cache/{image}-{'-'.join(kinds)}-{self.deployment.uid}"

    @property
    def model_folders(self) -> list[str]:
        """The folders of the deployment's models, each once."""
        return [*dict.fromkeys(folder_of(self.variables, model) for model in needed_models(self.variables))]

    @property
    def ray_token_volumes(self) -> list[str]:
        if self.enabled("ray_token_enabled") and self.deployment.by_ray:
            return [f"{self.folder}/secrets/ray_token:{RAY_TOKEN}:ro"]
        return []

    @property
    def key_file(self) -> str:
        return f"{self.folder}/secrets/vllm_api_key"

    def container(self, entrypoint: list[str], command: list[str]) -> dict[str, Any]:
        """What differs between hosts and containers; the rest stands in the tasks."""
        return {
            "image": self.deployment.image,
            # Also where it is root: an image may name a user of its own, who could not read the secrets.
            "user": self.user,
            "entrypoint": entrypoint,
            "command": command,
            "environment": {**CACHES, **self.environment},
            "volumes": self.volumes + self.ray_token_volumes,
            "etc_hosts": self.deployment.etc_hosts,
            "devices": self.devices,
            "ulimits": self.ulimits,
            "security_opts": SECURITY,
            "cap_drop": ["ALL"],
            "capabilities": self.capabilities,
            "pids_limit": int(self.variables["ray_pids_limit"]),
            "memory": self.memory,
        }

    @property
    def devices(self) -> list[str]:
        """What containers need of the host for RDMA, where every host of the deployment has it."""
        return [RDMA_DEVICES] if str(self.environment.get("NCCL_IB_DISABLE", "1")) == "0" else []

    @property
    def user(self) -> str:
        return f"{self.deployment.uid}:{container_user.GID}"

    @property
    def capabilities(self) -> list[str]:
        """What is left of root's rights, without the CAP_ that engines before 19.03 do not know; another user has none."""
        if self.deployment.uid != container_user.ROOT:
            return []
        return [str(name) for name in self.variables["ray_capabilities"]]

    @property
    def memory(self) -> str:
        """In bytes; empty for all that the host has."""
        gib = self.variables.get("ray_memory_limit_gib")
        return str(int(float(gib) * GIB)) if gib is not None else ""

    @property
    def ulimits(self) -> list[str]:
        locked = ["memlock:-1:-1"] if self.enabled("ray_memory_lock_enabled") else []
        return [*self.variables["ray_ulimits"], *locked]

    # -- Ray ----------------------------------------------------------------------------------------------------------
    def ray(self) -> dict[str, Any]:
        gpus = self.deployment.gpus.get(self.host, 0)
        container = self.container(["/bin/bash", f"{SCRIPTS}/start-ray.sh"], self.ray_command(gpus))
        metrics = self.ray_metrics_environment if self.is_head else {}
        container["environment"] = {**RAY_LIVENESS, **metrics, **container["environment"]}
        return {
            "needed": self.deployment.by_ray and gpus > 0,
            "container": container,
            "address": self.deployment.ray_address,
            "exec": [*RAY_EXEC, self.names["ray"]],
            "planned_gpus": self.deployment.gpus,
            "addresses": {host: self.deployment.address(host) for host in self.deployment.planned},
            "containers": {host: names_on(host, self.deployment.names)["ray"] for host in self.deployment.planned},
        }

    def ray_command(self, gpus: int) -> list[str]:
        mine = self.variables
        ports = (
            *("node_manager_port", "object_manager_port", "runtime_env_agent_port", "dashboard_agent_grpc_port"),
            *("dashboard_agent_listen_port", "metrics_export_port", "min_worker_port", "max_worker_port"),
        )
        return [
            *(self.ray_head_options() if self.is_head else [f"--address={self.deployment.ray_address}"]),
            "--block",
            f"--node-ip-address={self.address}",
            f"--num-gpus={gpus}",
            f"--resources={json.dumps({f'host:{self.host}': 1})}",
            f"--object-store-memory={int(object_store_gib(mine) * GIB)}",
            *(f"--{name.replace('_', '-')}={mine[f'ray_{name}']}" for name in ports),
            *([f"--num-cpus={mine['ray_num_cpus']}"] if mine.get("ray_num_cpus") is not None else []),
        ]

    def ray_head_options(self) -> list[str]:
        mine = self.variables
        options = ["--head", f"--port={mine['ray_port']}", f"--ray-client-server-port={mine['ray_client_port']}"]
        if not self.enabled("ray_dashboard_enabled"):
            return [*options, "--include-dashboard=false"]
        where = [f"--dashboard-host={mine['ray_dashboard_host']}", f"--dashboard-port={mine['ray_dashboard_port']}"]
        return [*options, "--include-dashboard=true", *where]

    # -- vLLM ---------------------------------------------------------------------------------------------------------
    def vllm(self) -> dict[str, Any]:
        started = self.deployment.launch.get(self.host)
        return {
            "needed": started is not None,
            "container": self.vllm_container(started) if started else {},
            "config": self.config_file(started or {}),
            "files": self.files,
            # Of all that the server reads when it starts: where it is another one, the container is another one.
            "reads": digest([(started or {}).get("config"), self.files]),
            "url": self.url,
            "ask": [
                *("/usr/bin/env", "python3", f"{self.folder}/scripts/ask.py"),
                *([] if self.kind == "token" else [f"--kind={self.kind}"]),
                *(self.url, self.served_model_name),
            ],
            "served_model_name": self.served_model_name,
            "key_file": self.key_file,
            # The host of each rank. Where Ray spreads them, it says itself where they are.
            "ranks": [node["host"] for node in self.deployment.plan["nodes"] for dummy in node["ranks"]],
            "probe": self.probe(),
            "collective": self.collective(),
            "benchmark": self.benchmark(),
        }

    @property
    def url(self) -> str:
        return f"http://{self.address}:{self.variables['vllm_port']}"

    @functools.cached_property
    def kind(self) -> str:
        """What the server shows that it works with."""
        return answers_with(self.variables.get("vllm_options") or {}, self.deployment.plan.get("model") or {})

    @property
    def served_model_name(self) -> str:
        return str(self.variables.get("vllm_served_model_name") or self.variables["vllm_model"])

    @property
    def master_port(self) -> str:
        return str(self.variables["vllm_master_port"])

    def vllm_container(self, started: Mapping[str, Any]) -> dict[str, Any]:
        """On a worker the program first follows the head's, which begins when the GPUs are there."""
        gpus = sum(self.deployment.gpus.values()) if self.deployment.by_ray else 0
        entrypoint = ["/bin/bash", f"{SCRIPTS}/start-vllm.sh", str(gpus)]
        if not self.is_head:
            head = self.deployment.address(self.deployment.head)
            entrypoint = ["python3", f"{SCRIPTS}/follow_head.py", head, self.master_port]
        container = self.container(entrypoint, (started.get("config") or started)["argv"])
        secrets = self.ray_token_volumes
        if self.enabled("vllm_api_key_enabled") and self.is_head:
            # The folder: a container would not see another file of the same name, and keys change while the server runs.
            secrets = [f"{self.folder}/secrets:{SECRETS}:ro"]
        verdict = [f"{self.names['state']}:{PROBE}:ro"] if self.is_head else []
        container["volumes"] = [*self.volumes, *secrets, *verdict]
        container["environment"] |= started["environment"]
        if self.is_head:
            paths = [*map(str, self.variables["vllm_api_paths"]), *KIND_PATHS.get(self.kind, ())]
            container["environment"]["LLM_API_PATHS"] = " ".join(dict.fromkeys(paths))
        if int(self.variables["vllm_port"]) < container_user.FIRST_FREE_PORT and self.is_head:
            container["capabilities"] = sorted({*self.capabilities, "NET_BIND_SERVICE"})
        # With Ray, its node of this host and vLLM find each other through shared memory and the process list.
        container["pid_mode"] = "host" if self.deployment.by_ray else ""
        return container

    @property
    def files(self) -> list[dict[str, str]]:
        """The small files that the server is started with, by their places on the host; without content those that are not asked for."""
        folder = f"{self.folder}/scripts/{FOLDER}"
        return [{"path": f"{folder}/{name}", "content": self.deployment.files.get(name, "")} for name in FILES.values()]

    def config_file(self, started: Mapping[str, Any]) -> dict[str, Any]:
        """Where the options lie on the host, and what the file holds: nothing for a release that has them on its command line."""
        path = f"{self.folder}/scripts/{CONFIG_FILE}"
        return {"path": path, "content": (started.get("config") or {}).get("content") or {}}

    def probe(self) -> dict[str, Any]:
        """What restarts what is dead, on each host that takes part. On the head it asks for tokens, and says how long a start may take."""
        folder, head, by_ray = f"{self.folder}/probe", self.is_head, self.deployment.by_ray
        start = ["/usr/bin/env", "python3", f"{folder}/llm-probe.py", "--weights", model_path(self.variables)]
        start += ["--measured", f"{folder}/measured.json"]
        command = [*start, "--failures", str(self.variables["vllm_probe_failures"])]
        command += ["--interval", str(self.variables["vllm_probe_interval_seconds"])]
        # Where a machine has several, each deployment has a probe of its own, with names of its own.
        if self.names["suffix"]:
            command += [f"--suffix={self.names['suffix']}", "--state", f"{self.names['state']}/state.json"]
        # What a member that freezes would never tell: Ray's own processes, or the program that follows the head.
        if by_ray:
            command += ["--watch", "llm-ray:raylet,gcs_server"]
        elif not head:
            command += ["--watch", "llm-vllm"]
        if head:
            command += self.probe_of_server()
        return {
            "needed": head or self.host in self.deployment.planned,
            "folder": folder,
            "start": start,
            "command": command,
        }

    def probe_of_server(self) -> list[str]:
        command = ["--url", self.url, "--model", self.served_model_name]
        if self.kind != "token":
            command += ["--kind", self.kind]
        if self.enabled("vllm_api_key_enabled"):
            command += ["--key", self.key_file]
        if self.deployment.joins_hosts:
            command += ["--followers", str(len(self.deployment.planned) - 1), "--meeting-port", self.master_port]
        if self.deployment.by_ray:
            command += ["--cluster", self.deployment.ray_address, "--below", "llm-ray", "--above", "llm-vllm"]
        if self.variables.get("vllm_start_seconds") is not None:
            command += ["--start-seconds", str(self.variables["vllm_start_seconds"])]
        return command

    def collective(self) -> dict[str, Any]:
        """The all-reduce over every rank, run by hand as the service's containers are by the engine."""
        nodes = self.deployment.plan["nodes"]
        ranks: list[int] = next((node["ranks"] for node in nodes if node["host"] == self.host), [])
        count = sum(self.deployment.gpus.values())
        if not self.enabled("vllm_collective_enabled") or count < 2 or not ranks:
            return {"possible": False}
        program = f"{self.folder}/collective.py"
        where = [self.deployment.address(self.deployment.head), str(self.variables["vllm_collective_port"])]
        return {
            "possible": True,
            "hosts": self.deployment.planned,
            "program": program,
            # The environment may hold secrets: it comes through standard input, and is on no command line.
            "environment": self.environment,
            "command": [
                *("docker", "run", "--rm", f"--name={self.names['collective']}", "--runtime=nvidia"),
                *("--network=host", "--ipc=host"),
                f"--user={self.user}",
                *("--env-file=/dev/stdin", f"--volume={program}:/llm-collective.py:ro"),
                *(f"--device={device}" for device in self.devices),
                *(f"--security-opt={option}" for option in SECURITY),
                *("--cap-drop=ALL", *(f"--cap-add={name}" for name in self.capabilities)),
                *(f"--ulimit={limit.replace(':', '=', 1)}" for limit in self.ulimits),
                *(f"--add-host={name}:{address}" for name, address in self.deployment.etc_hosts.items()),
                *("--entrypoint=python3", self.deployment.image, "/llm-collective.py", *where),
                *(str(count), str(ranks[0]), str(len(ranks))),
            ],
            **self.links(),
        }

    def benchmark(self) -> dict[str, Any]:
        """vLLM's own benchmark of the server, from a container beside it: what that takes of memory is not the server's."""
        mine = self.variables
        tokens = {name: int(mine[f"vllm_benchmark_{name}_tokens"]) for name in ("input", "output")}
        secrets = [f"--volume={self.folder}/secrets:{SECRETS}:ro"] if self.enabled("vllm_api_key_enabled") else []
        return {
            "problem": self.benchmark_problem(sum(tokens.values())),
            "command": [
                *("docker", "run", "--rm", "--interactive", f"--name={self.names['benchmark']}"),
                *("--network=host", f"--user={self.user}"),
                # It computes nothing on a GPU, and some releases end where they see none: https://github.com/vllm-project/vllm/issues/23967
                *("--runtime=nvidia", "--env=NVIDIA_VISIBLE_DEVICES=all", "--env=NVIDIA_DRIVER_CAPABILITIES=utility"),
                *("--cap-drop=ALL", *(f"--security-opt={option}" for option in SECURITY), "--env=HOME=/tmp"),
                *("--env=HF_HUB_OFFLINE=1", f"--memory={BENCHMARK_MEMORY}", f"--pids-limit={mine['ray_pids_limit']}"),
                *secrets,
                *(f"--volume={volume}" for volume in self.model_volumes),
                *("--entrypoint=/bin/bash", self.deployment.image, "-s", "--"),
                str(mine["vllm_benchmark_timeout_seconds"]),
                *(f"--base-url={self.url}", f"--model={self.served_model_name}", f"--tokenizer={self.tokenizer}"),
                *("--dataset-name=random", *(f"--random-{name}-len={count}" for name, count in tokens.items())),
                *("--ignore-eos", f"--num-prompts={mine['vllm_benchmark_requests']}"),
                f"--max-concurrency={mine['vllm_benchmark_concurrency']}",
                *("--percentile-metrics=ttft,itl", "--metric-percentiles=99", "--disable-tqdm"),
            ],
        }

    def benchmark_problem(self, tokens: int) -> str:
        """Why the benchmark cannot run, or nothing."""
        lang, version = language(self.variables["llm_language"]), self.deployment.vllm_version
        where = message("where_group", lang, group=self.deployment.name)
        if release_key(version) < release_key(changes.BENCHMARK_SINCE):
            return error_text("benchmark_release", lang, version, where, since=changes.BENCHMARK_SINCE)
        if pools(self.variables.get("vllm_options") or {}):
            return error_text("benchmark_pooling", lang, str(self.variables["vllm_options"]), where)
        length = int(self.deployment.plan["settings"].get("max_model_len", tokens))
        if tokens > length:
            return error_text("benchmark_too_long", lang, str(tokens), where, length=length)
        return ""

    @property
    def tokenizer(self) -> str:
        """The folder of the tokenizer on the hosts."""
        return folder_of(self.variables, str(self.variables.get("vllm_tokenizer") or self.variables["vllm_model"]))

    def links(self) -> dict[str, Any]:
        """What the slowest link between the hosts claims to carry, or on one host the GPUs' own; None where no driver says."""
        planned = self.deployment.planned
        fabric = (self.variables.get("ansible_facts") or {}).get("llm_gpu_fabric") or {}
        if len(planned) > 1:
            interfaces = [self.deployment.variables[host].get("llm_interface") or {} for host in planned]
            rates = [int(entry.get("speed_mbps") or 0) for entry in interfaces]
        else:
            rates = [int(fabric.get("mbps") or 0)]
        known = [rate for rate in rates if rate]
        return {
            "link_mbps": min(known) if known else None,
            "link": None if len(planned) > 1 else fabric.get("via"),
        }


def _mapped(address: str) -> str:
    try:
        return f"::ffff:{address}" if ipaddress.ip_address(address).version == 4 else address
    except ValueError:
        return address
