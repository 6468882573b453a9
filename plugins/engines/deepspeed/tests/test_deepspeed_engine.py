"""Adapters, optimizers, checkpoints between stages, models that cannot be packed, and memory that leaves the device."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from core_rl.errors import CheckpointError, UserError
from core_rl.hf.spec import ModelSpec
from core_rl.roles.train import TrainContext
from core_rl.testing.train_engine.batches import grouped_batch
from core_rl.testing.train_engine.models import MODELS
from core_rl.testing.train_engine.objectives import WithinGroup
from core_rl.testing.train_engine.scripts import TOKEN_MEAN, take_step, weights_of
from core_rl.testing.train_engines import Subject, tiny
from core_rl.train.config import LoraConfig
from core_rl_deepspeed import _checkpoint
from core_rl_deepspeed._storages import Storages
from core_rl_deepspeed.config import DeepSpeedConfig
from core_rl_deepspeed.train import DeepSpeedTrainEngine
from core_rl_local.config import LocalTrainConfig
from core_rl_local.train import LocalTrainEngine

COMMON = {"lr": 1e-2, "eps": 1e-2, "max_tokens_per_micro_batch": 40}


def context(model: ModelSpec = MODELS["llama"], **facts) -> TrainContext:
    return TrainContext(model=model, seed=7, total_steps=8, **facts)


def on_two_workers(bench, built_for=None, **options):
    from core_rl.workers.train_engine import RemoteTrainEngine

    component = Subject(engine="deepspeed").component
    engine = RemoteTrainEngine(
        lambda: bench.group(2),
        f"own-{id(options)}",
        component,
        DeepSpeedConfig(**{"device": "cpu", **COMMON, **options}),
        built_for or context(),
    )
    engine.setup()
    return engine


def local(built_for=None, **options) -> LocalTrainEngine:
    engine = LocalTrainEngine(LocalTrainConfig(**{"device": "cpu", **COMMON, **options}), built_for or context())
    engine.setup()
    return engine


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, atol=1e-5, rtol=0, msg=name)


ADAPTERS = {"lora": LoraConfig(rank=4), "lr": 0.1, "gradient_checkpointing": True}
SGD = {"optimizer": "sgd", "momentum": 0.9}


@pytest.mark.parametrize(
    ("stage", "options"),
    [
        (3, ADAPTERS),
        (1, SGD),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in [(1, ADAPTERS), (0, ADAPTERS), (3, SGD)]),
    ],
)
def test_adapters_and_sgd_are_as_local(bench, tmp_path, stage, options):
    """Weights after two steps, merged; a saved model; and a checkpoint that goes on the same."""
    import transformers

    engine, expected = on_two_workers(bench, zero_stage=stage, **options), local(**options)
    for seed in (1, 2):
        take_step(engine, grouped_batch(seed))
        take_step(expected, grouped_batch(seed))
    assert_same(weights_of(engine), weights_of(expected))

    for name in ("state", "model"):
        (tmp_path / name).mkdir()
    engine.save(tmp_path / "state")
    engine.save_hf(tmp_path / "model")
    other = on_two_workers(bench, zero_stage=stage, **options)
    other.load(tmp_path / "state")
    found, wanted = take_step(other, grouped_batch(3)), take_step(expected, grouped_batch(3))
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    before = {name: p for name, p in loaded.named_parameters() if name in wanted.weights}

    assert_same(found.weights, wanted.weights)
    assert before.keys() == wanted.weights.keys()
    assert (tmp_path / "model" / "adapter" / "adapter_config.json").is_file() is ("lora" in options)


def test_a_checkpoint_of_one_stage_goes_on_at_another(bench, tmp_path):
    """Of stage 3 on two workers, at stages 0 and 2; the optimizer's state goes on too."""
    first = on_two_workers(bench, zero_stage=3)
    take_step(first, grouped_batch(1))
    first.save(tmp_path)
    expected = take_step(first, grouped_batch(2)).weights

    for stage in (0, 2):
        other = on_two_workers(bench, zero_stage=stage)
        other.load(tmp_path)
        assert_same(take_step(other, grouped_batch(2)).weights, expected)


def test_a_checkpoint_of_another_model_or_cut_short_is_refused(bench, tmp_path):
    """The error names the files and what is wrong."""
    first = on_two_workers(bench, zero_stage=2)
    take_step(first, grouped_batch(1))
    first.save(tmp_path)
    shapes = {name: torch.Size(tensor.shape) for name, tensor in weights_of(first).items()}

    with pytest.raises(CheckpointError, match="another model"):
        list(_checkpoint.read(tmp_path, _checkpoint.WEIGHTS, [*shapes.items(), ("more", torch.Size([1]))]))
    cut = next(tmp_path.glob("weights-*.safetensors"))
    Path(cut).write_bytes(cut.read_bytes()[:20])
    with pytest.raises(CheckpointError, match="cannot be read"):
        list(_checkpoint.read(tmp_path, _checkpoint.WEIGHTS, shapes.items()))


def test_a_model_that_cannot_be_packed_takes_one_sequence_at_a_time(bench):
    """On all ranks, so that their gathers meet: of a recurrent model at stage 3, with the numbers of the local engine."""
    model = ModelSpec(
        init="random",
        tokenizer=MODELS["llama"].tokenizer,
        config={
            "model_type": "mamba",
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "state_size": 4,
            "tie_word_embeddings": False,
        },
    )
    engine, expected = on_two_workers(bench, context(model), zero_stage=3), local(context(model))
    found, wanted = take_step(engine, grouped_batch(1)), take_step(expected, grouped_batch(1))

    assert engine.describe()["packed"] is False
    assert found.report.loss == pytest.approx(wanted.report.loss, rel=1e-5)
    assert_same(found.weights, wanted.weights)
    with pytest.raises(UserError, match="zero_stage 2"):
        engine.train_step(grouped_batch(1), WithinGroup(), TOKEN_MEAN)
    bench.give_up(2)


@pytest.mark.parametrize("stage", [pytest.param(0, marks=pytest.mark.slow), 1, 3])
def test_memory_leaves_the_device_and_comes_back_under_its_views(stage):
    """Between two steps, all that lies on the device for good: the second step is as without the journey."""
    config = DeepSpeedConfig(device="cpu", zero_stage=stage, **COMMON)
    engines = [DeepSpeedTrainEngine(config, context(attrs_bf16(MODELS["llama"]))) for _ in range(2)]
    for engine in engines:
        engine.setup()
        take_step(engine, grouped_batch(1))
    away = Storages(engines[0]._on_device())
    away.empty()
    gone = sum(tensor.untyped_storage().nbytes() for tensor in engines[0]._on_device())
    away.fill()
    found, expected = (take_step(engine, grouped_batch(2)) for engine in engines)

    assert gone == 0
    assert found.report == expected.report
    assert all(torch.equal(found.weights[name], value) for name, value in expected.weights.items())


def attrs_bf16(spec: ModelSpec) -> ModelSpec:
    import attrs

    return attrs.evolve(spec, dtype="bfloat16")


def test_torch_is_left_as_it_was():
    """DeepSpeed's own linear layer is there for its model alone: others in this process compute to the bit as before."""
    before = torch.nn.functional.linear
    engine = DeepSpeedTrainEngine(DeepSpeedConfig(device="cpu", zero_stage=3, **COMMON), context())
    engine.setup()
    found, during = torch.nn.functional.linear, engine._launched.linear
    take_step(engine, grouped_batch(1))

    assert found is before
    assert during is not before
    assert torch.nn.functional.linear is before


def test_float16_is_refused():
    """It needs a scaled loss."""
    engine = DeepSpeedTrainEngine(DeepSpeedConfig(device="cpu"), context(ModelSpec(dtype="float16")))

    with pytest.raises(UserError, match="bfloat16"):
        engine.setup()
    engine.close()


def test_a_frozen_model_is_in_shards_without_an_optimizer(bench):
    """A teacher of stage 3 on two workers says what the model says."""
    spec = tiny("qwen2", tie_word_embeddings=False)
    teacher = on_two_workers(bench, context(spec, frozen=True), zero_stage=3)
    expected = local(context(spec)).forward(grouped_batch(1))["logprobs"]

    torch.testing.assert_close(teacher.forward(grouped_batch(1))["logprobs"], expected, atol=1e-4, rtol=0)
