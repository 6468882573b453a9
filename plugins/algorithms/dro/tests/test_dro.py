"""The loss `dro`, and the algorithms `dro` and `kimi`."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.config.load import load_run_file
from core_rl.errors import ConfigError
from core_rl.testing.batches import in_double, random_batch
from core_rl.testing.losses import (
    assert_equals_reference,
    assert_finite,
    assert_same_for_any_split,
    assert_same_in_any_order,
    random_split,
    value_and_gradient,
)
from core_rl_dro.config import DroConfig
from core_rl_dro.dro import Dro


def load(tmp_path, algorithm):
    file = tmp_path / "run.yaml"
    model = 'model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}'
    data = "data: {name: jsonl, path: rows.jsonl}"
    file.write_text(f"{model}\n{data}\nrewards: [math]\nalgorithm: {algorithm}\n")
    return load_run_file(file).algorithm.options


CASES = [(0.0, "sequence"), (0.1, "sequence"), (2.0, "sequence"), (0.1, "token"), (2.0, "token")]


def make(case):
    return Dro(DroConfig(beta=case[0], level=case[1]))


def reference(case):
    """Sequence by sequence: the papers' -A log pi(y) + beta/2 (log pi(y) / pi_old(y))^2, its square in equal shares; or token by token."""
    beta, level = case

    def losses(row):
        shifts = [p - q for p, q in zip(row["logprobs"], row["old_logprobs"], strict=True)]
        whole = beta / 2 * sum(shifts) ** 2 / len(shifts)
        held = [whole if level == "sequence" else beta / 2 * x**2 for x in shifts]
        return [-a * p + penalty for p, a, penalty in zip(row["logprobs"], row["advantages"], held, strict=True)]

    return losses


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm", "prompt-mean"])
@pytest.mark.parametrize("case", CASES, ids=str)
@given(seed=st.integers(0, 500), ranks=st.sampled_from([1, 2, 4]), random=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=8)
def test_the_gradient_does_not_depend_on_how_a_batch_is_cut_up(case, aggregation, seed, ranks, random):
    """Any ranks, micro-batches and order of packing."""
    count = random_batch(seed).num_sequences
    order = random.sample(range(count), count)

    assert_same_for_any_split(make(case), seed, random_split(random, count, ranks), aggregation=aggregation)
    assert_same_in_any_order(make(case), seed, order, aggregation=aggregation)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_extremes_stay_finite(case):
    """Log-ratios of 50 and 1e4 either way, probability 1, an empty mask, one sequence."""
    assert_finite(make(case))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_value_and_gradient_are_those_of_the_paper(case):
    """Inside and outside of every bound, both signs of the advantage."""
    assert_equals_reference(make(case), reference(case))


@pytest.mark.parametrize("level", ["sequence", "token"])
def test_the_gradient_is_kimi_k2s(level):
    """-(A - beta · sg(x)) at a log-ratio of 0.5 for each token, x being the sequence's or the token's."""
    batch = in_double(random_batch(1))
    batch = batch.with_tokens(old_logprobs=batch["logprobs"] - 0.5)
    counts = torch.stack([batch.loss_mask[batch.sequence_ids == s].sum() for s in range(batch.num_sequences)])
    x = 0.5 * (counts[batch.sequence_ids] if level == "sequence" else 1)
    expected = -(batch["advantages"] - 0.2 * x)

    assert torch.allclose(value_and_gradient(make((0.2, level)), batch)[1], expected.where(batch.loss_mask, 0.0))


@pytest.mark.parametrize("level", ["sequence", "token"])
def test_at_the_old_policy_it_is_reinforce(level):
    """The square has no gradient where the log-ratio is 0, however large beta is."""
    batch = in_double(random_batch(1))
    batch = batch.with_tokens(old_logprobs=batch["logprobs"])

    assert torch.allclose(value_and_gradient(make((50.0, level)), batch)[1], -batch["advantages"].where(batch.loss_mask, 0.0))


@pytest.mark.parametrize(("name", "std"), [("dro", "group"), ("kimi", "none")])
def test_algorithms(tmp_path, name, std):
    """One loss of whole sequences, two advantages."""
    options = load(tmp_path, name)

    assert (options.loss.name, options.loss.options.beta, options.loss.options.level) == ("dro", 0.1, "sequence")
    assert (options.advantage.options.std_level, options.aggregation.name) == (std, "seq-mean-token-sum")


def test_beta_is_asked_for(tmp_path):
    """No number fits all rewards, so the loss has no default."""
    with pytest.raises(ConfigError, match=r"algorithm\.loss\.beta: this key is required"):
        load(tmp_path, "{name: grpo, loss: dro}")
