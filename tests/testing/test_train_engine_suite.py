"""The conformance suite itself: a right engine passes all of it, and each way to be wrong fails the one check that is meant for it."""

from __future__ import annotations

import pytest
import toy_train_faults

from core_rl.testing.train_engines import CHECKS, MODELS, Bench, Case, Subject, Suite, TrainEngineConformance

FAULTS = [fault for fault in vars(toy_train_faults).values() if hasattr(fault, "fails")]
LLAMA = {"llama": MODELS["llama"]}


class TestToy(TrainEngineConformance):
    component = "toy_train_engine:ToyTrainEngine"
    options = {"device": "cpu"}  # noqa: RUF012 - it is read only
    world_sizes = (1, 2)
    models = LLAMA


@pytest.fixture(scope="module")
def bench():
    made = Bench()
    yield made
    made.close()


def suite_of(fault, bench):
    engine = f"toy_train_faults:{fault.__name__}"
    sizes = (1, 2) if fault.ranks > 1 else (1,)
    return Suite(Subject(engine=engine, options={"device": "cpu"}, world_sizes=sizes, models=LLAMA), bench)


FIRST = {fault.fails: fault for fault in reversed(FAULTS)}
SOME = [pytest.param(fault, marks=[] if fault is FIRST[fault.fails] else [pytest.mark.slow]) for fault in FAULTS]


@pytest.mark.parametrize("fault", SOME, ids=lambda fault: fault.__name__)
def test_a_fault_is_found_by_the_check_that_is_meant_for_it(fault, bench):
    """It fails, and all that it rests on does not."""
    outcome = suite_of(fault, bench).outcome(Case(check=fault.fails, model="llama", world_size=fault.ranks))

    assert (outcome.status, outcome.error) == ("failed", None)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_fails_one_check_and_no_other(fault, bench):
    """What rests on it is not judged; the rest passes."""
    suite = suite_of(fault, bench)
    outcomes = [suite.outcome(case) for case in suite.cases()]
    failed = {outcome.case.check for outcome in outcomes if outcome.status == "failed"}

    assert failed == {fault.fails}
    assert sum(outcome.status == "passed" for outcome in outcomes) >= 2


def test_every_check_finds_a_fault():
    """No check is there that nothing fails."""
    assert {fault.fails for fault in FAULTS} == set(CHECKS)
