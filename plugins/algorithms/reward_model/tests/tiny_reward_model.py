"""A reward model of the tests, in a folder of its own."""

from __future__ import annotations

import torch
import transformers

from core_rl.hf.tokenizer import character_tokenizer


def save_model(folder, *, cls=transformers.LlamaForSequenceClassification, labels=1, pad="<pad>"):
    """A random reward model of a few thousand weights, and its tokenizer."""
    tokenizer = character_tokenizer("0123456789=")
    tokenizer.pad_token = pad
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=12,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        num_labels=labels,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = cls(config).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer
