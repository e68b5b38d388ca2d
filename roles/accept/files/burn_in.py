# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loads every GPU of a host in the deployed image and measures them: memory that keeps what was written, products that are right, and how fast.

usage: burn_in.py SECONDS MEMORY_SHARE

One process for each GPU, all at the same time, so that the host's power and cooling are loaded, too. Prints one line of JSON: ``backend`` and
``gpus``, each with ``index``, ``uuid``, and either ``error`` or the figures:

- memory_bytes (tested), memory_errors (32-bit words that were not what was written)
- matmul_flops (a second, of the median round), matmul_slowest_share (the slowest tenth of the rounds against that), matmul_errors (rounds with another
  result than the first, and sums that are wrong)
- memory_bytes_per_second (read and written), host_bytes_per_second (from pinned memory of the host)

A build of torch for processors alone, as simulated hosts have, computes on the processor with small sizes.
"""

import json
import os
import subprocess
import sys
import time

# Words as they are written: all bits off, all on, and neighbours that differ.
PATTERNS = (0, -1, 0x55555555, -0x55555556)
CHUNK_BYTES = 256 << 20
MATRIX, SMALL_MATRIX = 8192, 256
SMALL_BYTES = 4 << 20
# What the rest of a process on a GPU takes: libraries and their handles.
SPARE_BYTES = 1 << 30
TOO_LONG_SECONDS = 300


def test_memory(torch, device, size, synchronize):
    """Write and read words in all of the memory; each chunk is held while the others are written. Returns tested bytes and wrong words."""
    chunk = min(CHUNK_BYTES, size)
    held = []
    for _dummy in range(max(1, size // chunk)):
        try:
            held.append(torch.empty(chunk // 4, dtype=torch.int32, device=device))
        except RuntimeError:
            break  # somebody took memory meanwhile
    errors = 0
    own = torch.arange(chunk // 4, dtype=torch.int32, device=device)
    for pattern in PATTERNS:
        for number, words in enumerate(held):
            words.fill_(pattern)
            words.bitwise_xor_(own + number)
        synchronize()
        for number, words in enumerate(held):
            words.bitwise_xor_(own + number)
            errors += int((words != pattern).sum().item())
    return len(held) * chunk, errors


def multiply(torch, device, size, seconds, synchronize):
    """Multiply whole numbers again and again. Every sum has one right value, and each round the same result."""
    kind = torch.float16 if device.type == "cuda" else torch.float32
    torch.manual_seed(0)
    left = torch.randint(-1, 2, (size, size), device=device).to(kind)
    right = torch.randint(-1, 2, (size, size), device=device).to(kind)
    first = left @ right
    # A few rows on the processor: sums of so many ones stay below what 16 bits hold exactly.
    rows = left[:4].cpu().double() @ right.cpu().double()
    errors = int((first[:4].cpu().double() != rows).sum().item())
    rounds, end = [], time.monotonic() + seconds
    out = torch.empty_like(first)
    repeat = 10 if device.type == "cuda" else 1
    while time.monotonic() < end or len(rounds) < 3:
        synchronize()
        began = time.monotonic()
        for _dummy in range(repeat):
            torch.matmul(left, right, out=out)
        synchronize()
        rounds.append((time.monotonic() - began) / repeat)
        errors += int(not torch.equal(out, first))
    rounds.sort()
    median, slow = rounds[len(rounds) // 2], rounds[-max(1, len(rounds) // 10)]
    return 2.0 * size**3 / median, median / slow, errors


def copy_rate(torch, source, target, synchronize, ways):
    """Bytes a second of the fastest of some copies; ``ways`` is how often each byte moves."""
    fastest = 0.0
    for _dummy in range(8):
        synchronize()
        began = time.monotonic()
        target.copy_(source, non_blocking=True)
        synchronize()
        fastest = max(fastest, ways * source.numel() * source.element_size() / max(time.monotonic() - began, 1e-9))
    return fastest


def run_gpu(index, seconds, share):
    """This process is for one GPU. Returns its figures."""
    import torch

    on_gpu = torch.version.cuda is not None
    if on_gpu and not torch.cuda.is_available():
        raise RuntimeError("torch finds no GPU")
    device = torch.device("cuda:0" if on_gpu else "cpu")
    synchronize = torch.cuda.synchronize if on_gpu else lambda: None
    free = torch.cuda.mem_get_info()[0] if on_gpu else SMALL_BYTES * 2
    matrix = MATRIX if on_gpu else SMALL_MATRIX
    flops, slowest, wrong = multiply(torch, device, matrix, seconds, synchronize)
    size = CHUNK_BYTES if on_gpu else SMALL_BYTES
    source = torch.ones(size // 4, dtype=torch.float32, device=device)
    rate = copy_rate(torch, source, torch.empty_like(source), synchronize, 2)
    host = torch.ones(size // 4, dtype=torch.float32, pin_memory=on_gpu)
    host_rate = copy_rate(torch, host, source, synchronize, 1)
    del source, host
    if on_gpu:
        torch.cuda.empty_cache()
    tested, errors = test_memory(
        torch, device, max(int(free * share) - SPARE_BYTES, size) if on_gpu else size, synchronize
    )
    return {
        "index": index,
        "uuid": os.environ.get("LLM_GPU_UUID", ""),
        "backend": "cuda" if on_gpu else "cpu",
        "memory_bytes": tested,
        "memory_errors": errors,
        "matmul_flops": flops,
        "matmul_slowest_share": slowest,
        "matmul_errors": wrong,
        "memory_bytes_per_second": rate,
        "host_bytes_per_second": host_rate,
    }


def visible():
    """The GPUs of this container, by UUID, as nvidia-smi lists them."""
    said = subprocess.run(
        ["nvidia-smi", "-L"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False
    )
    lines = said.stdout.decode(errors="replace").splitlines()
    found = [
        line.partition("(UUID: ")[2].rstrip(")") for line in lines if line.startswith("GPU ") and "(UUID: " in line
    ]
    if not found:
        raise RuntimeError("nvidia-smi -L lists no GPU: {0}".format(" ".join(lines)[:300]))
    return found


def main(seconds, share):
    processes = []
    for index, uuid in enumerate(visible()):
        environment = dict(os.environ, CUDA_VISIBLE_DEVICES=uuid, LLM_GPU_UUID=uuid)
        command = [sys.executable, __file__, seconds, share, str(index)]
        started = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        processes.append((index, uuid, started))
    end = time.monotonic() + float(seconds) + TOO_LONG_SECONDS
    gpus = []
    for index, uuid, process in processes:
        try:
            out, err = process.communicate(timeout=max(end - time.monotonic(), 1))
        except subprocess.TimeoutExpired:
            process.kill()
            gpus.append({"index": index, "uuid": uuid, "error": "no figures within {0} s".format(TOO_LONG_SECONDS)})
            continue
        try:
            gpus.append(json.loads(out.decode(errors="replace").splitlines()[-1]))
        except (ValueError, IndexError, RecursionError):
            said = err.decode(errors="replace").strip().splitlines() or [
                "it ended with status {0}".format(process.returncode)
            ]
            gpus.append({"index": index, "uuid": uuid, "error": said[-1][:300]})
    print(json.dumps({"gpus": gpus}), flush=True)


if __name__ == "__main__":
    try:
        if len(sys.argv) > 3:
            print(json.dumps(run_gpu(int(sys.argv[3]), float(sys.argv[1]), float(sys.argv[2]))), flush=True)
        else:
            main(*sys.argv[1:3])
    except (RuntimeError, OSError, subprocess.SubprocessError) as failure:
        # torch adds frames of C++ below the line that says what happened.
        sys.exit(str(failure).splitlines()[0])
