"""Whole runs: a student of random weights learns from a teacher's log-probabilities what the teacher can do."""

from __future__ import annotations

import json

import pytest
import torch

from core_rl.cli.main import main
from core_rl.hf.load import load_model
from core_rl.hf.spec import ModelSpec
from core_rl.hf.tokenizer import load_tokenizer

SIZE = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "max_position_embeddings": 16,
}
SIZE |= {"num_attention_heads": 4, "num_key_value_heads": 4}
SPEC = ModelSpec(init="random", tokenizer="characters:0123456789=", config=SIZE)
RUN = """
run: {name: student, steps: 25, prompts_per_step: 16, dir: runs, log_samples_every: 0}
model: {init: random, tokenizer: "characters:0123456789=", config: SIZE}
data: {name: jsonl, path: rows.jsonl, format: text}
rewards: [{name: function, function: "rewards.py:same_text"}]
sampling: {max_new_tokens: 2, stop_token_ids: [0, 2]}
algorithm: {name: NAME, group_size: 8, teacher: {model: {path: teacher}}}
train_engine: {name: local, lr: 3e-3}
checkpoint: {at_end: false, export_hf: false}
loggers: [jsonl]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the rows ("38=" is to become "8") and a teacher that was shown them."""
    folder = tmp_path_factory.mktemp("distill")
    rows = [(f"{a}{b}=", str(max(a, b))) for a in range(10) for b in range(10)]
    (folder / "rows.jsonl").write_text("\n".join(json.dumps({"prompt": prompt, "answer": answer}) for prompt, answer in rows))
    (folder / "rewards.py").write_text("def same_text(completion, answer):\n    return float(completion == answer)\n")
    tokenizer, model = load_tokenizer(SPEC), load_model(SPEC, seed=5)
    tokens = torch.tensor(
        [[*tokenizer.encode(prompt + answer, add_special_tokens=False), tokenizer.eos_token_id] for prompt, answer in rows]
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(100):
        logits = model(tokens).logits[:, 2:4]
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), tokens[:, 3:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder / "teacher")
    tokenizer.save_pretrained(str(folder / "teacher"))
    return folder


@pytest.fixture
def train(folder, monkeypatch):
    """One run; the rows of its metrics."""
    monkeypatch.chdir(folder)

    def call(name, *overrides):
        path = folder / "run.yaml"
        path.write_text(RUN.replace("NAME", name).replace("SIZE", json.dumps(SIZE)))
        assert main(["train", str(path), f"run.name={name}", *overrides]) == 0
        lines = (folder / "runs" / name / "latest" / "metrics.jsonl").read_text().splitlines()
        return [row for row in map(json.loads, lines) if "kl/teacher" in row]

    return call


def ends(rows, name):
    """The means over the first and the last five steps."""
    values = [row[name] for row in rows]
    return sum(values[:5]) / 5, sum(values[-5:]) / 5


def test_opd_brings_the_student_to_the_teacher(train):
    """The KL to the teacher falls by half, and the reward that nobody trains on rises with it."""
    rows = train("opd", "run.steps=50")
    kl, reward = ends(rows, "kl/teacher"), ends(rows, "reward/mean")

    assert kl[1] < 0.6 * kl[0]
    assert reward[1] > reward[0] + 0.1


def test_the_advantage_and_k2_as_the_loss_are_one_gradient(train):
    """At a ratio of 1, step by step; with the aggregation and the seeds of the other."""
    one = train("opd", "run.steps=4")
    other = train("opd", "run.steps=4", "algorithm.advantage=zero", "algorithm.loss={name: distill_kl, estimator: k2}")

    assert [row["kl/teacher"] for row in one] == pytest.approx([row["kl/teacher"] for row in other], rel=1e-4)
    assert [row["optim/grad_norm"] for row in one] == pytest.approx([row["optim/grad_norm"] for row in other], rel=1e-3)


@pytest.mark.parametrize(
    "loss",
    [
        "{beta: 0.5}",
        "{beta: 0, top_k: 4}",
        "{beta: 1, top_k: 4, ids_from: student}",
        "{beta: 0.5, top_k: 4, tail: renormalise, temperature: 0.9}",
    ],
)
def test_gkd_brings_the_student_to_the_teacher(train, loss):
    """Forward, reverse and between; all tokens, or the likeliest of either model."""
    rows = train("gkd", f"algorithm.loss={loss}")
    kl = ends(rows, "kl/teacher")

    assert kl[1] < 0.9 * kl[0]
    assert ("distill/teacher_mass" in rows[0]) == ("top_k" in loss)


@pytest.mark.parametrize("algorithm", ["opd", "gkd"])
def test_a_rollout_engine_scores_as_a_train_engine_computes(train, algorithm):
    """The same run, step by step, at a temperature that both must hold to."""
    shared = ["run.steps=3", "sampling.temperature=0.8", *(["algorithm.loss={top_k: 4}"] if algorithm == "gkd" else [])]
    one, other = train(algorithm, *shared), train(algorithm, *shared, "algorithm.teacher.rollout_engine=local")

    for name in ("kl/teacher", "loss", "optim/grad_norm"):
        assert [row[name] for row in one] == pytest.approx([row[name] for row in other], rel=1e-3), name


def test_kd_learns_from_rows_and_teacher(folder, monkeypatch):
    """Offline, on texts that the teacher knows: the held-out divergence falls."""
    monkeypatch.chdir(folder)
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    (folder / "texts.jsonl").write_text(
        "\n".join(json.dumps({"prompt": row["prompt"], "completion": row["answer"]}) for row in rows)
    )
    start = RUN[: RUN.index("data:")].replace("SIZE", json.dumps(SIZE)).replace(", log_samples_every: 0", "")
    (folder / "kd.yaml").write_text(
        start
        + "data: {name: conversations, path: texts.jsonl, eval_fraction: 0.2}\n"
        + "algorithm: {name: kd, teacher: {model: {path: teacher}}}\neval: {every: 20}\n"
        + "train_engine: {name: local, lr: 3e-3}\ncheckpoint: {at_end: false, export_hf: false}\nloggers: [jsonl]\n"
    )

    assert main(["train", "kd.yaml", "run.name=kd", "run.steps=40"]) == 0
    lines = (folder / "runs" / "kd" / "latest" / "metrics.jsonl").read_text().splitlines()
    held_out = [row["eval/loss"] for row in map(json.loads, lines) if "eval/loss" in row]

    assert held_out[-1] < 0.5 * held_out[0]


def test_a_teacher_beside_rewards_helps(train):
    """As an extra loss of GRPO."""
    rows = train(
        "grpo", "algorithm.kl.coef=0", "algorithm.extra_losses=[{name: distill_kl, estimator: k2, weight: 2}]", "run.steps=40"
    )
    kl = ends(rows, "kl/teacher")

    assert kl[1] < kl[0] - 0.5
    assert "extra/distill_kl" in rows[0]
