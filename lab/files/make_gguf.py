# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes a model of the architecture of Llama as a GGUF file of 0.3 MB: what llama.cpp's loader asks for, and weights of zeros.

usage: make_gguf.py OUT
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.gguf_models import Shape, write_model

SHAPE = Shape(
    layers=4,
    hidden=128,
    heads=4,
    kv_heads=2,
    head=32,
    inner=256,
    vocabulary=320,
    quant="Q8_0",
    output=None,
    embedding="Q8_0",
    context=2048,
)

write_model(Path(sys.argv[1]) / "tiny-q8_0.gguf", SHAPE)
