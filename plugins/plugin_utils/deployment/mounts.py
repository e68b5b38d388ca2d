# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the containers of a host see of it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import container_user
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.environment import (
    environment_file,
    environment_place,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import gpus_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import (
    folder_of,
    folders_outside,
    needed_models,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.paths import (
    CACHE,
    PROBE,
    RAY_TOKEN,
    SCRIPTS,
    SECRETS,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import SmallFile


def ray_volumes(member: Member) -> list[str]:
    return [*_common(member), *_ray_token(member), *_environment(member, "ray")]


def server_volumes(member: Member) -> list[str]:
    secrets = [*_ray_token(member), *_environment(member, member.deployment.engine.name)]
    if member.enables("api_key_enabled") and member.is_head:
        # The folder: a container would not see another file of the same name, and keys change while the server runs.
        secrets = [secrets_volume(member)]
    verdict = [f"{member.names['state']}:{PROBE}:ro"] if member.is_head else []
    return [*_common(member), *secrets, *verdict]


def file_volumes(files: Mapping[str, SmallFile]) -> list[str]:
    """Small files of the host by their places in the container."""
    return [f"{file['path']}:{place}:ro" for place, file in files.items()]


def _common(member: Member) -> list[str]:
    """The two containers of a head see the same /tmp: Ray's session and the engine's sockets lie there."""
    extra = [f"{volume.removesuffix(':ro')}:ro" for volume in map(str, member.setting("extra_volumes") or ())]
    own = [f"{member.folder}/scripts:{SCRIPTS}:ro", f"{tmp_folder(member)}:/tmp", f"{cache_folder(member)}:{CACHE}"]
    return [*own, *model_volumes(member), *extra]


def _ray_token(member: Member) -> list[str]:
    if member.enabled("ray_token_enabled") and member.deployment.by_ray:
        return [f"{member.ray_token_file}:{RAY_TOKEN}:ro"]
    return []


def _environment(member: Member, kind: str) -> list[str]:
    place = environment_place(member, kind)
    return [f"{environment_file(member, kind)['path']}:{place}:ro"] if place else []


def secrets_volume(member: Member) -> str:
    return f"{member.folder}/secrets:{SECRETS}:ro"


def model_volumes(member: Member) -> list[str]:
    folders = [member.variables["models_dir"], *folders_outside(member.variables)]
    return [f"{folder}:{folder}:ro" for folder in folders]


def model_folders(member: Member) -> list[str]:
    """The folders of the deployment's models, each once."""
    return [*dict.fromkeys(folder_of(member.variables, model) for model in needed_models(member.variables))]


def tmp_folder(member: Member) -> str:
    """A folder for each user: what one of them left, another one may neither use nor remove."""
    uid = member.deployment.uid
    return f"{member.folder}/tmp" + (f"-{uid}" if uid != container_user.ROOT else "")


def cache_folder(member: Member) -> str:
    """A folder for each user, image and kind of GPU, so that what an image compiled goes when the image goes."""
    image = re.sub(r"[^A-Za-z0-9.]+", "-", member.deployment.image.rpartition("/")[2])
    kinds = sorted({str(gpu["compute_capability"]) for gpu in gpus_of(member.variables)})
    return f"{member.folder}/cache/{image}-{'-'.join(kinds)}-{member.deployment.uid}"
