"""Outcomes, differences and tables of the conformance suite, and what a test class may not say."""

from __future__ import annotations

import json
import subprocess
import sys

import attrs
import pytest
import torch

from core_rl.errors import PluginError, UserError
from core_rl.testing.train_engine import report
from core_rl.testing.train_engine.check import check
from core_rl.testing.train_engine.differences import Measured, of_metrics, of_numbers, of_tensors, of_weights
from core_rl.testing.train_engine.suite import CHECKS, Case
from core_rl.testing.train_engines import MODELS, Subject, Suite, TrainEngineConformance

LOCAL = {"engine": "local", "options": {"device": "cpu"}, "models": {"llama": MODELS["llama"]}}
NAN, INF = float("nan"), float("inf")


class NoWorkers:
    """A bench that starts nothing."""

    given_up = 0

    def give_up(self, world_size):
        self.given_up += world_size

    def close(self):
        pass


def suite_with(monkeypatch, checks, **subject):
    """A suite of these functions alone."""
    made = {
        name: attrs.evolve(check(after=tuple(CHECKS[one] for one in after))(function), name=name)
        for name, (function, after) in checks.items()
    }
    for name in list(CHECKS):
        monkeypatch.delitem(CHECKS, name)
    for name, one in made.items():
        monkeypatch.setitem(CHECKS, name, one)
    return Suite(Subject(**{**LOCAL, **subject}), NoWorkers())


def good(trial):
    trial.number("loss", 1.000001, 1.0, 1e-5)


def bad(trial):
    trial.number("loss", 1.1, 1.0, 1e-5)
    trial.holds("skipped", condition=False)


def broken(trial):
    trial.number("loss", 1.0, 1.0, 1e-5)
    message = "of an engine"
    raise ZeroDivisionError(message)


def status_of(suite):
    return {case.check: suite.outcome(case).status for case in suite.cases()}


@pytest.fixture
def suite(monkeypatch):
    """`dependent` rests on `forward_pass`, which is bad here; `further` on that."""
    return suite_with(
        monkeypatch,
        {"good": (good, ()), "forward_pass": (bad, ()), "broken": (broken, ()), "dependent": (good, ("forward_pass",))},
    )


def test_what_rests_on_a_failure_is_not_judged(suite):
    """An exception of an engine is a failure like any other; what was measured before it is kept, and its workers are given up."""
    outcome = suite.outcome(Case(check="broken", model="llama", world_size=1))

    assert status_of(suite) == {"good": "passed", "forward_pass": "failed", "broken": "failed", "dependent": "blocked"}
    assert (len(outcome.measured), outcome.reason) == (1, "ZeroDivisionError: of an engine")
    assert suite._bench.given_up == 1
    assert suite.outcome(Case(check="dependent", model="llama", world_size=1)).reason == "forward_pass"


def test_what_rests_on_an_expected_failure_is_judged(monkeypatch):
    """The author has given a reason for it; the rest still has to hold."""
    checks = {"forward_pass": (bad, ()), "dependent": (good, ("forward_pass",))}
    suite = suite_with(monkeypatch, checks, expected_failures={"forward_pass@1": "no head"})

    assert status_of(suite) == {"forward_pass": "failed", "dependent": "passed"}


def test_the_record_is_json_and_its_tables_say_the_worst(suite):
    """Numbers in parts of what is allowed, failures with their first reason."""
    one = json.loads(json.dumps(report.record(suite), allow_nan=False))
    text = report.tables([one])

    assert "| good | 10.0% loss |" in text
    assert "| forward_pass | **fails** |" in text
    assert "| dependent | rests on forward_pass |" in text
    assert "- local, broken (llama, 1 ranks): ZeroDivisionError: of an engine" in text
    assert "| 1 | local | 1 | - | - | 1.0e-01 | - | - | - |" in text


@pytest.mark.parametrize(
    ("cases", "cell"),
    [
        ([{"status": "skipped"}], "-"),
        ([{"status": "passed"}, {"status": "skipped"}], "exact"),
        ([{"status": "passed"}, {"status": "failed", "expected_failure": "why"}], "expected failure"),
        ([{"status": "failed", "expected_failure": "why"}, {"status": "failed"}], "**fails**"),
        (
            [{"status": "passed", "measured": [{"what": "step 2 weights", "difference": 2e-6, "allowed": 1e-5}]}],
            "20.0% weights",
        ),
        ([{"status": "passed", "measured": [{"what": "a fact", "difference": 0.0, "allowed": 0.0}]}], "exact"),
    ],
)
def test_a_cell_stands_for_all_models_and_ranks(cases, cell):
    """By the worst of them."""
    assert report.cell([{"expected_failure": None, "measured": [], "reason": "", **case} for case in cases]) == cell


def test_what_cannot_be_compared_is_infinitely_far():
    """Other names, other shapes, NaN on either side; never a difference of 0."""
    one, two = torch.ones(2), torch.tensor([1.0, NAN])

    assert of_tensors(one, two)[0] == of_tensors(two, one)[0] == of_tensors(one, torch.ones(1, 2))[0] == INF
    assert of_numbers(NAN, 1.0) == of_numbers(1.0, NAN) == of_numbers(INF, 1.0) == INF
    assert of_numbers(1.5, 1.0) == of_numbers(0.5, 0.0) == 0.5
    assert of_weights({"a": one}, {"b": one}) == (INF, "b is missing, a is not expected")
    assert of_weights({"a": one, "b": one}, {"a": one, "b": one * 3}) == (2.0, "b")
    assert of_metrics({"a": 1.0}, {"a": 1.0, "b": 2.0})[0] == INF
    assert of_metrics({}, {}) == (0.0, "")
    assert not Measured(what="a", difference=NAN, allowed=1.0).holds


@pytest.mark.parametrize(
    ("subject", "error", "message"),
    [
        ({"engine": "locl"}, PluginError, "did you mean"),
        ({"options": {"lr": 1.0}}, UserError, "lr is set by the suite"),
        ({"world_sizes": (1, 2)}, UserError, "does not provide `distributed`"),
    ],
)
def test_a_subject_that_cannot_be_tested_is_told(subject, error, message):
    with pytest.raises(error, match=message):
        Subject(**{**LOCAL, **subject})


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"test_conforms": None}, "test_conforms cannot be overridden"),
        ({"suite": None}, "suite cannot be overridden"),
        ({"expected_failures": {"stepp": "why"}}, "'stepp': 'why' is not a check with a reason"),
        ({"expected_failures": {"step": " "}}, "is not a check with a reason"),
    ],
)
def test_a_class_cannot_take_checks_away(attributes, message):
    with pytest.raises(UserError, match=message):
        type("TestMine", (TrainEngineConformance,), {"component": "local", **attributes})


MODULE = """
from core_rl.testing.train_engines import MODELS, TrainEngineConformance

class TestMine(TrainEngineConformance):
    component = "local"
    options = {"device": "cpu"}
    models = {"llama": MODELS["llama"]}
    expected_failures = {"description": "says nothing", "export": "has no names"}
    prepare = "mine_prepare:spoil"
"""
SOME = "description or export or top_k"
PREPARE = """
def spoil():
    from core_rl_local.train import LocalTrainEngine

    LocalTrainEngine.describe = lambda self: {"parameters": 0}
"""


def test_under_pytest(tmp_path):
    """A module as an author writes it: workers are prepared first, an expected failure is one, and one that holds is a failure."""
    (tmp_path / "test_mine.py").write_text(MODULE)
    (tmp_path / "mine_prepare.py").write_text(PREPARE)
    command = [sys.executable, "-m", "pytest", "--import-mode=importlib", "-p", "no:cacheprovider", "-rA", "-k", SOME]
    done = subprocess.run([*command, "test_mine.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)

    assert "1 failed, 1 passed" in done.stdout
    assert "1 xfailed" in done.stdout
    assert "XFAIL test_mine.py::TestMine::test_conforms[description-llama-1] - says nothing" in done.stdout
    assert "PASSED test_mine.py::TestMine::test_conforms[top_k-llama-1]" in done.stdout
    assert "[XPASS(strict)] has no names" in done.stdout
