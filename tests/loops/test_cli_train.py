"""`core-rl train` as a user runs it: real engines, a model of a few thousand weights, processes of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

RUN = """
run: {{name: small, seed: 3, steps: 6, prompts_per_step: 2, dir: {dir}, log_samples_every: 2}}
model:
  init: random
  tokenizer: "characters:0123456789+= "
  config: {{model_type: llama, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2,
           num_key_value_heads: 1, max_position_embeddings: 64, tie_word_embeddings: true}}
data: {{name: jsonl, path: {data}, eval_fraction: 0.25}}
sampling: {{max_new_tokens: 3}}
algorithm: {{name: grpo, group_size: 4}}
train_engine: {{name: local, lr: 0.01}}
rewards: [{{name: function, function: "{reward}"}}]
loggers: [console, jsonl]
eval: {{every: 3, prompts: 2}}
checkpoint: {{every: 2, keep: 3}}
"""

REWARD = """
def reward(completion, answer):
    return float(completion[:1] == str(answer))
"""


@pytest.fixture
def run_file(tmp_path):
    rows = [{"prompt": f"{a}+{b}=", "answer": (a + b) % 10} for a in range(4) for b in range(4)]
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "reward.py").write_text(REWARD)
    file = tmp_path / "run.yaml"
    file.write_text(RUN.format(dir=tmp_path / "runs", data=data, reward=f"{tmp_path / 'reward.py'}:reward"))
    return file


def command(*arguments):
    return [sys.executable, "-m", "core_rl", *map(str, arguments)]


def core_rl(*arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=120, env=environment, check=False)


def metrics_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def only_run(file):
    return next(path for path in (file.parent / "runs" / "small").iterdir() if path.is_dir() and not path.is_symlink())


def without_clocks(rows):
    volatile = re.compile(r"time|perf/|rollout/\w+_s$")
    return [{name: value for name, value in row.items() if not volatile.search(name)} for row in rows]


def weights_of(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model" / "model.safetensors")


def test_a_run_leaves_all_that_a_run_folder_has(run_file):
    """Config, manifest, metrics of every step under their canonical names, samples, checkpoints, report and export."""
    done = core_rl("train", run_file)
    assert done.returncode == 0, done.stderr
    folder = only_run(run_file)
    rows = metrics_of(folder)
    names = set(rows[-1])

    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4, 5, 6]
    assert {
        "reward/mean", "reward/function/mean", "reward/zero_std_frac", "ratio/mean", "entropy/mean", "len/completion_mean",
        "optim/grad_norm", "mismatch/abs_max", "time/rollout", "time/reward", "time/logprob", "time/train", "time/sync",
        "time/step", "perf/tok_s", "perf/host_rss_gb", "eval/reward/mean",
    } <= names  # fmt: skip
    assert max(row["mismatch/abs_max"] for row in rows[1:]) < 1e-4
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["step-000002", "step-000004", "step-000006"]
    assert {"config.yaml", "manifest.json", "metrics.jsonl", "samples", "checkpoints", "report.html", "model"} <= {
        path.name for path in folder.iterdir()
    }


def test_trainer_and_sampler_agree_at_another_temperature(run_file):
    """The trainer divides its logits by the temperature too: its log-probabilities are those of the samples' distribution."""
    done = core_rl("train", run_file, "sampling.temperature=0.7", "run.steps=2")

    assert done.returncode == 0, done.stderr
    assert 0 <= max(row["mismatch/abs_max"] for row in metrics_of(only_run(run_file))[1:]) < 1e-4


def test_killed_and_resumed_equals_uninterrupted_bit_for_bit(run_file, tmp_path):
    """kill -9 after step 4's checkpoint, --resume: the same metrics and the same final weights as without the kill."""
    whole = tmp_path / "whole"
    assert core_rl("train", run_file, f"run.dir={whole}").returncode == 0
    reference = next(path for path in (whole / "small").iterdir() if not path.is_symlink())

    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(
        command("train", run_file), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment
    )
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline and not list((tmp_path / "runs").glob("small/*/checkpoints/step-000004")):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    folder = only_run(run_file)
    resumed = core_rl("train", run_file, "--resume")

    assert resumed.returncode == 0, resumed.stderr
    assert "Resuming from step" in resumed.stderr
    assert without_clocks(metrics_of(folder)) == without_clocks(metrics_of(reference))
    ours, theirs = weights_of(folder), weights_of(reference)
    assert all((ours[name] == theirs[name]).all() for name in theirs)


def test_a_checkpoint_cut_in_half_is_passed_over(run_file):
    """The one before it is used, and the run says so."""
    assert core_rl("train", run_file, "run.steps=4").returncode == 0
    folder = only_run(run_file)
    largest = max((folder / "checkpoints" / "step-000004").rglob("*.safetensors"), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[: largest.stat().st_size // 2])
    resumed = core_rl("train", run_file, "--resume")

    assert resumed.returncode == 0, resumed.stderr
    assert "step-000004" in resumed.stderr
    assert "Resuming from step 2" in resumed.stderr


def test_interrupt_saves_and_says_how_to_go_on(run_file):
    """Ctrl-C ends after the running step with a checkpoint, exit code 130."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(
        command("train", run_file, "run.steps=5000"),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline and not list((run_file.parent / "runs").glob("small/*/checkpoints/step-000002")):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    checkpoints = sorted((only_run(run_file) / "checkpoints").iterdir())
    last = metrics_of(only_run(run_file))[-1]["step"]

    assert process.returncode == 130, errors
    assert "--resume" in errors
    assert checkpoints[-1].name == f"step-{last:06d}"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.path=./nowhere", "./nowhere does not exist"),
        ("algorithm=grppo", "grpo"),
        ("train_engine.lr=fast", "train_engine.lr"),
        ("data.path=missing.jsonl", "missing.jsonl"),
        ("rewards=[{name: function, function: 'nothing:here'}]", "nothing"),
        ("model.max_length=4", "too long"),
    ],
)
def test_mistakes_end_with_exit_code_2_and_one_clear_line(run_file, override, message):
    """Nothing is a traceback; the line names what to mend."""
    failed = core_rl("train", run_file, override)

    assert failed.returncode == 2, failed.stderr
    assert message in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise RuntimeError('judge is down')", "judge is down"),
        ("return float('nan')", "nan"),
        ("import time; time.sleep(3600)", "0.2"),
        ("return 'good'", "str"),
    ],
)
def test_rewards_that_fail_stop_the_run_with_their_reason(run_file, body, message):
    """A reward that raises, is NaN, hangs or answers with the wrong type: no step can be trained, and it says why."""
    (run_file.parent / "reward.py").write_text(f"def reward(completion):\n    {body}\n")
    failed = core_rl("train", run_file, "run.reward_timeout_s=0.2")

    assert failed.returncode == 2, failed.stderr
    assert message in failed.stderr.lower()
    assert "Traceback" not in failed.stderr


def test_eval_and_generate_on_a_checkpoint(run_file):
    """Both read a run folder; evaluating the final checkpoint repeats the run's own last evaluation."""
    assert core_rl("train", run_file).returncode == 0
    folder = only_run(run_file)
    evaluated = core_rl("eval", folder, "--json")
    generated = core_rl("generate", folder, "1+2=", "--n", "2", "--max-new-tokens", "3", "--temperature", "1", "--json")

    assert evaluated.returncode == 0, evaluated.stderr
    assert json.loads(evaluated.stdout)["eval/reward/mean"] == metrics_of(folder)[-1]["eval/reward/mean"]
    assert generated.returncode == 0, generated.stderr
    assert [len(json.loads(line)["tokens"]) for line in generated.stdout.splitlines()] == [3, 3] or generated.stdout.count(
        "\n"
    ) == 2
