# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The models that the hosts of a deployment need: the one that is served, and the folders that it is served with.

A tokenizer from elsewhere, a draft model and an adapter are folders of a model hub like any model. They come with the bundle in the same way
and lie in the same folder on the hosts.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine_of, setting, variable_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings

# Where models come from, if neither from the bundle nor from a hub.
SOURCE = "models_source"
SOURCES = ("host", "controller", "rsync", "rclone")
# Of hosts that serve meanwhile no more than these are asked for files.
MOST_OUTSIDE = 4


def model_variables(engine: Engine) -> list[str]:
    """The variables that name the models of a deployment with this engine."""
    return [f"{engine.name}_{setting}" for setting in (*engine.models, engine.adapters) if setting]


def needed_models(variables: Mapping[str, object]) -> dict[str, str]:
    """Each model with the variable that names it, the served one first; by name as in the bundle, or as a path on the hosts.

    What is no text is somebody else's to refuse.
    """
    mine = engine_of(variables)
    named = [(setting(variables, name), variable_of(variables, name)) for name in mine.models]
    adapters = mappings(setting(variables, mine.adapters)) if mine.adapters else []
    named += [(adapter.get("model"), variable_of(variables, mine.adapters)) for adapter in adapters]
    found: dict[str, str] = {}
    for model, variable in named:
        if isinstance(model, str) and model:
            found.setdefault(model, variable)
    return found


def wanted_weights(variables: Mapping[str, object]) -> dict[str, list[str]]:
    """By model the patterns of the weights that are wanted of it: those of ``models_files`` for the served one, and the file of a draft model."""
    found = {str(setting(variables, "model")): texts(variables.get("models_files"))}
    draft, file = setting(variables, "draft_model"), setting(variables, "draft_file")
    if draft and file and str(draft) not in found:
        found[str(draft)] = [str(file)]
    return {model: names for model, names in found.items() if names}


class Source(NamedTuple):
    """Where a model comes from. The scheme is empty for the bundle or a hub; ``path`` is what the scheme's program takes."""

    scheme: str
    path: str


def source_of(variables: Mapping[str, object], model: str) -> Source:
    """What ``models_source`` says of a model: ``host:/folder`` and ``controller:/folder``, ``rsync://HOST/MODULE/PATH``, ``rclone:REMOTE:PATH``.

    A text is about the served model, a mapping names the models. What is none of these is somebody else's to refuse.
    """
    said = variables.get(SOURCE)
    if isinstance(said, Mapping):
        said = said.get(model)
    elif model != setting(variables, "model"):
        said = None
    scheme, _colon, rest = str(said or "").partition(":")
    return Source(scheme, str(said) if scheme == "rsync" else rest) if scheme in SOURCES else Source("", "")


def folder_of(variables: Mapping[str, object], model: str) -> str:
    """Where a model lies on its hosts."""
    source = source_of(variables, model)
    if source.scheme == "host":
        return source.path.rstrip("/")
    return model if posixpath.isabs(model) else f"{variables['models_dir']}/{model.replace('/', '--')}"


def needed_parts(variables: Mapping[str, object], model: str) -> dict[str, bool]:
    """``{weights, tokenizer}``: what a model has to have for its deployment. A folder that is only the tokenizer has no weights, and only the model that
    is served needs a tokenizer, unless that comes from elsewhere or there is none."""
    options = setting(variables, "options")
    without = isinstance(options, Mapping) and options.get("skip_tokenizer_init")
    own = model == setting(variables, "model") and not setting(variables, "tokenizer") and not without
    return {
        "weights": model != setting(variables, "tokenizer") or model == setting(variables, "model"),
        "tokenizer": own,
    }


def origins(
    models: Iterable[str], variables: Mapping[str, object], records: Sequence[Mapping[str, object]]
) -> list[dict[str, object]]:
    """How each model comes to a host: ``{model, how, folder, source, weights, tokenizer}``.

    ``how`` is ``there`` (it lies on the host already), ``program`` (a program of a host copies it from ``source``), ``hub`` (a host fetches the files
    that ``records`` name) or ``bundle``. ``folder`` is where it lies then, and ``weights`` and ``tokenizer`` say
    whether it has to have some.
    """
    fetched = {record.get("model") for record in records if record.get("kind") == "model" and record.get("urls")}
    found = []
    for model in models:
        source = source_of(variables, model)
        how = "hub" if model in fetched else "bundle"
        if source.scheme == "host" or posixpath.isabs(model):
            how = "there"
        elif source.scheme in ("rsync", "rclone"):
            how = "program"
        said = {"folder": folder_of(variables, model), "source": source.path, **needed_parts(variables, model)}
        found.append({"model": model, "how": how, **said})
    return found


def model_path(variables: Mapping[str, object]) -> str:
    """Where the served model lies on its hosts."""
    return folder_of(variables, str(setting(variables, "model")))


def folders_outside(variables: Mapping[str, object]) -> list[str]:
    """The folders of models that do not lie in ``models_dir``."""
    inside = str(variables["models_dir"]).rstrip("/") + "/"
    folders = [folder_of(variables, model) for model in needed_models(variables)]
    return [folder for folder in folders if not posixpath.normpath(folder).startswith(inside)]


class Handing(NamedTuple):
    """Who hands a model on: hosts outside of this run that have it (``outside``), else a host of this run (``giver``) that fetches it; empty where no host
    needs it."""

    giver: str
    outside: list[str]


def handing(
    model: str,
    playing: Sequence[str],
    needs: Mapping[str, Collection[str]],
    holding: Iterable[str] = (),
    sharing: Mapping[str, Collection[str]] | None = None,
) -> Handing:
    """``needs`` has the models of each host, ``holding`` the hosts whose record says that they have theirs, ``sharing`` all names of a host's machine.

    A machine of this run under another name is none outside of it, and a few others are enough.
    """
    names = sharing or {}
    there = {name for host in playing for name in (host, *names.get(host, ()))}
    outside: list[str] = []
    for host in holding:
        if model in needs.get(host, ()) and host not in there and len(outside) < MOST_OUTSIDE:
            outside.append(host)
            there.update(names.get(host, ()))
    mine = [host for host in playing if model in needs.get(host, ())]
    return Handing("" if outside or not mine else mine[0], outside)
