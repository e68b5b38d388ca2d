# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits until a Ray cluster gives out a number of GPUs; ends with an error if the cluster goes away.

usage: wait_for_gpus.py ADDRESS GPUS

It asks for them as vLLM will. Where a network was cut and whole again, Ray (2.60) at times counts a GPU as taken that its host knows to be
free, and would do so for ever: a host that runs anything tells anew what it has.
"""

import logging
import sys
import time

import ray
from ray.util.placement_group import placement_group, remove_placement_group

# How long Ray may take to give out what is free.
PATIENCE_SECONDS = 10


@ray.remote(num_cpus=0)
def nothing():
    """Takes a part of a host's own resource, and gives it back."""


def ask_hosts():
    """Run something on every host."""
    hosts = {name for node in ray.nodes() if node["Alive"] for name in node["Resources"] if name.startswith("host:")}
    asked = [nothing.options(resources={host: 0.01}).remote() for host in sorted(hosts)]
    ray.wait(asked, num_returns=len(asked), timeout=60)


def main():
    address, wanted = sys.argv[1], int(sys.argv[2])
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    said = ""
    while True:
        there = int(ray.cluster_resources().get("GPU", 0))
        if there >= wanted:
            group = placement_group([{"GPU": 1}] * wanted)
            given = group.wait(PATIENCE_SECONDS)
            remove_placement_group(group)
            if given:
                return
            ask_hosts()
        state = f"{there} of {wanted} there, {int(ray.available_resources().get('GPU', 0))} free"
        if state != said:
            print(f"waiting for GPUs of the Ray cluster at {address}: {state}", flush=True)
            said = state
        time.sleep(2)


if __name__ == "__main__":
    main()
