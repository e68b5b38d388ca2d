# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role monitoring installs. Debian and Ubuntu have these packages, the distributions of the RHEL family have none of them."""

from __future__ import annotations

# On every host that is watched, and on those that watch.
EXPORTER_PACKAGES = ("prometheus-node-exporter",)
SERVER_PACKAGES = ("prometheus", "prometheus-alertmanager", "prometheus-blackbox-exporter")
# On every host whose journal is collected, and on the one that collects: one package has both programs.
JOURNAL_PACKAGES = ("systemd-journal-remote",)
