"""The simulated hardware of the lab: GPUs, NVIDIA's driver installer and its container toolkit. Only the lab uses it."""
