# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs beside the head's Ray, in its container or as its user: prints the cluster's hosts, where the ranks of vLLM run and which of them died, as JSON.

usage: cluster.py ADDRESS [HOST=GPUS...]

With hosts it ends with status 3 unless each of them is in the cluster with so many GPUs.
"""

import json
import logging
import os
import socket
import sys

# Ray's threads write warnings of their own to standard output, about a node that died a minute ago for instance, and the answer has to
# stand there alone. So theirs go where errors go.
answer = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import ray  # noqa: E402
from ray._private.state import state  # noqa: E402
from ray.util import placement_group_table  # noqa: E402

address = sys.argv[1]
host, _colon, port = address.rpartition(":")
try:
    # Ray itself would wait for two minutes.
    socket.create_connection((host, int(port)), timeout=5).close()
except OSError as error:
    sys.exit(f"Ray does not answer at {address}: {error}")
ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
nodes = {}
for node in ray.nodes():
    if node["Alive"]:
        names = [name.partition(":")[2] for name in node["Resources"] if name.startswith("host:")]
        nodes[node["NodeID"]] = {
            "id": node["NodeID"],
            "host": names[0] if names else node["NodeManagerHostname"],
            "address": node["NodeManagerAddress"],
            "gpus": int(node["Resources"].get("GPU", 0)),
        }
ranks = []
for group in placement_group_table().values():
    if group["state"] == "CREATED":
        ranks = [nodes[node]["host"] for _bundle, node in sorted(group["bundles_to_node_id"].items()) if node in nodes]
# What a host tells of its processes is known here at once, while vLLM may wait for minutes for the answer of a rank that is dead. A rank is an
# actor of these classes (vllm/v1/executor/ray_utils.py, ray_executor_v2.py); those of a vLLM that ended died with it. Ray has no public
# name for its tables without the dashboard.
living = {job["JobID"] for job in state.job_table() if not job["IsDead"]}
names = {node["NodeID"]: nodes.get(node["NodeID"], {}).get("host", node["NodeManagerAddress"]) for node in ray.nodes()}
lost = sorted(
    "{0} on {1}".format(actor["ActorClassName"], names.get(actor["Address"]["NodeID"]) or "a host that is gone")
    for actor in state.actor_table(None).values()
    if actor["State"] == "DEAD" and actor["JobID"] in living and actor["ActorClassName"].startswith("RayWorker")
)
found = {
    "ray": ray.__version__,
    "nodes": sorted(nodes.values(), key=lambda node: node["host"]),
    "ranks": ranks,
    "lost": lost,
}
print(json.dumps(found), file=answer, flush=True)
joined = {"{0}={1}".format(node["host"], node["gpus"]) for node in nodes.values()}
sys.exit(0 if joined.issuperset(sys.argv[2:]) else 3)
