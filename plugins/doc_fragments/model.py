# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The model that the planner's filters are asked about."""

    DOCUMENTATION = r"""
options:
  _input:
    description:
      - The model, either the content of its C(config.json) as a dictionary, or C(config) with that content and C(tensors) with
        the entries of its safetensors headers (name to C(dtype) and C(shape)).
    type: dict
    required: true
"""
