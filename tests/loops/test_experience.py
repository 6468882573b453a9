"""From scored groups to a batch, and where old log-probabilities come from."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.config.load import load_run_file
from core_rl.data.sample import Group, Prompt, RewardPart, Sample, Turn
from core_rl.errors import RewardError
from core_rl.loops.experience import minibatches, scored_groups
from core_rl.loops.metrics import train_metrics
from core_rl.loops.parts import algorithm_of, needs_reference, proximal_mode
from core_rl.roles.train import StepReport
from core_rl.testing.batches import random_batch

RUN = """
model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}
data: {name: jsonl, path: rows.jsonl}
algorithm: grpo
rewards: [math]
"""


def algorithm(tmp_path, *overrides):
    file = tmp_path / "run.yaml"
    file.write_text(RUN)
    return algorithm_of(load_run_file(file, overrides))


@pytest.mark.parametrize(
    ("overrides", "mode", "reference"),
    [
        ((), "reuse", True),
        (("algorithm.kl.coef=0",), "reuse", False),
        (("algorithm.minibatches=2",), "recompute", True),
        (("algorithm.epochs=2",), "recompute", True),
        (("algorithm.kl.place=reward",), "recompute", True),
        (("algorithm.rejections=[zero_variance]",), "reuse", True),
        (("algorithm.proximal=rollout",), "rollout", True),
    ],
)
def test_the_extra_forward_pass_is_made_only_where_it_says_something(tmp_path, overrides, mode, reference):
    """`auto` reuses the training forward when a batch is one step and nothing asks for the old ones before it."""
    config = algorithm(tmp_path, *overrides)

    assert (proximal_mode(config), needs_reference(config)) == (mode, reference)


@given(seed=st.integers(0, 1000), groups=st.integers(1, 9), count=st.integers(1, 9))
@settings(deadline=None, max_examples=40)
def test_minibatches_keep_groups_whole_and_lose_nothing(seed, groups, count):
    """Every sequence is in exactly one part, every group in one part, and parts differ by at most one group."""
    batch = random_batch(seed, num_groups=groups)
    parts = minibatches(batch, count)
    names = [set(part["group"].tolist()) for part in parts]
    sizes = [len(part) for part in names]

    assert torch.equal(torch.cat([part.tokens for part in parts]).sort().values, batch.tokens.sort().values)
    assert sum(sizes) == len(set().union(*names)) == groups
    assert len(parts) == min(count, groups)
    assert max(sizes) - min(sizes) <= 1


def sample(reward, error=None):
    prompt = Prompt(id="p", text="1")
    part = RewardPart(value=reward, weight=1.0, error=error)
    turns = [Turn(tokens=[3], generated=False), Turn(tokens=[4], generated=True, logprobs=[-1.0])]
    return Sample(
        prompt=prompt, turns=turns, finish_reason="stop", completion_text="1", reward=reward, reward_parts={"judge": part}
    )


def test_failed_rewards_leave_the_batch_and_a_step_without_any_is_an_error():
    """A sample whose reward failed is no sample; when none is left the first reason is told."""
    prompt = Prompt(id="p", text="1")
    good, bad = sample(1.0), sample(None, "judge is down")
    kept = scored_groups([Group(prompt=prompt, samples=[good, bad]), Group(prompt=prompt, samples=[bad])])

    assert [len(group.samples) for group in kept] == [1]
    with pytest.raises(RewardError, match="every reward of this step failed, first with: judge is down"):
        scored_groups([Group(prompt=prompt, samples=[bad])])


def test_metrics_of_several_steps_are_means_and_maxima():
    """`…_max` is a maximum, skipped steps are counted, the learning rate is the last one."""

    def report(**changes):
        base = {"loss": 1.0, "grad_norm": 2.0, "lr": 0.1, "num_tokens": 4, "num_micro_batches": 1}
        return StepReport(**base | changes)

    merged = train_metrics(
        [
            report(metrics={"ratio/mean": 1.0, "mismatch/abs_max": 3.0}),
            report(loss=3.0, lr=0.2, skipped=True, metrics={"ratio/mean": 2.0, "mismatch/abs_max": 1.0}),
        ]
    )

    assert merged["ratio/mean"] == 1.5
    assert merged["mismatch/abs_max"] == 3.0
    assert (merged["loss"], merged["optim/lr"], merged["optim/skipped"], merged["optim/steps"]) == (2.0, 0.2, 1.0, 2.0)
