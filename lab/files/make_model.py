# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs inside the vLLM image: writes a random Qwen2 of 2.5 million parameters, a real checkpoint in 5 MB.

usage: make_model.py OUT
"""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

OUT = sys.argv[1]
TEXT = ["The quick brown fox jumps over the lazy dog.", "Bare metal hosts serve a language model."]

tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.train_from_iterator(
    TEXT * 50,
    trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    ),
)
PreTrainedTokenizerFast(
    tokenizer_object=tokenizer,
    eos_token="<|endoftext|>",
    pad_token="<|endoftext|>",
    # A chat is its messages, one a line.
    chat_template="{% for message in messages %}{{ message.content }}\n{% endfor %}",
).save_pretrained(OUT)

torch.manual_seed(0)
config = Qwen2Config(
    vocab_size=512,
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=2048,
    tie_word_embeddings=True,
    bos_token_id=0,
    eos_token_id=0,
)
Qwen2ForCausalLM(config).to(torch.float16).save_pretrained(OUT)
