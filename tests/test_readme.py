"""What the README shows is true."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from core_rl.capabilities import check_capabilities
from core_rl.config.load import load_run_file
from core_rl.testing.batches import random_batch

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language):
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found is not None
    return found.group(1)


def test_the_run_file_loads(tmp_path):
    """Every name and option of the example exists, and its parts go together."""
    file = tmp_path / "run.yaml"
    file.write_text(block("yaml"), encoding="utf-8")
    run_file = load_run_file(file)
    check_capabilities(run_file)

    assert [reward.weight for reward in run_file.rewards] == [1.0, 0.1]


def test_the_loss_in_a_file_of_ones_own_trains(tmp_path):
    """The example class works as `module:Object`: a run with it goes through."""
    (tmp_path / "my_losses.py").write_text(block("python"), encoding="utf-8")
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": f"{a}+1=", "answer": str(a + 1)}) + "\n" for a in range(4)))
    run = {
        "run": {"steps": 2, "prompts_per_step": 2, "dir": str(tmp_path / "runs")},
        "model": {
            "init": "random",
            "tokenizer": "characters:0123456789+=",
            "config": {"model_type": "llama", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
                       "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 32},
        },
        "data": {"name": "jsonl", "path": str(rows)},
        "sampling": {"max_new_tokens": 2},
        "algorithm": {"name": "grpo", "loss": "my_losses:Reinforce", "kl": {"coef": 0}},
        "rewards": [{"name": "math"}],
        "loggers": ["jsonl"],
    }  # fmt: skip
    (tmp_path / "run.yaml").write_text(json.dumps(run))
    done = subprocess.run(
        [sys.executable, "-m", "core_rl", "train", "run.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr


def test_the_loss_is_what_its_docstring_says():
    """-A log pi, token by token."""
    space = {}
    exec(block("python"), space)
    batch = random_batch(1).with_tokens(advantages=torch.full((random_batch(1).num_tokens,), 2.0))
    output = space["Reinforce"]()(batch["logprobs"], batch)

    assert torch.equal(output.values, -2.0 * batch["logprobs"])


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(((?!https?:)[^)#]+)\)", README))))
def test_links_lead_somewhere(link):
    """Every file that the README points at exists."""
    assert (ROOT / link).exists()
