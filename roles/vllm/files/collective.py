# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All-reduce over every rank of a deployment, in the deployed image: right results, how long, how fast.

usage: collective.py HEAD PORT WORLD FIRST_RANK RANKS

Runs on each host at the same time, with the environment of the service, and starts the RANKS ranks of this host. Rank 0 prints the figures
as JSON, and which network NCCL says it uses. Wrong results on any rank, or a rank that does not come, end all of it with an error. algbw is
bytes by time; busbw is what each link carries of it, 2(n-1)/n of that, as nccl-tests defines it
(https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
"""

import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import time

SIZES = (1 << 10, 32 << 10, 1 << 20, 16 << 20, 64 << 20)
WARM_UP, ROUNDS = 2, 10
# A link that takes this long for one size is full, and a larger one would only take longer.
FULL_SECONDS = 0.05
# A rank that does not come within this time is missing.
MEET_SECONDS = 90
# NCCL's log says which network it uses, and before that why InfiniBand or RoCE is not it. The list of devices that follows is empty then.
NETWORK = re.compile(r"NCCL INFO Using network (.+)")
REASON = re.compile(r"NCCL (?:INFO|WARN) (NET/IB ?: (?!Using ).+|Failed to open libibverbs.+|Call to ibv_.+)")


def start_ranks(head, port, world, first, count):
    """One process for each rank of this host; if one fails the others are of no use."""
    ranks = []
    for local in range(count):
        environment = dict(
            os.environ,
            MASTER_ADDR=head,
            MASTER_PORT=port,
            WORLD_SIZE=str(world),
            RANK=str(first + local),
            LOCAL_RANK=str(local),
        )
        ranks.append(subprocess.Popen([sys.executable, __file__], env=environment))
    while True:
        states = [rank.poll() for rank in ranks]
        failed = [state for state in states if state]
        if failed or None not in states:
            for rank in ranks:
                if rank.poll() is None:
                    rank.kill()
            return failed[0] if failed else 0
        time.sleep(0.2)


def read_network(log):
    """The network that NCCL's log names, and what stands there last against RDMA; empty where there is none."""
    last = {"network": NETWORK.findall(log)[-1:], "rdma_reason": REASON.findall(log)[-1:]}
    return {name: found[0].strip() if found else "" for name, found in last.items()}


def keep_log(folder):
    """Have NCCL write its log into a file of this folder, and return the file."""
    path = os.path.join(folder, "nccl.log")
    os.environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,NET", NCCL_DEBUG_FILE=path)
    return path


def run_rank(folder):
    """This process is one rank; ``folder`` is for its files."""
    import torch
    import torch.distributed as dist

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    on_gpu = torch.cuda.is_available()
    log = keep_log(folder) if on_gpu and rank == 0 else ""
    if on_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    device = torch.device("cuda" if on_gpu else "cpu")
    backend = "nccl" if on_gpu else "gloo"
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=MEET_SECONDS))
    results = []
    for size in SIZES:
        # Whole numbers up to 2**24 are exact as float32, so every element has one right value.
        data = (torch.arange(size // 4, device=device) % 1000).float()
        expected = data * world + world * (world - 1) // 2
        mine = data + rank
        checked = mine.clone()
        dist.all_reduce(checked)
        wrong = (checked != expected).nonzero().flatten().tolist()
        # Sent to all before one ends: the others would wait for it. A rank whose own sums are wrong need not trust this one.
        anywhere = torch.tensor([len(wrong)], device=device)
        dist.all_reduce(anywhere)
        if wrong or anywhere.item():
            first = wrong[0] if wrong else 0
            found = (
                f"{len(wrong)} of {size // 4} elements are wrong on rank {rank}; element {first} is {checked[first]:g}"
                f" and should be {expected[first]:g}"
            )
            sys.exit(
                f"all-reduce of {size} bytes over {world} ranks ({backend}): {found if wrong else 'another rank got a wrong result'}"
            )
        for _dummy in range(WARM_UP):
            dist.all_reduce(mine)
        dist.barrier(**({"device_ids": [torch.cuda.current_device()]} if on_gpu else {}))
        if on_gpu:
            torch.cuda.synchronize()
        started = time.monotonic()
        for _dummy in range(ROUNDS):
            dist.all_reduce(mine)
        if on_gpu:
            torch.cuda.synchronize()
        slowest = torch.tensor([(time.monotonic() - started) / ROUNDS], device=device, dtype=torch.float64)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        bandwidth = size / slowest.item()
        results.append(
            {
                "bytes": size,
                "seconds": slowest.item(),
                "algbw_bytes_per_second": bandwidth,
                "busbw_bytes_per_second": bandwidth * 2 * (world - 1) / world,
            }
        )
        if slowest.item() > FULL_SECONDS:
            break
    if rank == 0:
        network = {}
        if log:
            with open(log, encoding="utf-8", errors="replace") as lines:
                network = read_network(lines.read())
        print(json.dumps({"backend": backend, "ranks": world, "results": results, **network}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        head, port, *numbers = sys.argv[1:]
        sys.exit(start_ranks(head, port, *map(int, numbers)))
    try:
        with tempfile.TemporaryDirectory() as own:
            run_rank(own)
    except RuntimeError as error:
        # torch adds frames of C++ below the line that says what happened.
        sys.exit(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}: {str(error).splitlines()[0]}")
