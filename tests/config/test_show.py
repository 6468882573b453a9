"""A resolved run file, written out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core_rl.config.load import load
from core_rl.config.show import to_dict, to_yaml

FULL = r"""
run: {name: 'a # b', seed: 0x10}
eval_data: {name: rows, path: "line\n: {x"}
sampling: {stop: ['$${', "\n", '1e-4', 'yes', '', ' '], top_k: 3}
rewards: [exact, {name: format, weight: 0.5, pattern: '$${x}'}]
loggers: [{name: tracker, api_key: sekrit}]
train_engine:
  name: zoo
  table: {a: [1.0, .inf, null, {'b c': 'null'}], '3': {}}
  sizes: {3: 1}
  some: [b, a]
  file: a/b
  corner: {x: 1}
  corners: [{x: 2}]
  either: 4
  names_or_none: []
"""


def test_what_is_shown_loads_to_the_same(loaded, catalogue):
    """Every type, every kind of text, every default."""
    first = loaded(FULL)
    Path("shown.yaml").write_text(to_yaml(first.run_file, mask_secrets=False), encoding="utf-8")
    second = load("shown.yaml", catalogue=catalogue)

    assert second.run_file == first.run_file
    assert second.run_file.sampling.stop == ("${", "\n", "1e-4", "yes", "", " ")


def test_the_annotated_form_loads_to_the_same(loaded, catalogue):
    """Origins are comments, and no value runs over a line."""
    first = loaded(FULL)
    Path("shown.yaml").write_text(to_yaml(first.run_file, mask_secrets=False, origins=first.origins), encoding="utf-8")

    assert load("shown.yaml", catalogue=catalogue).run_file == first.run_file


def test_everything_is_explicit(run_file):
    """Also what an algorithm stands for."""
    shown = to_dict(run_file(""))

    assert shown["algorithm"]["loss"] == {"name": "ppo_clip", "clip_low": 0.2, "clip_high": 0.28}
    assert shown["algorithm"]["rejections"] == [{"name": "zero_variance"}]
    assert shown["workflow"] == {"name": "single_turn"}
    assert shown["eval"]["sampling"]["temperature"] == 0.0
    assert list(shown)[:2] == ["run", "model"]
    json.dumps(shown)


def test_secrets_are_masked_unless_asked_for(loaded, problems):
    """In YAML, in dicts, in origins and in complaints."""
    secret = "loggers: [{name: tracker, api_key: sekrit}]\n"
    both = loaded(secret, "loggers.0.api_key=sekrit2")

    assert "sekrit" not in to_yaml(both.run_file, origins=both.origins)
    assert to_dict(both.run_file)["loggers"][0]["api_key"] == "***"
    assert to_dict(both.run_file, mask_secrets=False)["loggers"][0]["api_key"] == "sekrit2"
    assert problems("loggers: [{name: tracker, api_key: [sekrit]}]\n") == [
        "run.yaml:4:36: loggers.0.api_key: expected text or null, found a list"
    ]
    assert problems(secret, "loggers.0.api_key=12345") == [
        "loggers.0.api_key=***: loggers.0.api_key: expected text or null, found ***"
    ]


@pytest.mark.parametrize(
    ("line", "origin"),
    [
        ("  seed: 4", "override seed=4"),
        ("  steps: 9", "base.yaml:1:14"),
        ("  name: seven", "environment WHAT (run.yaml:3:13)"),
        ("  dir: runs", "default"),
        ("  group_size: 8", "default of grpo"),
        ("    clip_high: 0.28", "default of grpo"),
        ("    clip_low: 0.2", "default of ppo_clip"),
        ("  lr: 0.5", "override lr=0.5"),
        ("    weight_decay: 0.1", "default of local"),
        ("- name: console", "default"),
        ("  weight: 1.0", "default"),
    ],
)
def test_origins(loaded, monkeypatch, line, origin):
    """Of every line where its value comes from."""
    monkeypatch.setenv("WHAT", "seven")
    Path("base.yaml").write_text("run: {steps: 9}\nmodel: {path: toy}\ndata: {name: rows, path: x}\n", encoding="utf-8")
    file = loaded(
        "extends: base.yaml\nalgorithm: grpo\nrun: {name: '${WHAT}'}\nrewards: [exact]\n", "seed=4", "lr=0.5", base=""
    )
    shown = to_yaml(file.run_file, origins=file.origins).splitlines()

    assert [row.split("  # ", 1)[1] for row in shown if row.split("  # ")[0].rstrip() == line][:1] == [origin]
