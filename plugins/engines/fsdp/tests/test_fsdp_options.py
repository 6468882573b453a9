"""Each option of the engine on two workers changes where and how things are computed, and no number."""

from __future__ import annotations

import attrs
import pytest
import torch

from core_rl.component import Component
from core_rl.errors import CheckpointError, UserError
from core_rl.hf.packed.choice import boundaries
from core_rl.numerics.aggregation import Aggregator
from core_rl.plugins.catalogue import Catalogue
from core_rl.roles.train import TrainContext
from core_rl.testing.train_engine.batches import grouped_batch
from core_rl.testing.train_engine.models import MODELS, tiny
from core_rl.testing.train_engine.objectives import Ratio
from core_rl.train.config import LoraConfig
from core_rl.workers.group import Every
from core_rl.workers.local_group import LocalGroup
from core_rl.workers.train_engine import RemoteTrainEngine
from core_rl_fsdp.config import FsdpConfig
from core_rl_local.config import LocalTrainConfig
from core_rl_local.train import LocalTrainEngine

SHARED = {"device": "cpu", "lr": 0.05, "optimizer": "sgd", "max_tokens_per_micro_batch": 40}
MEAN = Aggregator("token-mean")


@pytest.fixture(scope="module")
def groups():
    made: list[LocalGroup] = []
    yield made
    for one in made:
        one.close()


@pytest.fixture
def group(groups) -> LocalGroup:
    """Two workers, new ones after a failure."""
    if not groups or not groups[-1].alive:
        groups.append(LocalGroup(2, threads=1))
    return groups[-1]


@pytest.fixture(scope="module")
def component() -> Component:
    return Catalogue.discover().find("train_engine", "fsdp").component


def context(dtype="float32", model="llama") -> TrainContext:
    spec = attrs.evolve(MODELS[model], dtype=dtype)
    return TrainContext(model=spec, seed=7, total_steps=4, reference=True)


def build(group, component, about, **options) -> RemoteTrainEngine:
    config = FsdpConfig(**{**SHARED, **options})
    engine = RemoteTrainEngine(lambda: group, f"engine-{id(config)}", component, config, about)
    engine.setup()
    return engine


def results(engine) -> list[torch.Tensor]:
    """Log-probabilities, two steps, the reference afterwards, the weights."""
    batch = grouped_batch(3)
    before = engine.forward(batch)["logprobs"]
    reports = [engine.train_step(batch, Ratio(), MEAN) for _ in range(2)]
    numbers = torch.tensor([[report.loss, report.grad_norm] for report in reports])
    reference = engine.forward(batch, weights="reference")["logprobs"]
    return [before, numbers, reference, *(tensor.float().clone() for _, tensor in engine.export_weights())]


@pytest.mark.parametrize(
    ("options", "dtype", "tolerance"),
    [
        ({"lora": LoraConfig(rank=4)}, "float32", 2e-5),
        ({"lora": LoraConfig(rank=4), "ulysses": 2}, "float32", 2e-5),
        ({"attention": "sdpa", "reshard_after_forward": False}, "float32", 2e-5),
        ({"attention": "eager"}, "float32", 2e-5),
        ({"tensor_parallel": 2}, "float32", 2e-5),
        ({"ulysses": 2}, "float32", 2e-5),
        pytest.param({"compile": True}, "float32", 2e-5, marks=pytest.mark.slow),
        ({"cpu_offload": True, "gradient_checkpointing": True}, "float32", 2e-5),
        ({"wrap": ("LlamaDecoderLayer", "LlamaMLP")}, "float32", 2e-5),
        ({}, "bfloat16", 5e-2),
        ({"tensor_parallel": 2, "gradient_checkpointing": True}, "bfloat16", 5e-2),
    ],
    ids=str,
)
def test_options_change_no_number(group, component, options, dtype, tolerance):
    """Adapters, attention, offloading, checkpointing, wrapping, half precision: all as the local engine has them."""
    local = LocalTrainEngine(
        LocalTrainConfig(**{**SHARED, **{k: v for k, v in options.items() if k == "lora"}}), context(dtype)
    )
    local.setup()

    ours = results(build(group, component, context(dtype), **options))

    for mine, theirs in zip(ours, results(local), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


def test_ranks_stay_in_step(group, component):
    """A loss that reads no value beside a value head; a model that does not pack; a slice of tokens in which none is scored."""
    heads = attrs.evolve(context(), heads="both")
    gemma = attrs.evolve(context(), model=tiny("gemma2", head_dim=8))
    batch = grouped_batch(3)
    few = batch.with_loss_mask(batch.loss_mask & (batch.positions < 4)).select([0])

    report = build(group, component, heads, max_tokens_per_micro_batch=16).train_step(batch, Ratio(), MEAN)
    unpacked = build(group, component, gemma)
    long = build(group, component, context(), ulysses=2)

    assert report.grad_norm > 0
    assert unpacked.describe()["packed"] is False
    assert unpacked.train_step(batch.select([0, 1, 2]), Ratio(), MEAN).grad_norm > 0
    assert long.forward(few, top_k=3)["topk_ids"].shape == (few.num_tokens, 3)


def test_a_checkpoint_of_a_larger_model_is_refused(group, component, tmp_path):
    """The first name that is on one side only."""
    larger = attrs.evolve(context(), model=tiny("llama", num_hidden_layers=3, tie_word_embeddings=True))
    build(group, component, larger).save(tmp_path)

    with pytest.raises(
        CheckpointError, match=r"of another model or other adapters: weights/model\.layers\.2\..* is on one side only"
    ):
        build(group, component, context()).load(tmp_path)


def test_a_rank_has_its_part(group, component):
    """Matrices are halved by tensor parallelism, everything by shards."""
    whole = sum(p.numel() for p in build(group, component, context()).export_weights() for p in p[1:])
    engine = build(group, component, context(), tensor_parallel=2)
    facts = group.call(engine.key, "describe", gather=Every())
    parts = group.call(engine.key, "local_parameters", gather=Every())

    assert facts[0] == facts[1]
    assert facts[0]["parameters"] == whole
    assert all(part < 0.6 * whole for part in parts)


@pytest.mark.parametrize(
    ("options", "model", "text"),
    [
        ({"ulysses": 3}, "llama", "ulysses 3 x tensor_parallel 1 does not divide the launcher's 2 workers; take 3, 6, 12, …"),
        ({"tensor_parallel": 2}, "gpt2", "tensor_parallel: gpt2 cannot be cut: its plan in transformers has 'none'"),
        ({"tensor_parallel": 2, "lora": LoraConfig()}, "llama", "lora: adapters are not cut"),
        ({"tensor_parallel": 2}, "odd", "3 attention heads do not divide by 2; of this model 1, 3 do"),
        (
            {"ulysses": 2},
            "odd",
            "3 attention heads with 3 of keys and values on a rank do not divide by 2; of this model 1, 3 do",
        ),
        ({"ulysses": 2, "attention": "sdpa"}, "llama", "is not core-rl's packed one"),
        ({"attention": "flash_attention_2"}, "llama", "attention: flash_attention_2 cannot be used here"),
        ({"attention": "varlen"}, "llama", "varlen needs a GPU"),
        ({"wrap": ("LlamaLayer",)}, "llama", "no layer of .'LlamaLayer'.; its modules are"),
        ({"device": "cuda"}, "llama", "cuda is not there; take device: cpu"),
    ],
    ids=str,
)
def test_mistakes_are_one_line(component, options, model, text):
    """What is asked for, what there is, and what to take."""
    odd = tiny("llama", num_attention_heads=3, num_key_value_heads=3, hidden_size=48, intermediate_size=48)
    gpt2 = attrs.evolve(odd, config={"model_type": "gpt2", "n_embd": 32, "n_layer": 1, "n_head": 2})
    spec = {"odd": odd, "gpt2": gpt2}.get(model) or MODELS["llama"]
    workers = LocalGroup(2, threads=1)
    try:
        with pytest.raises(UserError, match=text) as caught:
            build(workers, component, TrainContext(model=spec, seed=7, total_steps=4), **options)
    finally:
        workers.close()

    assert "\n" not in str(caught.value)


def test_sequences_begin_where_positions_do():
    """For kernels that take boundaries."""
    bounds, longest = boundaries(torch.tensor([0, 1, 2, 0, 0, 1]))

    assert bounds.tolist() == [0, 3, 4, 6]
    assert longest == 3
