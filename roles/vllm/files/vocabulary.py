# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the vocabulary that a server would fetch when it starts, from the tokenizer of its model: vocabulary.py MODEL FOLDER

It ends with 1 where it cannot, and with 0 where FOLDER holds the vocabulary or the model needs none. Only the standard library of Python 3.8.
"""

import base64
import hashlib
import json
import os
import sys

# By model_type: name, SHA-256 and number of ranks. openai_harmony, through which vLLM talks with gpt-oss, looks for the file in the folder
# TIKTOKEN_ENCODINGS_BASE, else fetches it, and takes no other content (names and digests are those in its library, 0.0.4). The ranks of the
# vocabulary are the numbers that the model's own tokenizer.json gives the same tokens, in GPT-2's letters for bytes.
VOCABULARIES = {
    "gpt_oss": ("o200k_base.tiktoken", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d", 199998),
}


def letters():
    """The byte that each letter of a byte-level tokenizer stands for: printable ones for themselves, the others from 256 on, in order."""
    shown = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    others = [byte for byte in range(256) if byte not in shown]
    return {**{chr(byte): byte for byte in shown}, **{chr(256 + place): byte for place, byte in enumerate(others)}}


def vocabulary(tokenizer, ranks):
    """The lines of tiktoken's format: a token in base64 and its rank."""
    byte_of = letters()
    tokens = sorted((rank, token) for token, rank in tokenizer["model"]["vocab"].items() if rank < ranks)
    return b"".join(
        base64.b64encode(bytes(byte_of[letter] for letter in token)) + b" %d\n" % rank for rank, token in tokens
    )


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def digest(path):
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""


def main():
    model, folder = sys.argv[1:3]
    try:
        wanted = VOCABULARIES.get(read(model, "config.json").get("model_type"))
        if wanted is None:
            return 0
        name, expected, ranks = wanted
        path = os.path.join(folder, name)
        if digest(path) == expected:
            return 0
        made = vocabulary(read(model, "tokenizer.json"), ranks)
        if hashlib.sha256(made).hexdigest() != expected:
            raise ValueError("the tokens of tokenizer.json are not those of " + name)
        os.makedirs(folder, exist_ok=True)
        with open(path + ".new", "wb") as file:
            file.write(made)
        os.replace(path + ".new", path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        print(
            "error: the vocabulary of the model cannot be made from its tokenizer.json: {!r}".format(error),
            file=sys.stderr,
        )
        print(
            "set TIKTOKEN_ENCODINGS_BASE in vllm_environment to a folder with it (vllm_extra_volumes)", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
