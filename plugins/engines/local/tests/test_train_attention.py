"""The packed row: sequences do not see each other, a shared prompt is computed once, and nothing changes by it."""

from __future__ import annotations

import attrs
import pytest
import torch

from core_rl.data.batch import PackedBatch
from core_rl.data.micro_batches import shared_prefix_lengths
from core_rl.hf.load import load_model
from core_rl.hf.packed.buckets import bucketize
from core_rl.hf.packed.layout import make_layout
from core_rl.hf.spec import ModelSpec
from core_rl.numerics.aggregation import Aggregator
from core_rl.roles.train import LossOutput, PolicyOutputs, TrainContext
from core_rl_local.config import LocalTrainConfig
from core_rl_local.train import LocalTrainEngine

SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
}
LLAMA = {**SIZES, "model_type": "llama", "num_key_value_heads": 2, "tie_word_embeddings": True}
MODELS = {
    "llama": LLAMA,
    "llama_untied": {**LLAMA, "tie_word_embeddings": False},
    "qwen2_bias": {**LLAMA, "model_type": "qwen2"},
    "qwen3_qk_norm": {**LLAMA, "model_type": "qwen3", "head_dim": 8},
    "mistral_window": {**LLAMA, "model_type": "mistral", "sliding_window": 5},
    "gpt_neox_parallel": {**SIZES, "model_type": "gpt_neox"},
    "gpt2_learned_positions": {
        "model_type": "gpt2",
        "vocab_size": 64,
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 256,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
    "gemma2_softcap": {
        **LLAMA,
        "model_type": "gemma2",
        "head_dim": 8,
        "final_logit_softcapping": 3.0,
        "attn_logit_softcapping": 2.0,
        "sliding_window": 6,
    },
    "granite_scaled_logits": {**LLAMA, "model_type": "granite", "logits_scaling": 3.0},
    "mamba_recurrent": {"model_type": "mamba", "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8},
}
ALONE = {"gemma2_softcap", "mamba_recurrent"}


class Objective:
    """-advantage · p, and an entropy bonus when its gradient is wanted."""

    def __init__(self, *, entropy_grad: bool = False) -> None:
        self.entropy_grad = entropy_grad

    def __call__(self, outputs: PolicyOutputs, batch: PackedBatch) -> LossOutput:
        values = -batch["advantages"] * outputs.logprobs.exp()
        if self.entropy_grad:
            values = values - 0.1 * outputs.entropy
        metrics = {"entropy/mean": (outputs.entropy.detach().sum(), batch.loss_mask.sum())}
        return LossOutput(values=values, metrics=metrics, maxima={"adv_max": batch["advantages"].max()})


def random_batch(seed: int = 0, groups: int = 3, samples: int = 4) -> PackedBatch:
    """Ragged prompts and completions, and one sequence without a scored token."""
    generator = torch.Generator().manual_seed(seed)

    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=generator))

    sequences, prompts = [], []
    for _ in range(groups):
        prompt = torch.randint(3, 64, (number(4, 20),), generator=generator)
        for _ in range(samples):
            sequences.append(torch.cat([prompt, torch.randint(3, 64, (number(1, 12),), generator=generator)]))
            prompts.append(len(prompt))
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    positions = torch.cat([torch.arange(int(length)) for length in lengths]).int()
    mask = positions >= torch.repeat_interleave(torch.tensor(prompts), lengths)
    mask[int(lengths[0]) : int(lengths[:2].sum())] = False
    return PackedBatch(
        tokens=torch.cat(sequences),
        cu_seqlens=torch.cat([torch.zeros(1), lengths.cumsum(0)]).int(),
        positions=positions,
        loss_mask=mask,
        token_fields={"advantages": torch.randn(int(lengths.sum()), generator=generator)},
        sequence_fields={"group": torch.arange(groups).repeat_interleave(samples)},
    )


def build(model: dict[str, object], **options: object) -> LocalTrainEngine:
    spec = ModelSpec(init="random", config=model)
    engine = LocalTrainEngine(LocalTrainConfig(device="cpu", **options), TrainContext(model=spec, seed=1, total_steps=10))
    engine.setup()
    return engine


def plain(module: torch.nn.Module, batch: PackedBatch) -> PolicyOutputs:
    """The independent implementation: each sequence alone through the model's own forward, whole logits."""
    logprobs, entropy = [], []
    for start, end in batch.cu_seqlens.unfold(0, 2, 1).tolist():
        tokens = batch.tokens[start:end]
        table = module(input_ids=tokens[None], use_cache=False).logits[0].log_softmax(-1)
        zero = torch.zeros(1, dtype=table.dtype)
        logprobs += [zero, table[:-1].gather(1, tokens[1:, None])[:, 0]]
        entropy += [zero, -(table.exp() * table).sum(-1)[:-1]]
    return PolicyOutputs(logprobs=torch.cat(logprobs) * batch.loss_mask, entropy=torch.cat(entropy) * batch.loss_mask)


def gradients(engine: LocalTrainEngine) -> dict[str, torch.Tensor]:
    return {name: master.grad for name, master in engine._masters.masters.items() if master.grad is not None}


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model_gives_the_numbers_of_its_own_forward(name):
    """Log-probabilities and entropies are those of each sequence alone; kinds that cannot be packed are computed alone."""
    batch = random_batch()
    engine = build(MODELS[name])

    got = engine.forward(batch, ("logprobs", "entropy"))

    expected = plain(engine.module, batch)
    torch.testing.assert_close(got["logprobs"], expected.logprobs.detach(), atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(got["entropy"], expected.entropy.detach(), atol=2e-5, rtol=1e-5)
    assert engine.describe()["packed"] is (name not in ALONE)


@pytest.mark.parametrize("entropy_grad", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prefix_sharing": False},
        {"max_tokens_per_micro_batch": 30},
        {"max_tokens_per_micro_batch": 1},
        {"gradient_checkpointing": True},
        {"weight_layout": "row"},
    ],
    ids=str,
)
def test_loss_and_gradient_equal_a_plain_float64_implementation(options, entropy_grad):
    """Loss, gradient norm and every gradient, for any split, with and without sharing, to 1e-5."""
    batch = random_batch()
    aggregation = Aggregator("seq-mean-token-mean")
    objective = Objective(entropy_grad=entropy_grad)
    engine = build(LLAMA, lr=0.0, max_grad_norm=None, **options)
    module = load_model(engine.context.model, seed=1).double()

    report = engine.train_step(batch, objective, aggregation)

    loss = (aggregation.weights(batch) * objective(plain(module, batch), batch).values).sum()
    loss.backward()
    expected = {name: p.grad for name, p in module.named_parameters()}
    norm = torch.stack([grad.norm() for grad in expected.values()]).norm()
    assert report.loss == pytest.approx(loss.item(), abs=1e-6)
    assert report.grad_norm == pytest.approx(norm.item(), rel=1e-5)
    for name, grad in gradients(engine).items():
        torch.testing.assert_close(grad.double(), expected[name], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("sharing", [True, False])
@pytest.mark.parametrize("victim", [0, 5, 11])
def test_a_perturbed_sequence_leaves_every_other_one_unchanged_to_the_bit(victim, sharing):
    """Another completion in one sequence changes its own outputs, and not one bit of the others'."""
    batch = random_batch(seed=3)
    engine = build(LLAMA, prefix_sharing=sharing)
    inside = batch.sequence_ids == victim
    changed = attrs.evolve(batch, tokens=torch.where(inside & batch.loss_mask, (batch.tokens + 7) % 64, batch.tokens))

    before, after = (engine.forward(b, ("logprobs", "entropy")) for b in (batch, changed))

    for name in before:
        assert torch.equal(before[name][~inside], after[name][~inside])
    assert not torch.equal(before["logprobs"][inside], after["logprobs"][inside])


def test_a_prompt_is_computed_once_for_its_group():
    """The row has every prompt once, and no token that predicts nothing."""
    batch = random_batch()
    prefixes = shared_prefix_lengths(batch)

    shared = make_layout(batch, prefixes, torch.device("cpu"))
    apart = make_layout(batch, [0] * batch.num_sequences, torch.device("cpu"))

    lengths, scored = batch.lengths.tolist(), [s for s in range(12) if s != 1]
    assert len(apart.tokens) == sum(lengths[s] - 1 for s in scored)
    prompts = [prefixes[s] for s in (0, 4, 8)]
    assert len(shared.tokens) == sum(prompts) + sum(lengths[s] - 1 - prefixes[s] for s in scored)


def test_sharing_gives_the_same_numbers_for_a_prompt_of_one_token():
    """The shortest prompt that can be shared, and completions of one token whose branch is empty."""
    batch = PackedBatch(
        tokens=torch.tensor([5, 6, 5, 7, 5, 8, 9]),
        cu_seqlens=torch.tensor([0, 2, 4, 7], dtype=torch.int32),
        positions=torch.tensor([0, 1, 0, 1, 0, 1, 2], dtype=torch.int32),
        loss_mask=torch.tensor([0, 1, 0, 1, 0, 1, 1], dtype=torch.bool),
        sequence_fields={"group": torch.tensor([4, 4, 4])},
    )
    engine = build(LLAMA)

    got = engine.forward(batch)["logprobs"]

    torch.testing.assert_close(got, plain(engine.module, batch).logprobs.detach(), atol=1e-6, rtol=1e-5)


def test_buckets_hold_every_piece_once_and_do_not_pad_a_short_one_to_a_long_one():
    """Pieces of one length go together; a very long one stands alone."""
    shapes = [(2000, 0), (10, 0), (12, 0), (11, 0)]

    assert bucketize(shapes) == [[1, 2, 3], [0]]
    assert bucketize([]) == []


def test_the_same_inputs_give_the_same_bits():
    """Two engines of one seed take the same step on one batch."""
    batch = random_batch()
    engines = [build(LLAMA, lr=1e-2, max_tokens_per_micro_batch=40) for _ in range(2)]

    reports = [engine.train_step(batch, Objective(entropy_grad=True), Aggregator("token-mean")) for engine in engines]

    assert reports[0] == reports[1]
    for (name, first), (_, second) in zip(*(engine.export_weights() for engine in engines), strict=True):
        assert torch.equal(first, second), name
