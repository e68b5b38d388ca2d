# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Grafana: what it reads at its start, and its container on a host that watches.

Files as grafana.com/docs/grafana/latest/administration/provisioning says, variables as .../setup-grafana/configure-docker and configure-grafana.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CONTAINER = "llm-grafana"
DATA = "/var/lib/llm-grafana"
# The image's user (GF_UID of grafana/grafana's Dockerfile).
UID = 472
SECRET = "/run/secrets/grafana_admin_password"
# Beside the provisioning of a site's own Grafana they take no name of it.
SOURCE = "llm"


def provisioning(folder: str, prometheus: str, interval_seconds: int) -> dict[str, object]:
    """By path below ``folder`` the data source and the provider of dashboards. ``prometheus`` is HOST:PORT."""
    return {
        "grafana/datasources/llm.yml": {
            "apiVersion": 1,
            "datasources": [
                {
                    "name": SOURCE,
                    "uid": SOURCE,
                    "type": "prometheus",
                    "access": "proxy",
                    "url": f"http://{prometheus}",
                    "editable": False,
                    "jsonData": {"httpMethod": "POST", "timeInterval": f"{interval_seconds}s"},
                }
            ],
        },
        "grafana/dashboards/llm.yml": {
            "apiVersion": 1,
            "providers": [
                {
                    "name": SOURCE,
                    "folder": SOURCE,
                    "type": "file",
                    "disableDeletion": True,
                    "allowUiUpdates": False,
                    "updateIntervalSeconds": 60,
                    "options": {"path": f"{folder}/dashboards"},
                }
            ],
        },
    }


def grafana(settings: Mapping[str, object]) -> dict[str, Any]:
    """The container; empty where no image is named. It asks nothing of the internet, and nobody comes in without a login."""
    image = str(settings.get("monitoring_grafana_image") or "")
    if not image or settings["monitoring_mode"] != "full":
        return {}
    folder = str(settings["monitoring_dir"])
    return {
        "name": CONTAINER,
        "image": image,
        "user": f"{UID}:0",
        "environment": {
            "GF_SERVER_HTTP_ADDR": str(settings["monitoring_listen_address"]),
            "GF_SERVER_HTTP_PORT": str(settings["monitoring_grafana_port"]),
            "GF_SECURITY_ADMIN_PASSWORD__FILE": SECRET,
            "GF_SECURITY_DISABLE_GRAVATAR": "true",
            "GF_USERS_ALLOW_SIGN_UP": "false",
            "GF_AUTH_ANONYMOUS_ENABLED": "false",
            "GF_ANALYTICS_REPORTING_ENABLED": "false",
            "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
            "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES": "false",
            "GF_NEWS_NEWS_FEED_ENABLED": "false",
            "GF_SNAPSHOTS_EXTERNAL_ENABLED": "false",
            "GF_LOG_MODE": "console",
        },
        "volumes": [
            f"{folder}/grafana:/etc/grafana/provisioning:ro",
            f"{folder}/dashboards:{folder}/dashboards:ro",
            f"{DATA}/admin_password:{SECRET}:ro",
            f"{DATA}/data:/var/lib/grafana",
        ],
    }
