"""What a conformance class may say, and what it costs to import one."""

from __future__ import annotations

import subprocess
import sys

import pytest

import core_rl.testing
from core_rl.errors import UserError
from core_rl.kinds import KINDS
from core_rl.testing import LossConformance
from core_rl.testing.kit.runner import all_checks

CLASSES = [name for name in core_rl.testing.__all__ if name.endswith("Conformance")]


def test_every_kind_has_a_class():
    """Importable by name from `core_rl.testing`."""
    assert {getattr(core_rl.testing, name).kind for name in CLASSES} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_check_says_what_holds(kind):
    """In a sentence or two."""
    assert all(check.about.endswith(".") and len(check.about.split()) > 3 for check in all_checks(kind).values())


@pytest.mark.parametrize("name", ["test_conforms", "test_component", "tried", "pytest_generate_tests", "kind"])
def test_checks_cannot_be_overridden(name):
    """A component is judged by the kit's own."""
    with pytest.raises(UserError, match=f"TestMine: {name} cannot be overridden"):
        type("TestMine", (LossConformance,), {"component": "mine", name: None})


@pytest.mark.parametrize(("check", "reason"), [("any_ordr", "why"), ("any_order", " ")])
def test_an_expected_failure_is_a_check_with_a_reason(check, reason):
    """Anything else would be expected for ever."""
    with pytest.raises(UserError, match="is not a check with a reason"):
        type("TestMine", (LossConformance,), {"component": "mine", "expected_failures": {check: reason}})


def test_a_name_that_is_none():
    """As of any module."""
    with pytest.raises(AttributeError, match="NoConformance"):
        core_rl.testing.NoConformance  # noqa: B018


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_one_kind_does_not_import_the_others():
    """Nor torch, where the kind has none in it."""
    code = "import sys; from core_rl.testing import LoggerConformance as L; type('T', (L,), {'expected_failures': {'resume': 'why'}})\n"
    code += "print(sorted(n for n in sys.modules if n == 'torch' or n.startswith('core_rl.testing.kinds.')))"

    assert run(code) == "['core_rl.testing.kinds.logger']"


def test_checks_run_without_pytest():
    """As `core-rl plugins check` runs them."""
    code = """
import sys
sys.modules["pytest"] = None
from core_rl.testing.kit.runner import all_checks, outcomes
from core_rl.testing.kit.subject import Subject
import core_rl.kinds, core_rl.testing.kit.engines
for kind in core_rl.kinds.KINDS: all_checks(kind)
print({one.status for one in outcomes(Subject(kind="aggregation", name="token-mean"))})
"""
    assert run(code) == "{'ok'}"


SUITE = """
from core_rl.testing import LossConformance

class TestFine(LossConformance):
    component = "toy_losses:Good"
    options = {"scale": 2.0}

class TestExpected(LossConformance):
    component = "toy_losses:ByPlace"
    expected_failures = {"any_order": "by place", "any_split": "by place"}

class TestMetSinceThen(LossConformance):
    component = "toy_losses:Good"
    expected_failures = {"any_order": "it was so once"}

class TestNameless(LossConformance):
    pass
"""


def test_as_a_test_module(pytester_folder):
    """Passes, strict expected failures, and a class that names no component."""
    done = pytester_folder(SUITE)

    assert "TestMetSinceThen::test_conforms[any_order]" in done
    assert "[XPASS(strict)] it was so once" in done
    assert "TestNameless: `component` is missing: the name of a loss" in done
    assert "FAILED test_mine.py::TestFine" not in done
    assert "FAILED test_mine.py::TestExpected" not in done
    assert "2 xfailed" in done


@pytest.fixture
def pytester_folder(tmp_path):
    def run_pytest(text):
        (tmp_path / "test_mine.py").write_text(text)
        folder = __import__("pathlib").Path(__file__).parent
        code = f"import sys, pytest; sys.path.append({str(folder)!r}); raise SystemExit(pytest.main(sys.argv[1:]))"
        command = [sys.executable, "-c", code, "-p", "no:cacheprovider", "-rA", "-q", str(tmp_path / "test_mine.py")]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path).stdout

    return run_pytest
