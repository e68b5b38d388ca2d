# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is inside an image, as a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine, engine_names
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message

_VERSIONS = (
    ("torch", "torch_version"),
    ("CUDA", "cuda_version"),
    ("Ray", "ray_version"),
    ("Python", "python_version"),
    ("xFormers", "xformers_version"),
    ("FlashInfer", "flashinfer_version"),
    ("Transformers", "transformers_version"),
    ("Triton", "triton_version"),
)


def _of_engines() -> list[tuple[str, str]]:
    """Title and field of each engine that an image can say the release of."""
    engines = [engine(name) for name in engine_names()]
    return [(each.title, each.release_in_image) for each in engines if each.release_in_image]


def report(images: Sequence[Mapping[str, object]], lang: str = "en") -> list[str]:
    """The lines that describe images."""
    lines: list[str] = []
    for image in images:
        title = ", ".join(texts(image.get("references"))) or str(image.get("reference") or image.get("id"))
        lines += [title, "  " + str(image.get("id"))]
        lines += [
            "  {0:<13} {1}".format(name, image[key]) for name, key in (*_of_engines(), *_VERSIONS) if image.get(key)
        ]
        if image.get("driver_minimum"):
            lines.append("  " + message("image_driver", lang, lowest=image["driver_minimum"]))
        libraries = mapping(image.get("libraries"))
        if libraries:
            lines += ["", "  " + message("image_libraries", lang)]
        for name in libraries:
            library = mapping(libraries[name])
            built = texts(library["built_for"])
            few = [one for one in mapping(library["architectures"]) if one not in built]
            line = "  {0:<16} {1:>5}  {2}".format(name, library["containers"], " ".join(built))
            lines.append(line + ("  ({0})".format(message("image_strays", lang, names=" ".join(few))) if few else ""))
        served = texts(image.get("compute_capabilities"))
        lines += [
            "",
            "  " + message("image_serves", lang, gpus=", ".join(served))
            if served
            else "  " + message("image_serves_none", lang),
            "",
        ]
    return lines[:-1]
