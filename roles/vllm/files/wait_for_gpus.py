# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits until a Ray cluster has a number of free GPUs; ends with an error if the cluster goes away.

usage: wait_for_gpus.py ADDRESS GPUS
"""

import logging
import sys
import time

import ray

address, wanted = sys.argv[1], int(sys.argv[2])
ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
last = -1
while True:
    free = int(ray.available_resources().get("GPU", 0))
    if free >= wanted:
        break
    if free != last:
        print(f"waiting for GPUs: {free} of {wanted} are free in the Ray cluster at {address}", flush=True)
        last = free
    time.sleep(2)
