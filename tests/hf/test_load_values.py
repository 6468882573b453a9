"""Models of values from their spec."""

from __future__ import annotations

import attrs
import pytest
import torch

from core_rl.errors import ModelError
from core_rl.hf.load import load_config, load_model
from core_rl.hf.spec import ModelSpec
from core_rl.hf.tokenizer import load_tokenizer
from core_rl.hf.values import load_value_model, small_head

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


def test_a_value_model_takes_the_trunk_of_a_language_model(tmp_path):
    """Its own weights below, a small head of the seed above, and torch's own stream goes on as if nothing was."""
    language = load_model(TINY, seed=3)
    language.save_pretrained(tmp_path)
    load_tokenizer(TINY).save_pretrained(str(tmp_path))
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    one, same, other = (load_value_model(ModelSpec(path=str(tmp_path)), seed=seed) for seed in (1, 1, 2))

    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(value, one.model.state_dict()[name]) for name, value in language.model.state_dict().items())
    assert torch.equal(one.score.weight, same.score.weight)
    assert not torch.equal(one.score.weight, other.score.weight)


def test_a_saved_score_is_loaded_and_one_of_another_kind_refused(tmp_path):
    """A folder's own `score` stays as it is; a bias, or two labels, would be other values than it gave."""
    import transformers

    model = load_value_model(TINY, seed=1)
    torch.nn.init.normal_(model.score.weight)
    model.save_pretrained(tmp_path / "one")
    config = load_config(TINY)
    transformers.AutoModelForSequenceClassification.from_config(config, dtype=torch.float32).save_pretrained(tmp_path / "two")
    config.num_labels = 1
    transformers.AutoModelForTokenClassification.from_config(config, dtype=torch.float32).save_pretrained(tmp_path / "tokens")
    specs = {
        name: attrs.evolve(TINY, path=str(tmp_path / name), init="pretrained", config={}) for name in ("one", "tokens", "two")
    }

    assert torch.equal(load_value_model(specs["one"], seed=2).score.weight, model.score.weight)
    for name, message in (
        ("tokens", r"^model\.path: the layer `score` of .* has a bias"),
        ("two", r"^model\.path: score\.weight of .* has the shape \[2, 16\], and \[1, 16\]"),
    ):
        with pytest.raises(ModelError, match=message):
            load_value_model(specs[name], seed=2)


def test_a_new_head_is_as_small_for_any_width():
    """On normalised hidden states of width E its values have a deviation of 0.01."""
    random = torch.Generator().manual_seed(0)
    for width in (64, 4096):
        weight = torch.empty(1, width, dtype=torch.float64)
        small_head(weight, seed=1)
        values = torch.randn(2000, width, generator=random, dtype=torch.float64) @ weight[0]

        assert values.std().item() == pytest.approx(0.01, rel=0.25)
        assert abs(values.mean().item()) < 0.001


def test_kinds_of_models_without_such_a_layer_are_told():
    """One line says what is missing."""
    spec = attrs.evolve(TINY, config={"model_type": "mamba", "hidden_size": 16, "num_hidden_layers": 1, "state_size": 4})
    with pytest.raises(ModelError, match="transformers has no mamba with a score for a sequence") as caught:
        load_value_model(spec, seed=1)

    assert "\n" not in str(caught.value)
