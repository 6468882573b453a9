"""Models and tokenizers from their spec."""

from __future__ import annotations

import attrs
import pytest
import torch

from core_rl.errors import ModelError
from core_rl.hf.load import context_length, load_config, load_model
from core_rl.hf.paths import resolve_path
from core_rl.hf.spec import ModelSpec
from core_rl.hf.tokenizer import load_tokenizer

TINY = ModelSpec(
    init="random",
    tokenizer="characters:0123456789+= ",
    config={
        "model_type": "llama",
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 64,
    },
)


def test_random_weights_follow_the_seed_and_leave_the_global_generator_alone():
    """The same seed gives the same weights, another gives others, and torch's own stream goes on as if nothing was."""
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    one, same, other = (load_model(TINY, seed=seed).state_dict() for seed in (1, 1, 2))

    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


def test_vocabulary_and_special_ids_come_from_the_tokenizer():
    """A model made from its config alone has exactly its tokenizer's tokens."""
    config = load_config(TINY)

    assert (config.vocab_size, config.pad_token_id, config.eos_token_id) == (16, 0, 1)


def test_character_tokenizer_round_trip():
    """Every known character is one token and comes back as itself."""
    tokenizer = load_tokenizer(TINY)
    ids = tokenizer.encode("12+3= 15", add_special_tokens=False)

    assert len(ids) == 8
    assert tokenizer.decode(ids) == "12+3= 15"


def test_pretrained_round_trip(tmp_path):
    """A saved folder loads with the same weights, and a change of the config is applied."""
    model = load_model(TINY, seed=3)
    model.save_pretrained(tmp_path)
    load_tokenizer(TINY).save_pretrained(str(tmp_path))
    spec = ModelSpec(path=str(tmp_path), config={"rms_norm_eps": 1e-3})
    loaded = load_model(spec, seed=9)

    assert loaded.config.rms_norm_eps == 1e-3
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in model.state_dict().items())


def test_context_length_is_the_smaller_of_what_is_asked_and_what_there_is():
    """`max_length` shortens the model's limit and may not pass it."""
    assert context_length(TINY) == 64
    assert context_length(attrs.evolve(TINY, max_length=32)) == 32
    with pytest.raises(ModelError, match=r"model\.max_length: 65 is beyond the model's own 64"):
        context_length(attrs.evolve(TINY, max_length=65))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (ModelSpec(), r"model: give `path`, or `init: random`"),
        (ModelSpec(path="./nowhere"), r"model\.path: \./nowhere does not exist"),
        (ModelSpec(path="package:no_such_package"), r"the package no_such_package is not installed"),
        (attrs.evolve(TINY, config={"model_type": "lama"}), r"transformers knows no 'lama'"),
        (attrs.evolve(TINY, config={**TINY.config, "hiden_size": 3}), r"llama has no 'hiden_size'"),
        (attrs.evolve(TINY, config={**TINY.config, "vocab_size": 4}), r"16 tokens, the model only vocab_size 4"),
        (attrs.evolve(TINY, tokenizer="characters:aab"), r"needs different characters"),
        (attrs.evolve(TINY, chat_template="missing.jinja"), r"model\.chat_template: missing\.jinja"),
        (attrs.evolve(TINY, config={**TINY.config, "intermediate_size": -1}), r"cannot build a llama"),
    ],
)
def test_mistakes_are_one_clear_line(spec, message):
    """Each mistake names its place in the run file."""
    with pytest.raises(ModelError, match=message) as caught:
        load_model(spec, seed=1)

    assert "\n" not in str(caught.value)


def test_folders_and_files_that_are_no_model(tmp_path):
    """A folder without config.json and a file of another kind are refused by name."""
    (tmp_path / "weights.bin").write_bytes(b"x")

    with pytest.raises(ModelError, match=r"has no config\.json"):
        resolve_path(str(tmp_path))
    with pytest.raises(ModelError, match=r"not a \.gguf"):
        resolve_path(str(tmp_path / "weights.bin"))
