"""Value heads, given and likeliest tokens, whole groups, weighted terms and frozen models in the local train engine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.data.batch import PackedBatch
from core_rl.errors import ModelError
from core_rl.hf.spec import ModelSpec
from core_rl.numerics.aggregation import Aggregator
from core_rl.roles.train import LossOutput, TrainContext
from core_rl.train.config import LoraConfig
from core_rl_local.config import LocalTrainConfig
from core_rl_local.train import LocalTrainEngine

COMMON = {
    "vocab_size": 16,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
MODELS = {
    "llama": {"model_type": "llama", **COMMON, "tie_word_embeddings": True},
    "qwen3": {"model_type": "qwen3", **COMMON, "head_dim": 8},
}
TOKENIZER = "characters:0123456789abc"
MEAN = Aggregator("token-mean")


def batch(seed=5) -> PackedBatch:
    """Two groups of three with a shared prompt."""
    random = torch.Generator().manual_seed(seed)
    prompts = torch.randint(3, 16, (2, 6), generator=random).repeat_interleave(3, 0)
    rows = torch.cat([prompts, torch.randint(3, 16, (6, 5), generator=random)], 1)
    positions = torch.arange(11, dtype=torch.int32).repeat(6)
    return PackedBatch(
        tokens=rows.flatten(),
        cu_seqlens=torch.arange(0, 67, 11, dtype=torch.int32),
        positions=positions,
        loss_mask=positions >= 6,
        sequence_fields={"group": torch.arange(2).repeat_interleave(3)},
    )


def build(heads="policy", *, model="llama", path=None, frozen=False, dtype="float32", seed=1, **options) -> LocalTrainEngine:
    spec = ModelSpec(
        path=path,
        init="random" if path is None else "pretrained",
        config={} if path else MODELS[model],
        tokenizer=TOKENIZER,
        dtype=dtype,
    )
    context = TrainContext(model=spec, seed=seed, total_steps=10, heads=heads, frozen=frozen)
    engine = LocalTrainEngine(LocalTrainConfig(**{"device": "cpu", "lr": 1e-2, **options}), context)
    engine.setup()
    return engine


def randomise_head(engine, scale=1.0):
    with torch.no_grad():
        engine._policy.value_weight.normal_(generator=torch.Generator().manual_seed(7), std=scale)


def plain_values(engine, data):
    """[N] by the model's own trunk, sequence by sequence: the value of the state before each token."""
    result = torch.zeros(data.num_tokens)
    for start, end in data.cu_seqlens.unfold(0, 2, 1).tolist():
        hidden = engine.module.base_model(input_ids=data.tokens[None, start:end], use_cache=False).last_hidden_state[0]
        result[start + 1 : end] = (hidden[:-1] @ engine._policy.value_weight.t())[:, 0]
    return result.where(data.loss_mask, 0.0)


class Regression:
    """Values to a target, and beside a policy head the log-probabilities up."""

    entropy_grad = False
    unit = "sequence"

    def __init__(self, target=1.0, policy=0.0):
        self.target, self.policy = target, policy

    def __call__(self, outputs, data):
        values = (outputs.values - self.target).square() / 2 - self.policy * outputs.logprobs
        return LossOutput(values=values, metrics={})


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("heads", ["value", "both"])
@pytest.mark.parametrize("sharing", [True, False])
def test_values_are_those_of_the_state_before_each_token(model, heads, sharing):
    """By the model's own forward pass; shared prompts change nothing."""
    engine, data = build(heads, model=model, prefix_sharing=sharing), batch()
    randomise_head(engine)

    values = engine.forward(data, ["values"])["values"]
    with torch.no_grad():
        torch.testing.assert_close(values, plain_values(engine, data), atol=1e-5, rtol=1e-5)
    assert not values[~data.loss_mask].any()


@pytest.mark.parametrize("heads", ["value", "both"])
def test_a_new_head_says_next_to_nothing(heads):
    """Values begin near 0 and not at it, so that the trunk learns from the first step on; the seed decides them."""
    engine, data = build(heads, optimizer="sgd"), batch()
    values = engine.forward(data, ["values"])["values"]
    same, other = (build(heads, seed=seed)._policy.value_weight for seed in (1, 2))
    trunk = engine.module.base_model.layers[0].mlp.up_proj.weight.detach().clone()

    assert 0 < values.abs().max() < 0.1
    assert torch.equal(same, engine._policy.value_weight)
    assert not torch.equal(other, same)
    engine.train_step(data, Regression(), MEAN)

    assert not torch.equal(engine.module.base_model.layers[0].mlp.up_proj.weight, trunk)


@pytest.mark.parametrize("heads", ["value", "both"])
@pytest.mark.parametrize("budget", [30, 2048])
def test_a_step_has_the_gradient_of_the_plain_loss(heads, budget):
    """Head and trunk, in one micro-batch and in many, against autograd on the model's own forward pass."""
    engine, data = build(heads, max_tokens_per_micro_batch=budget, optimizer="sgd", lr=1.0, max_grad_norm=None), batch()
    randomise_head(engine, 0.1)
    parameters = {name: p for name, p in engine.module.named_parameters() if "lm_head" not in name}
    loss = ((plain_values(engine, data) - 1.0).square() / 2 * MEAN.weights(data)).sum()
    wanted = dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))
    before = {name: p.detach().clone() for name, p in parameters.items()}
    report = engine.train_step(data, Regression(), MEAN)

    assert report.loss == pytest.approx(loss.item(), rel=1e-5)
    for name, p in parameters.items():
        torch.testing.assert_close(before[name] - p.detach(), wanted[name], atol=1e-5, rtol=1e-4)


def test_a_critic_learns_and_goes_on_from_a_checkpoint_to_the_bit(tmp_path: Path):
    """Save, load into a fresh engine, and the next step is the same one."""
    engine, data = build("value"), batch()
    losses = [engine.train_step(data, Regression(), MEAN).loss for _ in range(8)]
    engine.save(tmp_path)
    other = build("value")
    other.load(tmp_path)
    reports = [one.train_step(data, Regression(), MEAN) for one in (engine, other)]

    assert losses[-1] < 0.5 * losses[0]
    assert reports[0] == reports[1]
    assert torch.equal(engine.forward(data, ["values"])["values"], other.forward(data, ["values"])["values"])


def test_an_exported_value_model_scores_whole_sequences(tmp_path: Path):
    """AutoModelForSequenceClassification gives, at the last token, the value of one token more; loaded again it is the same critic."""
    import transformers

    engine, data = build("value"), batch()
    randomise_head(engine)
    engine.save_hf(tmp_path)
    loaded = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    rows = data.tokens.unflatten(0, (6, 11))
    longer = PackedBatch(
        tokens=torch.cat([rows, torch.ones(6, 1, dtype=torch.int64)], 1).flatten(),
        cu_seqlens=torch.arange(0, 73, 12, dtype=torch.int32),
        positions=torch.arange(12, dtype=torch.int32).repeat(6),
        loss_mask=(torch.arange(12) == 11).repeat(6),
    )
    scores = engine.forward(longer, ["values"])["values"][longer.loss_mask]
    with torch.no_grad():
        expected = loaded(input_ids=rows).logits[:, 0]
    again = build("value", path=str(tmp_path)).forward(longer, ["values"])["values"][longer.loss_mask]

    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(again, scores, atol=1e-6, rtol=1e-6)


def test_a_value_head_beside_a_policy_is_the_engines_own(tmp_path: Path):
    """Exported weights are the language model's; the folder has the head in a file of its own, and gives it back."""
    engine, data = build("both"), batch()
    randomise_head(engine)
    policy = build("policy")
    engine.save_hf(tmp_path)
    again = build("both", path=str(tmp_path))

    assert [name for name, _ in engine.export_weights()] == [name for name, _ in policy.export_weights()]
    assert torch.equal(engine.forward(data)["logprobs"], policy.forward(data)["logprobs"])
    assert torch.equal(again.forward(data, ["values"])["values"], engine.forward(data, ["values"])["values"])


@pytest.mark.parametrize("heads", ["value", "both"])
def test_adapters_leave_the_head_whole(heads):
    """Low-rank updates in the trunk; the head itself trains."""
    engine, data = build(heads, lora=LoraConfig(rank=4), lr=0.05), batch()
    reports = [engine.train_step(data, Regression(), MEAN) for _ in range(10)]

    assert engine._policy.value_weight.requires_grad
    assert engine._policy.value_weight.abs().max() > 0
    assert reports[-1].loss < reports[0].loss
    assert engine.describe()["trainable_parameters"] < 0.4 * engine.describe()["parameters"]


def test_heads_that_are_not_there_are_told():
    """Values of a policy, log-probabilities of a critic."""
    with pytest.raises(ModelError, match="values were asked for, and the engine was built with heads 'policy'"):
        build("policy").forward(batch(), ["values"])
    with pytest.raises(ModelError, match="logprobs were asked for"):
        build("value").forward(batch(), ["logprobs"])
    with pytest.raises(ModelError, match="topk_logprobs were asked for"):
        build("value").forward(batch(), ["values"], top_k=2)


@pytest.mark.parametrize("heads", ["value", "both"])
def test_half_precision(heads, tmp_path: Path):
    """A bfloat16 model's values are near the float32 one's; its head has a float32 master, which a checkpoint keeps."""
    data = batch()
    exact, engine = build(heads), build(heads, dtype="bfloat16")
    for one in (exact, engine):
        randomise_head(one)
    wanted = exact.forward(data, ["values"])["values"]
    got = engine.forward(data, ["values"])["values"]
    losses = [engine.train_step(data, Regression(), MEAN).loss for _ in range(6)]
    engine.save(tmp_path)
    other = build(heads, dtype="bfloat16")
    other.load(tmp_path)

    torch.testing.assert_close(got, wanted, atol=0.15, rtol=0.05)
    assert losses[-1] < 0.5 * losses[0]
    assert torch.equal(other.forward(data, ["values"])["values"], engine.forward(data, ["values"])["values"])
    assert other.train_step(data, Regression(), MEAN) == engine.train_step(data, Regression(), MEAN)


@given(budget=st.integers(5, 80), order=st.permutations(range(6)), sharing=st.booleans())
@settings(max_examples=20, deadline=None)
def test_how_a_batch_is_cut_and_ordered_changes_nothing(budget, order, sharing):
    """Values and given tokens under any token budget, order of the sequences and sharing: the same numbers and the same step."""
    ids = torch.randint(0, 16, (66, 2), generator=torch.Generator().manual_seed(3))
    data = batch().with_tokens(gather_ids=ids)
    plain = build("both", max_tokens_per_micro_batch=2048, prefix_sharing=False, optimizer="sgd")
    cut = build("both", max_tokens_per_micro_batch=budget, prefix_sharing=sharing, optimizer="sgd")
    where = data.token_indices(order)
    wanted, got = plain.forward(data, ["values"]), cut.forward(data.select(order), ["values"])
    reports = [plain.train_step(data, GatheredAndValues(), MEAN), cut.train_step(data.select(order), GatheredAndValues(), MEAN)]

    for name in ("values", "gathered_logprobs"):
        torch.testing.assert_close(got[name], wanted[name][where], atol=1e-5, rtol=1e-4)
    assert reports[1].loss == pytest.approx(reports[0].loss, rel=1e-5)
    for one, other in zip(plain.module.parameters(), cut.module.parameters(), strict=True):
        torch.testing.assert_close(other, one, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("sharing", [True, False])
def test_given_and_likeliest_tokens(model, sharing):
    """Against whole logits: ids in each token's place, and the best ones, at a micro-batch's budget too."""
    engine, data = build(model=model, prefix_sharing=sharing, max_tokens_per_micro_batch=30), batch()
    ids = torch.randint(0, 16, (data.num_tokens, 3), generator=torch.Generator().manual_seed(3))
    found = engine.forward(data.with_tokens(gather_ids=ids), ["logprobs", "entropy"], top_k=4)
    with torch.no_grad():
        rows = data.tokens.unflatten(0, (6, 11))
        table = engine.module(input_ids=rows).logits.log_softmax(-1)[:, :-1]
    table = torch.cat([torch.zeros(6, 1, 16), table], 1).flatten(0, 1)
    mask = data.loss_mask

    torch.testing.assert_close(found["gathered_logprobs"][mask], table.gather(1, ids)[mask], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found["topk_logprobs"][mask], table.topk(4).values[mask], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(table.gather(1, found["topk_ids"])[mask], found["topk_logprobs"][mask], atol=1e-5, rtol=1e-5)
    assert not found["topk_ids"][~mask].any()
    assert engine.forward(data, top_k=99)["topk_ids"].shape == (data.num_tokens, 16)


class Gathered:
    """The log-probabilities of given tokens up."""

    entropy_grad = False
    unit = "sequence"

    def __call__(self, outputs, data):
        return LossOutput(values=-outputs.gathered.sum(1), metrics={})


@pytest.mark.parametrize("budget", [30, 2048])
def test_given_tokens_have_their_gradient(budget):
    """The step's change of weights is autograd's on whole logits."""
    engine = build(max_tokens_per_micro_batch=budget, optimizer="sgd", lr=1.0, max_grad_norm=None, logits_memory_mb=1)
    ids = torch.randint(0, 16, (66, 2), generator=torch.Generator().manual_seed(3))
    data = batch().with_tokens(gather_ids=ids)
    rows = data.tokens.unflatten(0, (6, 11))
    table = torch.cat([torch.zeros(6, 1, 16), engine.module(input_ids=rows).logits.log_softmax(-1)[:, :-1]], 1).flatten(0, 1)
    loss = (-table.gather(1, ids).sum(1) * MEAN.weights(data)).sum()
    parameters = dict(engine.module.named_parameters())
    wanted = dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))
    before = {name: p.detach().clone() for name, p in parameters.items()}
    engine.train_step(data, Gathered(), MEAN)

    for name, p in parameters.items():
        torch.testing.assert_close(before[name] - p.detach(), wanted[name], atol=1e-5, rtol=1e-3)


class GatheredAndValues(Gathered):
    """With a value head beside it."""

    def __call__(self, outputs, data):
        return LossOutput(values=(outputs.values - 1).square() - outputs.gathered.sum(1), metrics={})


class WholeGroups:
    """Fails where a group is cut."""

    entropy_grad = False
    unit = "group"

    def __init__(self):
        self.seen = []

    def __call__(self, outputs, data):
        self.seen.append(sorted(data["group"].tolist()))
        return LossOutput(values=-outputs.logprobs, metrics={})


def test_losses_of_groups_get_whole_groups():
    """Also where a group is beyond the token budget; in two micro-batches, since both do not fit in one."""
    objective = WholeGroups()
    build(max_tokens_per_micro_batch=5).train_step(batch(), objective, MEAN)

    assert sorted(objective.seen) == [[0, 0, 0], [1, 1, 1]]


class Direct:
    """The same loss, weighted by itself."""

    entropy_grad = False
    unit = "sequence"

    def __call__(self, outputs, data):
        return LossOutput(values=outputs.logprobs * 0, metrics={}, direct=-outputs.logprobs * data["own_weights"])


class Likelihood:
    entropy_grad = False
    unit = "sequence"

    def __call__(self, outputs, data):
        return LossOutput(values=-outputs.logprobs, metrics={})


def test_terms_with_weights_of_their_own_are_added_as_they_are():
    """`direct` with the aggregation's weights in it is the loss itself."""
    data = batch()
    one, two = build(max_tokens_per_micro_batch=30), build(max_tokens_per_micro_batch=30)
    report = one.train_step(data, Likelihood(), MEAN)
    direct = two.train_step(data.with_tokens(own_weights=MEAN.weights(data)), Direct(), MEAN)

    assert direct.loss == pytest.approx(report.loss, rel=1e-6)
    assert direct.grad_norm == pytest.approx(report.grad_norm, rel=1e-5)


def test_a_frozen_model_keeps_no_gradients_and_no_optimizer():
    """A teacher costs its weights and nothing more, and says what the same policy says."""
    teacher, policy, data = build(frozen=True), build(), batch()

    assert torch.equal(teacher.forward(data)["logprobs"], policy.forward(data)["logprobs"])
    assert not any(p.requires_grad or p.grad is not None for p in teacher.module.parameters())
    assert not hasattr(teacher, "_optimizer")
    teacher.offload()
    teacher.onload()
    teacher.close()
