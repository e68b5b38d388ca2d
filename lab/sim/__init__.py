# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated hardware of the lab: GPUs, NVIDIA's driver installer and its container toolkit. Only the lab uses it."""
