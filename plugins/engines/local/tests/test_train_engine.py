"""Steps, schedule, precision, adapters, reference, checkpoints and export of the local train engine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from core_rl.data.batch import PackedBatch
from core_rl.errors import CheckpointError, RunError, UserError
from core_rl.fingerprint import fingerprint, same
from core_rl.hf.spec import ModelSpec
from core_rl.numerics.aggregation import Aggregator
from core_rl.roles.train import LossOutput, TrainContext
from core_rl.train.config import LoraConfig
from core_rl.train.memory import explain_out_of_memory
from core_rl.train.schedule import learning_rate
from core_rl_local.config import LocalTrainConfig
from core_rl_local.train import LocalTrainEngine

LLAMA = {
    "model_type": "llama",
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
}
MEAN = Aggregator("token-mean")


class Likelihood:
    """Raise the log-probability of every scored token; `factor` may be NaN."""

    entropy_grad = False

    def __init__(self, factor=1.0):
        self.factor = factor

    def __call__(self, outputs, batch):
        count = batch.loss_mask.sum()
        metrics = {"logprob": (outputs.logprobs.detach().sum(), count), "never": (count * 0.0, count * 0)}
        return LossOutput(
            values=-outputs.logprobs * self.factor, metrics=metrics, maxima={"len_max": batch.lengths.max().float()}
        )


def batch() -> PackedBatch:
    generator = torch.Generator().manual_seed(5)
    prompts = torch.randint(3, 64, (2, 6), generator=generator).repeat_interleave(3, 0)
    rows = torch.cat([prompts, torch.randint(3, 64, (6, 5), generator=generator)], 1)
    positions = torch.arange(11, dtype=torch.int32).repeat(6)
    return PackedBatch(
        tokens=rows.flatten(),
        cu_seqlens=torch.arange(0, 67, 11, dtype=torch.int32),
        positions=positions,
        loss_mask=positions >= 6,
        sequence_fields={"group": torch.tensor([0, 0, 0, 1, 1, 1])},
    )


def build(*, dtype="float32", reference=False, tokenizer=None, total_steps=10, setup=True, **options) -> LocalTrainEngine:
    spec = ModelSpec(init="random", config=LLAMA, dtype=dtype, tokenizer=tokenizer)
    context = TrainContext(model=spec, seed=1, total_steps=total_steps, reference=reference)
    engine = LocalTrainEngine(LocalTrainConfig(**{"device": "cpu", "lr": 1e-2, **options}), context)
    if setup:
        engine.setup()
    return engine


def weights(engine) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in engine.export_weights()}


def equal(a, b) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"optimizer": "sgd", "lr": 1.0, "momentum": 0.5},
        {"lora": LoraConfig(rank=4), "lr": 0.1, "gradient_checkpointing": True},
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_steps_raise_the_likelihood(dtype, options):
    """Every optimizer, precision and kind of weights learns; the report says so."""
    engine = build(dtype=dtype, **options)

    reports = [engine.train_step(batch(), Likelihood(), MEAN) for _ in range(10)]

    assert reports[-1].loss < reports[0].loss - 0.05
    assert reports[0].metrics["logprob"] == pytest.approx(-reports[0].loss, rel=1e-5)
    assert reports[0].metrics["len_max"] == 11.0
    assert "never" not in reports[0].metrics


def test_one_adamw_step_is_that_of_torch():
    """Clipping, decay on matrices alone and the fused step equal plain torch on the same gradients."""
    options = {"weight_decay": 0.1, "max_grad_norm": 0.1, "betas": (0.9, 0.95), "lr": 1e-3}
    engine = build(**options)
    before = {name: p.detach().clone() for name, p in engine.module.named_parameters()}

    engine.train_step(batch(), Likelihood(), MEAN)

    probe = build(optimizer="sgd", max_grad_norm=None)
    for name, p in probe.module.named_parameters():
        p.data.copy_(before[name])
    report = probe.train_step(batch(), Likelihood(), MEAN)
    for name, p in engine.module.named_parameters():
        grad = probe._masters.masters[name].grad * 0.1 / report.grad_norm
        decay = 0.1 if p.ndim > 1 else 0.0
        expected = before[name] * (1 - 1e-3 * decay) - 1e-3 * grad / (grad.abs() + 1e-8)
        torch.testing.assert_close(p.detach(), expected, atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_a_step_that_is_not_finite_is_skipped(factor):
    """Weights, optimizer and schedule stay as they were."""
    engine = build()
    engine.train_step(batch(), Likelihood(), MEAN)
    before, steps = weights(engine), engine.steps

    report = engine.train_step(batch(), Likelihood(factor), MEAN)

    assert report.skipped
    assert equal(before, weights(engine))
    assert engine.steps == steps


def test_a_batch_without_scored_tokens_changes_nothing():
    """Not even momentum moves the weights, and the log-probabilities are all 0."""
    engine = build()
    engine.train_step(batch(), Likelihood(), MEAN)
    before, empty = weights(engine), batch().with_loss_mask(torch.zeros(66, dtype=torch.bool))

    report = engine.train_step(empty, Likelihood(), MEAN)

    assert (report.num_micro_batches, report.loss) == (0, 0.0)
    assert equal(before, weights(engine))
    assert not engine.forward(empty)["logprobs"].any()


def test_schedule():
    """Warm-up never starts at 0; linear and cosine go from the peak to their floor; a fraction warms up that part of the run."""
    linear = LocalTrainConfig(lr=1.0, schedule="linear", warmup=2, min_lr_ratio=0.2)
    cosine = LocalTrainConfig(lr=1.0, schedule="cosine", warmup=0.2)

    assert [learning_rate(linear, k, 6) for k in (0, 1, 2, 4, 6, 9)] == pytest.approx([0.5, 1.0, 1.0, 0.6, 0.2, 0.2])
    assert [learning_rate(cosine, k, 10) for k in (0, 1, 2, 6, 10)] == pytest.approx([0.5, 1.0, 1.0, 0.5, 0.0])
    assert learning_rate(LocalTrainConfig(lr=3.0), 7, 5) == 3.0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("options", [{}, {"lora": LoraConfig(dropout=0.2)}, {"optimizer": "sgd", "momentum": 0.9}])
def test_a_resumed_engine_goes_on_bit_for_bit(tmp_path, dtype, options):
    """Three steps equal two, a save, a fresh engine that loads, and one; reference and random numbers go on too."""
    whole, first, fresh = (build(dtype=dtype, schedule="cosine", reference=True, **options) for _ in range(3))
    torch.manual_seed(3)
    for _ in range(2):
        first.train_step(batch(), Likelihood(), MEAN)
    first.reset_reference()
    first.save(tmp_path)
    torch.manual_seed(3)
    for _ in range(2):
        whole.train_step(batch(), Likelihood(), MEAN)
    whole.reset_reference()
    expected = whole.train_step(batch(), Likelihood(), MEAN), torch.rand(())

    fresh.load(tmp_path)
    report = fresh.train_step(batch(), Likelihood(), MEAN), torch.rand(())

    assert report == expected
    assert equal(weights(whole), weights(fresh))
    assert torch.equal(*(engine.forward(batch(), weights="reference")["logprobs"] for engine in (whole, fresh)))


def test_a_checkpoint_does_not_depend_on_the_layout_in_memory(tmp_path):
    """Saved column by column, it goes on row by row with the same numbers."""
    column, row = build(weight_layout="column"), build(weight_layout="row")
    column.train_step(batch(), Likelihood(), MEAN)
    column.save(tmp_path)
    row.load(tmp_path)

    for _ in range(2):
        reports = [engine.train_step(batch(), Likelihood(), MEAN) for engine in (column, row)]

    assert reports[0].loss == pytest.approx(reports[1].loss, rel=1e-5)
    assert reports[0].grad_norm == pytest.approx(reports[1].grad_norm, rel=1e-4)


def test_a_checkpoint_of_another_model_or_cut_short_is_refused(tmp_path):
    """The error names the file and what is wrong."""
    build(lora=LoraConfig()).save(tmp_path)
    with pytest.raises(CheckpointError, match=r"weights\.safetensors: the checkpoint is of another model"):
        build().load(tmp_path)
    (tmp_path / "weights.safetensors").write_bytes(b"\x00" * 20)

    with pytest.raises(CheckpointError, match="cannot be read"):
        build().load(tmp_path)


@pytest.mark.parametrize("options", [{}, {"lora": LoraConfig(rank=4), "lr": 0.1}])
def test_an_exported_model_loads_with_from_pretrained(tmp_path: Path, options):
    """Same log-probabilities; merged weights under Hugging Face names; the tokenizer and the adapter beside them."""
    import transformers

    engine = build(tokenizer="characters:" + "".join(chr(48 + k) for k in range(61)), **options)
    for _ in range(3):
        engine.train_step(batch(), Likelihood(), MEAN)

    engine.save_hf(tmp_path)

    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    ids = batch().tokens[None, :11]
    torch.testing.assert_close(model(ids).logits, engine.module(ids).logits, atol=1e-5, rtol=1e-5)
    expected = {name: p for name, p in model.named_parameters() if name != "lm_head.weight"}
    assert same(fingerprint(engine.export_weights()), fingerprint(expected.items()), rtol=1e-6) is None
    assert len(transformers.AutoTokenizer.from_pretrained(tmp_path)) == 64
    assert (tmp_path / "adapter" / "adapter_config.json").is_file() is ("lora" in options)


@pytest.mark.parametrize("options", [{}, {"lora": LoraConfig(), "lr": 0.1}])
def test_the_reference_stays_until_it_is_reset(options):
    """It is the initial policy, then a copy of the current one; asking for one that was not kept is refused."""
    engine = build(reference=True, **options)
    first = engine.forward(batch())["logprobs"]
    for _ in range(3):
        engine.train_step(batch(), Likelihood(), MEAN)
    current = engine.forward(batch())["logprobs"]

    assert torch.equal(engine.forward(batch(), weights="reference")["logprobs"], first)
    assert torch.equal(engine.forward(batch())["logprobs"], current)
    engine.reset_reference()
    assert torch.equal(engine.forward(batch(), weights="reference")["logprobs"], current)
    with pytest.raises(UserError, match="reference"):
        build().forward(batch(), weights="reference")


@pytest.mark.parametrize("layout", ["row", "column"])
def test_weights_keep_their_layout(layout, tmp_path):
    """In memory as asked, through steps, a checkpoint, offload and onload; the output layer is always row by row."""
    engine = build(weight_layout=layout)
    engine.train_step(batch(), Likelihood(), MEAN)
    engine.save(tmp_path)
    engine.load(tmp_path)
    engine.offload()
    engine.onload()
    report = engine.train_step(batch(), Likelihood(), MEAN)

    assert engine.module.model.layers[0].mlp.up_proj.weight.is_contiguous() is (layout == "row")
    assert engine.module.lm_head.weight.is_contiguous()
    assert not report.skipped


def test_adapters_alone_train_and_start_as_the_model():
    """The base weights stay; the first log-probabilities are those without adapters."""
    engine, base = build(lora=LoraConfig(rank=4, target_modules=("q_proj", "v_proj")), lr=0.1), build()

    torch.testing.assert_close(engine.forward(batch())["logprobs"], base.forward(batch())["logprobs"])
    engine.train_step(batch(), Likelihood(), MEAN)
    changed = [name for name, tensor in engine.export_weights() if not torch.equal(tensor, weights(base)[name])]
    assert sorted({name.split(".")[-2] for name in changed}) == ["q_proj", "v_proj"]
    assert engine.describe()["trainable_parameters"] == 2 * 4 * (32 + 32 + 32 + 16)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "nonsense"}, "train_engine.device"),
        ({"device": "cuda:99"}, "torch sees"),
        ({"dtype": "float16"}, "bfloat16"),
        ({"lora": LoraConfig(target_modules=("nowhere",))}, "target_modules"),
        ({"lora": LoraConfig(target_modules=("lm_head",))}, "output head"),
    ],
)
def test_mistakes_are_named(options, message):
    """Each is a user's error in one line."""
    with pytest.raises(UserError, match=message) as caught:
        build(**options)

    assert "\n" not in str(caught.value)


def test_out_of_memory_says_what_to_lower():
    """Of torch's errors only those of memory are turned into it."""
    with pytest.raises(RunError, match="max_tokens_per_micro_batch"), explain_out_of_memory(tokens=2048):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")  # noqa: EM101, TRY003

    with pytest.raises(RuntimeError, match="shape"), explain_out_of_memory(tokens=2048):
        raise RuntimeError("shape")  # noqa: EM101
