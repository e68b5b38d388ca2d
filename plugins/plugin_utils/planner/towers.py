# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The encoder of images beside a language model: its weights, and what the profile run takes for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.towers import FAMILIES, Family

MODALITIES = ("image", "video", "audio")


class Tower(NamedTuple):
    """An encoder of a checkpoint. Sizes are elements."""

    family: Family
    hidden: int
    split: int  # what tensor-parallel ranks share
    whole: int  # what each rank has
    pixels: int  # values of a patch
    area: int  # pixels of an image for each token

    def weights(self, tp: int, dtype_bytes: int) -> int:
        """Bytes on a rank of the first stage."""
        return (self.whole + self.split // (tp if self.family.shards else 1)) * dtype_bytes

    def tokens(self, raw: Mapping[str, object]) -> int:
        """Of the largest item, which max_pixels may make smaller."""
        said = raw.get("mm_processor_kwargs")
        most = (
            fields.whole(said, ("max_pixels",), "settings.mm_processor_kwargs") if isinstance(said, Mapping) else None
        )
        return min(self.family.tokens, max(most // self.area, 1)) if most else self.family.tokens

    def activation(
        self, raw: Mapping[str, object], engine: str, batched_tokens: int, sequences: int, dtype_bytes: int
    ) -> int:
        """Bytes that the largest items of a batch take at once."""
        tokens = self.tokens(raw)
        items = sequences if self.family.each and engine == "V0" else max(min(batched_tokens // tokens, sequences), 1)
        patches = items * tokens * self.family.patches
        return patches * (self.hidden * self.family.values + self.pixels) * dtype_bytes


def read_tower(name: str, config: Mapping[str, object], text: int) -> Tower | None:
    """The encoder of a family; None where config.json does not describe it."""
    vision = config if name == "whisper" else config.get("vision_config")
    if not isinstance(vision, Mapping):
        return None
    family, field = FAMILIES[name], "config.vision_config"
    hidden, depth = (fields.whole(vision, (each,), field) for each in (family.hidden, family.depth))
    if not hidden or not depth:
        return None
    depth += fields.whole(vision, ("num_global_layers",), field) or 0
    ratio = fields.number(vision, "mlp_ratio", field, 1, 64)
    inner = int(hidden * (ratio or 4)) if family.inner == "mlp_ratio" else fields.whole(vision, (family.inner,), field)
    patch, image = _side(vision, "patch_size", 14), _side(vision, "image_size", 448)
    frames = fields.whole(vision, ("temporal_patch_size",), field) or 1
    out = fields.whole(vision, ("out_hidden_size",), field) or text
    pixels = 3 * frames * patch * patch
    split = depth * (4 * hidden * hidden + family.parts * hidden * (inner or 4 * hidden))
    whole = pixels * hidden + depth * 8 * hidden
    whole += (fields.whole(vision, ("num_position_embeddings", "position_embedding_size"), field) or 0) * hidden
    if name == "whisper":
        # Two convolutions of three frames, the places of sounds, and the attention of the decoder to the encoder, beside that to itself.
        mels, layers = (fields.whole(config, (each,), "config") or 0 for each in ("num_mel_bins", "decoder_layers"))
        return Tower(
            family,
            hidden,
            split + 4 * layers * hidden * hidden,
            3 * hidden * (mels + hidden) + 1500 * hidden,
            2 * mels,
            1,
        )
    if family.projector == "linear":
        whole += hidden * out
    elif family.projector == "tiles":
        # Three tables of places, for each of nine shapes and their tiles.
        tiles = fields.whole(vision, ("max_num_tiles",), field) or 4
        whole += (fields.whole(vision, ("vision_output_dim",), field) or 6 * hidden) * text
        whole += hidden * (((image // patch) ** 2 + 1) * (1 + 9 * tiles) + 2 * 9 * tiles)
    elif family.projector == "adapter":
        first, last = (
            fields.whole(vision, (each,), field) or 4096 for each in ("projector_input_dim", "projector_output_dim")
        )
        split += 4 * hidden * first + first * last + last * text
    elif family.projector in ("mlp", "merged_mlp"):
        merged = hidden * family.patches
        split += (merged if family.projector == "mlp" else hidden) * text + text * text
        split += merged * hidden if family.projector == "merged_mlp" else 0
        whole += hidden * (image // patch) ** 2 if name == "internvl" else 0
    else:
        merged = hidden * (fields.whole(vision, ("spatial_merge_size",), field) or 2) ** 2
        deep = vision.get("deepstack_visual_indexes")
        more = len(deep) if family.projector == "mergers" and isinstance(deep, (list, tuple)) else 0
        split += (1 + more) * (merged * merged + merged * out)
    return Tower(family, hidden, split, whole, pixels, patch * patch * family.patches)


def _side(vision: Mapping[str, object], name: str, usual: int) -> int:
    """Of a patch or an image: a number, or height and width."""
    said = vision.get(name)
    first = {name: said[0]} if isinstance(said, (list, tuple)) and said else vision
    return fields.whole(first, (name,), "config.vision_config") or usual


def sees(raw: Mapping[str, object]) -> bool:
    """Whether a start takes images at all: the options may leave the language model alone."""
    if fields.truth(raw.get("language_model_only"), "settings.language_model_only"):
        return False
    limits = raw.get("limit_mm_per_prompt")
    if not isinstance(limits, Mapping):
        return True
    said = {str(name): str(value) for name, value in limits.items()}
    return not all(said.get(name) == "0" for name in MODALITIES[:2])
