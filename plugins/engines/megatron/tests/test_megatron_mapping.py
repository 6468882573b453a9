"""From Hugging Face weights to the parameters of every rank and back, in every layout. No processes."""

from __future__ import annotations

import pytest
import torch

from core_rl.errors import ModelError, UserError
from core_rl.hf.load import load_config, load_model
from core_rl.hf.spec import ModelSpec
from core_rl.testing.train_engines import tiny
from core_rl_megatron._config import _check_sizes
from core_rl_megatron._families import check_family, rules
from core_rl_megatron._layout import Layout
from core_rl_megatron._placement import Placement
from core_rl_megatron._source import Folder, Module
from core_rl_megatron.config import MegatronConfig

MIXTURE = {
    "num_experts": 4,
    "moe_intermediate_size": 24,
    "num_experts_per_tok": 2,
    "norm_topk_prob": True,
    "mlp_only_layers": [1],
}
FAMILIES = {
    "llama": tiny("llama", tie_word_embeddings=True, num_hidden_layers=4),
    "qwen2": tiny("qwen2", num_hidden_layers=4),
    "qwen3": tiny("qwen3", head_dim=16, num_hidden_layers=4),
    "qwen3_moe": tiny("qwen3_moe", num_hidden_layers=4, **MIXTURE),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Each model, and a folder of it in several files."""
    found = {}
    for family, spec in FAMILIES.items():
        path = tmp_path_factory.mktemp(family)
        model = load_model(spec, seed=3)
        model.save_pretrained(path, max_shard_size="60KB")
        found[family] = model, path
    return found


def parts(source, rule, ranks):
    """The parameter of every tensor-parallel rank."""
    found = []
    for rank in range(ranks):
        spans = [() if rule.axis is None else rule.span(source.shape(n)[rule.axis], rank, ranks) for n in rule.hf]
        pieces = [source.read(n, *(() if rule.axis is None else (rule.axis, *s))) for n, s in zip(rule.hf, spans, strict=True)]
        found.append(rule.join(pieces))
    return found


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("ranks", [1, 2])
def test_parts_of_all_ranks_make_the_weights_again(folders, family, ranks):
    """Every weight of the folder is in one rule, comes back to the bit, and is the same out of memory."""
    model, path = folders[family]
    folder, memory = Folder(path), Module(model)
    seen = set()
    for rule in rules(model.config, "policy", separate_output=False):
        shards = parts(folder, rule, ranks)
        assert all(torch.equal(a, b) for a, b in zip(shards, parts(memory, rule, ranks), strict=True))
        split = [rule.split(shard) for shard in shards]
        for index, name in enumerate(rule.hf):
            whole = split[0][index] if rule.axis is None else torch.cat([each[index] for each in split], rule.axis)
            assert torch.equal(whole, folder.read(name)), name
            seen.add(name)

    assert seen == set(folder._files)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("pipeline", "virtual", "expert"), [(1, 1, 1), (2, 1, 2), (2, 2, 4), (4, 1, 1)])
def test_each_parameter_has_one_owner(folders, family, pipeline, virtual, expert):
    """All rules of a stage and part have different names; layers of a stage are counted from 0 without a gap."""
    config = folders[family][0].config
    layout = Layout(pipeline=pipeline, virtual=virtual, expert=expert)
    placement = Placement(layout=layout, num_layers=config.num_hidden_layers, num_experts=4)
    owners = [placement.owner(rule) for rule in rules(config, "policy", separate_output=pipeline > 1)]
    places = [(o.stage, o.part, o.expert_rank, o.name) for o in owners]

    assert len(set(places)) == len(places)
    per_part = config.num_hidden_layers // (pipeline * virtual)
    layers = {(o.stage, o.part, int(o.name.split(".")[2])) for o in owners if o.name.startswith("decoder.layers")}
    assert layers == {(s, v, k) for s in range(pipeline) for v in range(virtual) for k in range(per_part)}


def test_interleaved_parts_take_layers_in_turn(folders):
    """Stage 0 has layers 0 and 2, stage 1 layers 1 and 3."""
    config = folders["llama"][0].config
    placement = Placement(layout=Layout(pipeline=2, virtual=2), num_layers=4)
    norms = [r for r in rules(config, "policy", separate_output=True) if r.local.endswith("input_layernorm.weight")]

    assert [(o.stage, o.part) for o in map(placement.owner, norms)] == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_a_weight_that_is_not_there_is_named(folders):
    """With the folder."""
    with pytest.raises(ModelError, match=r"has no weight 'lm_head\.weight'"):
        Folder(folders["llama"][1]).shape("lm_head.weight")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (tiny("gpt2"), "no mapping for gpt2; it has llama, qwen2, qwen3, qwen3_moe"),
        (tiny("llama", attention_bias=True), "a bias in its attention"),
        (tiny("llama", hidden_act="gelu"), "the activation gelu"),
        (tiny("qwen3", use_sliding_window=True, sliding_window=8, max_window_layers=0), "a sliding window"),
    ],
)
def test_a_model_that_would_be_computed_wrongly_is_refused(spec, message):
    """By its name, with what there is."""
    if spec.config["model_type"] == "gpt2":
        spec = ModelSpec(init="random", config={"model_type": "gpt2"}, tokenizer=spec.tokenizer)
    with pytest.raises(ModelError, match=message):
        check_family(load_config(spec))


@pytest.mark.parametrize(
    ("options", "world", "message"),
    [
        (
            {"tensor_parallel": 2, "pipeline_parallel": 2},
            6,
            "4 workers for one copy of the model, and the launcher has 6: take 4, 8, 12",
        ),
        ({"expert_parallel": 4, "pipeline_parallel": 2}, 4, "take 8, 16, 24"),
        ({"context_parallel": 2}, 2, "transformer_engine"),
        ({"sequence_parallel": True}, 2, "set tensor_parallel too"),
        ({"virtual_pipeline": 2}, 2, "set pipeline_parallel too"),
        ({"distributed_optimizer": True, "optimizer": "sgd"}, 2, "set it to false for sgd"),
    ],
)
def test_a_layout_that_does_not_fit_says_what_does(options, world, message):
    """One line for the user."""
    with pytest.raises(UserError, match=message) as caught:
        Layout.of(MegatronConfig(**options), world)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("family", "options", "world", "message"),
    [
        ("llama", {"tensor_parallel": 4}, 4, "4 does not divide the 2 key heads of this model: take one of 1, 2"),
        ("llama", {"pipeline_parallel": 3}, 3, "3 does not divide the 4 layers"),
        ("qwen3_moe", {"expert_parallel": 3}, 3, "3 does not divide the 4 experts"),
        ("qwen3_moe", {"tensor_parallel": 2}, 2, "sequence_parallel"),
    ],
)
def test_a_model_that_does_not_divide_says_what_does(family, options, world, message):
    """Heads, layers, experts."""
    options = MegatronConfig(**options)
    with pytest.raises(UserError, match=message):
        _check_sizes(load_config(FAMILIES[family]), options, Layout.of(options, world))
