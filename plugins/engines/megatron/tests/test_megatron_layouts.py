"""Two and four ranks in every layout against the local engine; checkpoints from one layout into another. Worker processes on the CPU."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from core_rl.component import Component
from core_rl.errors import UserError
from core_rl.numerics.aggregation import Aggregator
from core_rl.roles.train import TrainContext
from core_rl.testing.train_engine.batches import grouped_batch
from core_rl.testing.train_engine.objectives import Ratio
from core_rl.testing.train_engines import tiny
from core_rl.workers.group import Every
from core_rl.workers.local_group import LocalGroup
from core_rl.workers.train_engine import RemoteTrainEngine
from core_rl_megatron.config import MegatronConfig

INSPECTED = Component(name="megatron", target="megatron_inspected:Inspected", config="core_rl_megatron.config:MegatronConfig")
MIXTURE = {
    "num_experts": 4,
    "moe_intermediate_size": 24,
    "num_experts_per_tok": 2,
    "norm_topk_prob": True,
    "mlp_only_layers": [1],
}
MODELS = {
    "llama": tiny("llama", tie_word_embeddings=True, num_hidden_layers=4),
    "qwen2": tiny("qwen2", num_hidden_layers=4),
    "qwen3": tiny("qwen3", head_dim=16, num_hidden_layers=4),
    "qwen3_moe": tiny("qwen3_moe", num_hidden_layers=4, **MIXTURE),
}
OPTIMIZER = {"lr": 1e-2, "eps": 1e-2, "weight_decay": 0.1, "max_grad_norm": 0.5}
MEAN = Aggregator("token-mean")
SP = {"tensor_parallel": 2, "sequence_parallel": True}
PP = {"pipeline_parallel": 2}


class Workers:
    """Groups of worker processes, begun when they are first needed."""

    def __init__(self):
        self.groups = {}
        self.made = []
        sys.path.append(str(Path(__file__).parent))  # spawned processes get this list

    def engine(self, ranks, model, *, heads="policy", reference=False, dtype="float32", path=None, **options):
        if ranks not in self.groups:
            self.groups[ranks] = LocalGroup(ranks, threads=1)
            self.groups[ranks].create("prepare", ("prepare", "megatron_on_cpu:apply", None))
        chosen = MegatronConfig(**{"device": "cpu", "max_tokens_per_micro_batch": 40, **OPTIMIZER, **options})
        engine = RemoteTrainEngine(
            lambda: self.groups[ranks], f"engine-{len(self.made)}", INSPECTED, chosen, context(model, heads, reference, dtype)
        )
        self.made.append(engine)
        engine.setup()
        return engine

    def close_engines(self):
        for engine in self.made:
            engine.close()

    def close(self):
        for group in self.groups.values():
            group.close()
        sys.path.remove(str(Path(__file__).parent))


@pytest.fixture(scope="module")
def all_workers():
    found = Workers()
    yield found
    found.close()


@pytest.fixture
def workers(all_workers):
    yield all_workers
    all_workers.close_engines()


def context(model, heads, reference, dtype="float32"):
    import attrs

    spec = attrs.evolve(MODELS[model], dtype=dtype)
    return TrainContext(model=spec, seed=1, total_steps=10, heads=heads, reference=reference)


def local(model, *, heads="policy", reference=False, dtype="float32", **options):
    from core_rl_local.config import LocalTrainConfig
    from core_rl_local.train import LocalTrainEngine

    engine = LocalTrainEngine(
        LocalTrainConfig(**{"device": "cpu", **OPTIMIZER, **options}), context(model, heads, reference, dtype)
    )
    engine.setup()
    return engine


def weights(engine):
    """Under the names of a folder: transformers keeps all experts of a layer in one tensor in memory."""
    found = {}
    for name, tensor in engine.export_weights():
        value = tensor.detach().float().clone()
        fused = re.fullmatch(r"(.*\.experts)\.(gate_up|down)_proj", name)
        if fused is None:
            found[name] = value
            continue
        for expert, matrix in enumerate(value):
            names = ("gate", "up") if fused[2] == "gate_up" else ("down",)
            pieces = zip(names, matrix.chunk(len(names)), strict=True)
            found |= {f"{fused[1]}.{expert}.{kind}_proj.weight": piece for kind, piece in pieces}
    return found


def gap(found, expected):
    assert found.keys() == expected.keys()
    return max(float((found[name] - expected[name]).abs().max()) for name in found)


def compare(workers, ranks, model, heads="policy", **options):
    """Outputs, two steps and the weights after them."""
    shared = {name: options[name] for name in ("optimizer", "momentum", "max_grad_norm") if name in options}
    engine, plain = workers.engine(ranks, model, heads=heads, **options), local(model, heads=heads, **shared)
    names = {"policy": ("logprobs", "entropy"), "value": ("values",), "both": ("logprobs", "entropy", "values")}[heads]
    objective = Ratio(entropy_coef=0.0 if heads == "value" else 0.01, value_coef=0.0 if heads == "policy" else 1.0)

    assert gap(weights(engine), weights(plain)) == 0.0
    assert gap(engine.forward(grouped_batch(1), names), plain.forward(grouped_batch(1), names)) < 1e-5
    for seed in (1, 2):
        report, expected = (one.train_step(grouped_batch(seed), objective, MEAN) for one in (engine, plain))
        assert report.loss == pytest.approx(expected.loss, rel=1e-5)
        assert report.grad_norm == pytest.approx(expected.grad_norm, rel=1e-4)
        assert report.metrics == pytest.approx(expected.metrics, rel=1e-4, abs=1e-6)
    assert gap(weights(engine), weights(plain)) < 1e-5


@pytest.mark.parametrize(
    ("model", "heads", "options"),
    [
        ("llama", "policy", {"tensor_parallel": 2}),
        ("llama", "both", {**PP, "recompute": "full"}),
        ("qwen2", "policy", {**PP, "virtual_pipeline": 2}),
        ("qwen3", "value", {**SP, "recompute": "selective"}),
        ("qwen3_moe", "policy", {"expert_parallel": 2}),
        ("qwen3_moe", "policy", SP),
        ("llama", "policy", {"optimizer": "sgd", "momentum": 0.9, "max_grad_norm": None}),
    ],
)
def test_two_ranks_are_the_local_engine(workers, model, heads, options):
    """The same weights, log-probabilities, loss, norm and step, however the model is shared."""
    compare(workers, 2, model, heads, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("llama", {"tensor_parallel": 2, **PP}),
        ("qwen3", {**SP, **PP, "virtual_pipeline": 2}),
        ("qwen2", {"tensor_parallel": 2}),
        ("qwen3_moe", {**SP, **PP, "expert_parallel": 2}),
        ("qwen3_moe", {"expert_parallel": 2}),
    ],
)
def test_four_ranks_are_the_local_engine(workers, model, options):
    """With several ways to share at once; what is left of the ranks is data parallel."""
    compare(workers, 4, model, **options)


@pytest.mark.parametrize(
    ("model", "heads", "first", "second"),
    [
        ("llama", "both", {"tensor_parallel": 2}, PP),
        pytest.param("llama", "both", PP, {}, marks=pytest.mark.slow),
        pytest.param("qwen3_moe", "policy", {"expert_parallel": 2}, SP, marks=pytest.mark.slow),
        pytest.param("qwen3_moe", "policy", {**PP, "expert_parallel": 1}, {"expert_parallel": 2}, marks=pytest.mark.slow),
        pytest.param("qwen3", "policy", {**PP, "virtual_pipeline": 2}, {"tensor_parallel": 2}, marks=pytest.mark.slow),
    ],
)
def test_a_checkpoint_goes_on_in_another_layout(workers, tmp_path, model, heads, first, second):  # noqa: PLR0917
    """Two steps, a checkpoint, another layout that loads it: the third step is the one it would have been; the reference too."""
    objective = Ratio(value_coef=1.0 if heads == "both" else 0.0)
    engine = workers.engine(2, model, heads=heads, reference=True, **first)
    engine.train_step(grouped_batch(1), objective, MEAN)
    engine.reset_reference()
    engine.train_step(grouped_batch(2), objective, MEAN)
    engine.save(tmp_path)
    expected = engine.train_step(grouped_batch(3), objective, MEAN)
    after, reference = weights(engine), engine.forward(grouped_batch(1), weights="reference")
    engine.close()

    other = workers.engine(2, model, heads=heads, reference=True, **second)
    other.load(tmp_path)
    report = other.train_step(grouped_batch(3), objective, MEAN)
    assert report.loss == pytest.approx(expected.loss, rel=1e-5)
    assert report.lr == expected.lr
    assert gap(weights(other), after) < 1e-5
    assert gap(other.forward(grouped_batch(1), weights="reference"), reference) < 1e-5


def test_every_weight_counts_its_own_steps_after_loading(workers, tmp_path):
    """Megatron gives all weights one counter, which each of them would count; and its state is shared by data-parallel ranks."""
    engine = workers.engine(2, "qwen2")
    for seed in (1, 2):
        engine.train_step(grouped_batch(seed), Ratio(), MEAN)
    engine.save(tmp_path)
    loaded = workers.engine(2, "qwen2")
    loaded.load(tmp_path)
    loaded.train_step(grouped_batch(3), Ratio(), MEAN)

    for number, own, values in loaded.group.call(loaded.key, "counters", gather=Every()):
        assert number == own > 1
        assert values == [3.0]
    whole = workers.engine(2, "qwen2", distributed_optimizer=False)
    whole.train_step(grouped_batch(1), Ratio(), MEAN)
    shared, all_of_it = (sum(one.group.call(one.key, "state_bytes", gather=Every())) for one in (loaded, whole))
    assert shared < 0.6 * all_of_it


@pytest.mark.slow
def test_bfloat16_keeps_float32_masters(workers):
    """Steps far below what a bfloat16 weight can show add up, as in the local engine with the same precision."""
    options = {"lr": 1e-5, "weight_decay": 0.0, "eps": 1e-8, "max_grad_norm": None}
    engine = workers.engine(2, "qwen3", dtype="bfloat16", tensor_parallel=2, **options)
    plain = local("qwen3", dtype="bfloat16", **options)
    before = weights(engine)
    for _ in range(20):
        report, expected = (one.train_step(grouped_batch(1), Ratio(), MEAN) for one in (engine, plain))

    name = "model.layers.0.mlp.down_proj.weight"
    moved, expect = (float((weights(one)[name] - before[name]).abs().mean()) for one in (engine, plain))
    assert report.loss == pytest.approx(expected.loss, rel=0.05)
    assert moved == pytest.approx(expect, rel=0.1)
    assert moved > 5e-5  # 20 steps of 1e-5 at most, where one step is below half a unit in the last place of most weights


def test_one_layout_in_a_process(workers):
    """An engine beside another takes the same sizes; the error says whose."""
    workers.engine(2, "llama", tensor_parallel=2)
    workers.engine(2, "llama", tensor_parallel=2)
    with pytest.raises(UserError, match=r"has a megatron engine with tensor 2, .*cannot have one with tensor 1, pipeline 2"):
        workers.engine(2, "llama", **PP)
    workers.groups.pop(2)  # an error is the end of a group
