# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How something is installed where nobody says how (``auto``): what fits and is there stays, whoever has installed it."""

from __future__ import annotations

AUTO, PRESENT, PACKAGES, REPOSITORY = "auto", "present", "packages", "repository"
# What each role takes from a bundle.
BUNDLED = {"nvidia_driver": "runfile", "docker": "static", "nvidia_container_toolkit": "bundle"}


def method_of(
    role: str, asked: str, *, ours: str, fits: bool, bundled: bool, offline: bool, has_repository: bool
) -> str:
    """The method for a host.

    ``ours`` is the method with which this collection has installed it before, as its files on the host show (empty: it has not), ``fits`` whether
    what is there can be used, ``bundled`` whether the bundle has it, ``has_repository`` whether its publisher has packages for the system.
    """
    if asked != AUTO:
        return asked
    if ours:
        return ours
    if fits:
        return PRESENT
    if bundled or offline:
        return BUNDLED[role]
    return REPOSITORY if has_repository else PACKAGES


def for_bundle(role: str, asked: str) -> str:
    """What a bundle is made for: a host without internet takes what it lacks from there."""
    return BUNDLED[role] if asked == AUTO else asked
