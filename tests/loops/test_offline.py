"""Offline runs as a user starts them: real engines, a model of a few thousand weights."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from core_rl.cli.main import main

RUN = """
run: {{name: small, seed: 3, steps: 6, prompts_per_step: 4, dir: {dir}}}
model:
  init: random
  tokenizer: "characters:0123456789+="
  config: {{model_type: llama, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2,
           num_key_value_heads: 1, max_position_embeddings: 16, tie_word_embeddings: true}}
data: {{name: conversations, path: {data}, format: text, eval_fraction: 0.25}}
algorithm: sft
train_engine: {{name: local, lr: 0.01}}
loggers: [console, jsonl]
eval: {{every: 3}}
checkpoint: {{every: 2, keep: 3}}
"""
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


@pytest.fixture
def run_file(tmp_path):
    rows = [{"prompt": f"{a}+{b}=", "completion": str(a + b)} for a in range(6) for b in range(4)]
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = tmp_path / "run.yaml"
    file.write_text(RUN.format(dir=tmp_path / "runs", data=data))
    return file


@pytest.fixture
def core_rl(capsys):
    """A command in this process: its exit code, what it wrote."""

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=captured.out, stderr=captured.err)

    return run


def only_run(file):
    return next(path for path in (file.parent / "runs" / "small").iterdir() if path.is_dir() and not path.is_symlink())


def metrics_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def without_clocks(rows):
    volatile = re.compile(r"time|perf/")
    return [{name: value for name, value in row.items() if not volatile.search(name)} for row in rows]


def weights_of(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model" / "model.safetensors")


def test_a_run_learns_and_leaves_all_that_a_run_folder_has(core_rl, run_file):
    """Metrics of every step, held-out loss, checkpoints, report and export; nothing of sampling in them; the held-out loss falls."""
    done = core_rl("train", run_file, "run.steps=12")
    assert done.returncode == 0, done.stderr
    folder = only_run(run_file)
    rows = metrics_of(folder)

    assert [row["step"] for row in rows] == list(range(13))
    assert {
        "loss", "nll/mean", "entropy/mean", "nan_tokens", "optim/grad_norm", "optim/lr", "batch/tokens", "batch/loss_tokens",
        "data/epoch", "data/too_long", "time/train", "time/step", "perf/tok_s", "eval/loss", "eval/nll/mean", "time/eval",
    } <= set(rows[-1])  # fmt: skip
    assert not [name for name in rows[-1] if name.startswith(("rollout/", "reward/", "len/"))]
    assert rows[-1]["eval/loss"] == pytest.approx(rows[-1]["eval/nll/mean"], rel=1e-5)
    assert rows[-1]["eval/loss"] < 0.8 * rows[0]["eval/loss"]
    assert {"config.yaml", "manifest.json", "report.html", "model", "checkpoints"} <= {path.name for path in folder.iterdir()}


def test_killed_and_resumed_equals_uninterrupted_bit_for_bit(core_rl, run_file, tmp_path):
    """kill -9 after a checkpoint, --resume: the same metrics and the same final weights as without the kill."""
    whole = tmp_path / "whole"
    assert core_rl("train", run_file, f"run.dir={whole}").returncode == 0
    reference = next(path for path in (whole / "small").iterdir() if path.is_dir() and not path.is_symlink())

    command = [sys.executable, "-m", "core_rl", "train", str(run_file)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline and not list((tmp_path / "runs").glob("small/*/checkpoints/step-000002")):
        time.sleep(0.005)
    process.kill()
    process.wait()
    resumed = core_rl("train", run_file, "--resume")

    assert resumed.returncode == 0, resumed.stderr
    assert "Resuming from step" in resumed.stderr
    folder = only_run(run_file)
    assert without_clocks(metrics_of(folder)) == without_clocks(metrics_of(reference))
    ours, theirs = weights_of(folder), weights_of(reference)
    assert all((ours[name] == theirs[name]).all() for name in theirs)


def test_eval_and_generate_read_a_run_folder(core_rl, run_file):
    """The held-out loss of the last checkpoint is the last one that was logged; the model answers prompts."""
    assert core_rl("train", run_file).returncode == 0
    folder = only_run(run_file)
    evaluated = core_rl("eval", folder, "--json")
    generated = core_rl("generate", folder, "1+2=", "--raw", "--max-new-tokens", 3, "--json")

    assert evaluated.returncode == 0, evaluated.stderr
    assert json.loads(evaluated.stdout)["eval/loss"] == pytest.approx(metrics_of(folder)[-1]["eval/loss"], rel=1e-6)
    assert generated.returncode == 0, generated.stderr
    assert 1 <= len(json.loads(generated.stdout)["tokens"]) <= 3


def test_epochs_say_how_many_steps(core_rl, run_file):
    """Two passes over the rows that are not held out, four rows a step; the last step may run into a third pass."""
    done = core_rl("train", run_file, "run.epochs=2", "eval.every=0")
    assert done.returncode == 0, done.stderr
    rows = metrics_of(only_run(run_file))

    assert rows[-1]["data/epoch"] >= 2.0
    assert rows[-2]["data/epoch"] < 2.0


def test_rows_beyond_the_context_are_counted_and_left_out(core_rl, run_file, tmp_path):
    """The model has 16 positions; a run of nothing else ends with the mend."""
    data = tmp_path / "rows.jsonl"
    short = data.read_text()
    data.write_text(short + json.dumps({"prompt": "1" * 30, "completion": "2"}) + "\n")
    done = core_rl("train", run_file, "run.epochs=0.99", "eval.every=0", "data.eval_fraction=null")
    counted = [row["data/too_long"] for row in metrics_of(only_run(run_file))]
    data.write_text(json.dumps({"prompt": "1" * 30, "completion": "2"}) + "\n")
    nothing = core_rl("train", run_file, "eval.every=0", "data.eval_fraction=null")

    assert done.returncode == 0, done.stderr
    assert sum(counted) == 1
    assert nothing.returncode == 2
    assert "all 4 rows of step 1 are too long; see algorithm.encoding.too_long" in nothing.stderr


def test_ctrl_c_saves_after_the_step_and_the_run_goes_on(core_rl, run_file, monkeypatch):
    """Exit code 130, a checkpoint, and how to go on; what follows is the uninterrupted run."""
    steps = iter([False, False, False, True])
    monkeypatch.setattr("core_rl.run.signals.Interrupts.requested", lambda _: next(steps, False))
    stopped = core_rl("train", run_file)
    folder = only_run(run_file)
    saved = sorted(path.name for path in (folder / "checkpoints").iterdir())
    resumed = core_rl("train", run_file, "--resume", folder)

    assert stopped.returncode == 130
    assert "Stopped and saved. Go on with" in stopped.stderr
    assert saved == ["step-000002", "step-000004"]
    assert resumed.returncode == 0, resumed.stderr
    assert [row["step"] for row in metrics_of(folder)] == list(range(7))


REFERENCE_LOSS = """
import torch
from core_rl.numerics.segments import broadcast, segment_sum
from core_rl.roles.train import LossOutput

class Towards:
    def __call__(self, logprobs, batch):
        own = segment_sum(logprobs, batch.cu_seqlens, batch.loss_mask)
        if "ref_sequence_logprobs" in batch:
            theirs = batch["ref_sequence_logprobs"]
        else:
            theirs = segment_sum(batch["ref_logprobs"], batch.cu_seqlens, batch.loss_mask)
        sign = torch.where(batch["chosen"], 1.0, -1.0)
        values = broadcast(-torch.nn.functional.logsigmoid(sign * (own - theirs)), batch.cu_seqlens, batch.num_tokens)
        return LossOutput(values=values, metrics={})
"""
PLUGIN = """
from core_rl import Component, hookimpl

@hookimpl
def core_rl_losses():
    return [Component(name="towards", target="towards_loss:Towards", needs={"ref_logprobs", "pairs"})]
"""


@pytest.fixture
def pairs_file(run_file, tmp_path, monkeypatch):
    """The same run on pairs, with a loss that reads a reference, from a plugin that this test installs."""
    (tmp_path / "towards_loss.py").write_text(REFERENCE_LOSS)
    (tmp_path / "towards_plugin.py").write_text(PLUGIN)
    info = tmp_path / "towards-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: towards\nVersion: 0.1\nRequires-Dist: core-rl\n")
    (info / "entry_points.txt").write_text("[core_rl.plugins]\ntowards = towards_plugin\n")
    monkeypatch.syspath_prepend(tmp_path)
    rows = [{"prompt": f"{a}+{b}=", "chosen": str(a + b), "rejected": str(a)} for a in range(6) for b in range(1, 4)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = run_file.read_text().replace("name: conversations", "name: pairs")
    run_file.write_text(text.replace("algorithm: sft", "algorithm: {name: sft, loss: towards, aggregation: prompt-mean}"))
    return run_file


def test_a_reference_before_training_is_the_frozen_one(core_rl, pairs_file, tmp_path):
    """The same losses and weights, without a copy of the model; the sums are in the run folder."""
    assert core_rl("train", pairs_file).returncode == 0
    precomputed = "algorithm.reference=precomputed"
    other = tmp_path / "other"
    stopped = core_rl("train", pairs_file, precomputed, f"run.dir={other}")
    frozen = only_run(pairs_file)
    folder = next(path for path in (other / "small").iterdir() if path.is_dir() and not path.is_symlink())
    sums = json.loads((folder / "reference-train.json").read_text())
    evaluated = core_rl("eval", folder, "--json")

    assert stopped.returncode == 0, stopped.stderr
    assert all(len(row) == 2 for row in sums)
    names = ("loss", "eval/loss", "optim/grad_norm")
    for first, second in zip(metrics_of(frozen), metrics_of(folder), strict=True):
        assert {n: first[n] for n in names if n in first} == pytest.approx(
            {n: second[n] for n in names if n in second}, rel=1e-4
        )
    assert metrics_of(frozen)[0]["eval/loss"] == pytest.approx(0.6931, abs=1e-3)
    assert json.loads(evaluated.stdout)["eval/loss"] == pytest.approx(metrics_of(folder)[-1]["eval/loss"], rel=1e-5)


def test_a_reference_in_the_data_is_read_and_in_some_rows_refused(core_rl, pairs_file, tmp_path):
    """Nothing is computed where every row has it; a mixture is an error that names the first row without."""
    data = tmp_path / "rows.jsonl"
    rows = [json.loads(line) | {"ref_chosen_logps": -5.0, "ref_rejected_logps": -6.0} for line in data.read_text().splitlines()]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = core_rl("train", pairs_file, "algorithm.reference=precomputed", "run.steps=1", "eval.every=0")
    computed = [path.name for path in only_run(pairs_file).glob("reference-*")]
    del rows[3]["ref_chosen_logps"]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    mixed = core_rl("train", pairs_file, "algorithm.reference=precomputed", "data.eval_fraction=null", "eval.every=0")

    assert given.returncode == 0, given.stderr
    assert computed == []
    assert mixed.returncode == 2
    assert "rows.jsonl:4 has no reference log-probabilities, and others have" in mixed.stderr
