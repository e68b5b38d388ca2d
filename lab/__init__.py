# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab: bare-metal-like hosts on one machine, with everything real except the GPU. Run `python -m lab --help`."""
