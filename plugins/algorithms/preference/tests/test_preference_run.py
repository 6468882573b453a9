"""Preference algorithms on real engines: what they learn, and that micro-batches change nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core_rl.cli.main import main

ROOT = Path(__file__).resolve().parents[4]
SMALL = ["model.config.hidden_size=16", "model.config.intermediate_size=32", "model.config.num_hidden_layers=1"]
QUIET = ["loggers=[jsonl]", "checkpoint.at_end=false", "checkpoint.export_hf=false"]


def train(name, folder, *overrides):
    """The metrics of each step of an example."""
    data = f"data.path={ROOT / 'examples' / 'data' / 'larger_digit_pairs.jsonl'}"
    example = ROOT / "examples" / "algorithms" / f"{name}.yaml"
    assert main(["train", str(example), data, f"run.dir={folder}", *QUIET, *overrides]) == 0
    metrics = next(path for path in (folder / name).glob("*/metrics.jsonl") if not path.parent.is_symlink())
    return [json.loads(line) for line in metrics.read_text().splitlines()]


@pytest.mark.parametrize("name", ["dpo", "orpo", "kto"])
def test_held_out_pairs_come_apart(name, tmp_path):
    """With a reference, without one, and on single completions: which of two answers is right, for prompts that were never seen."""
    rows = train(name, tmp_path)

    assert rows[0]["eval/rewards/accuracy"] < 0.7
    assert rows[-1]["eval/rewards/accuracy"] > 0.9
    assert rows[-1]["eval/loss"] < 0.6 * rows[0]["eval/loss"]


@pytest.mark.parametrize("name", ["dpo", "aot", "aot_unpaired", "bco", "kto", "cpo"])
def test_micro_batches_change_nothing(name, tmp_path):
    """Also for what is known of the whole batch alone: quantiles, the mean reward, the divergence of mismatched rows."""
    few = ["run.steps=3", "run.prompts_per_step=6", "eval.every=0", *SMALL]
    whole, cut = (
        train(name, tmp_path / str(tokens), *few, f"train_engine.max_tokens_per_micro_batch={tokens}") for tokens in (4096, 12)
    )

    assert cut[-1]["optim/micro_batches"] > whole[-1]["optim/micro_batches"]
    for ours, theirs in zip(cut, whole, strict=True):
        names = [key for key in theirs if key.startswith(("loss", "optim/grad_norm", "rewards/", "logps/", "kto/"))]
        assert {key: ours[key] for key in names} == pytest.approx({key: theirs[key] for key in names}, rel=1e-3, abs=1e-6)


def test_a_reference_before_training_gives_the_same_run(tmp_path):
    """Sums instead of a frozen copy, of a loss that averages over tokens."""
    few = ["run.steps=4", "eval.every=0", "algorithm.loss.length=mean", *SMALL]
    frozen, known = (train("dpo", tmp_path / kept, *few, f"algorithm.reference={kept}") for kept in ("frozen", "precomputed"))

    assert [row["rewards/margin"] for row in known] == pytest.approx(
        [row["rewards/margin"] for row in frozen], rel=1e-3, abs=1e-6
    )
