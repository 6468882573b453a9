"""What a conformance class of rollout engines may say."""

from __future__ import annotations

import pytest

from core_rl.errors import UserError
from core_rl.testing.rollout_engines import CHECKS, RolloutEngineConformance


@pytest.mark.parametrize("name", ["bench", "test_conforms", "pytest_generate_tests"])
def test_checks_cannot_be_overridden(name):
    """An engine is judged by the suite's own."""
    with pytest.raises(UserError, match=f"TestMine: {name} cannot be overridden"):
        type("TestMine", (RolloutEngineConformance,), {"component": "mine", name: None})


@pytest.mark.parametrize(("check", "reason"), [("formm", "why"), ("form@2", "why"), ("form", " ")])
def test_an_expected_failure_is_a_check_with_a_reason(check, reason):
    """Anything else would be expected for ever."""
    with pytest.raises(UserError, match="is not a check with a reason"):
        type("TestMine", (RolloutEngineConformance,), {"component": "mine", "expected_failures": {check: reason}})


def test_every_check_says_what_holds():
    """In one sentence or two."""
    assert len(CHECKS) == 26
    assert all(check.about.endswith(".") for check in CHECKS.values())
