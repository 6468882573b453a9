"""Conformance as test classes: subclass the one of your component's kind, and pytest runs every check on it.

    from core_rl.testing import LossConformance

    class TestMyIdea(LossConformance):
        component = "myidea"          # a component's name, `plugin/name` or `module:Object`
        options = {"clip": 0.3}       # fields of its options class; for other options write another class

Checks cannot be overridden. One that a component cannot meet is an expected failure with its reason, which fails once it is met:

        expected_failures = {"any_order": "the draw goes by position, as in the paper"}

A check that says nothing of a component is skipped, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from core_rl.errors import UserError
from core_rl.testing.declared import check_declared
from core_rl.testing.kit.runner import Outcome, all_checks, outcome, own_checks, shared_checks
from core_rl.testing.kit.subject import Subject

if TYPE_CHECKING:
    from core_rl.data.sample import Prompt, Sample
    from core_rl.testing.kit.check import Check

FIXED = frozenset({"kind", "tried", "pytest_generate_tests", "test_component", "test_conforms"})
"""What no test class may override."""


class ComponentConformance:
    """What the classes of all kinds have: `test_component` runs the checks that are the same for every kind."""

    kind: ClassVar[str]
    component: ClassVar[str]
    options: ClassVar[Mapping[str, Any]] = {}
    expected_failures: ClassVar[Mapping[str, str]] = {}
    """Reasons, by the name of a check."""
    _given: ClassVar[Sequence[str]] = ()
    """Attributes of the class that its checks read."""
    _fixed: ClassVar[frozenset[str]] = FIXED

    def __init_subclass__(cls, *, kind: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if kind is not None:
            cls.kind = kind
            return
        check_declared(cls, fixed=cls._fixed, known=cls._is_check, expected_failures=cls.expected_failures)

    @classmethod
    def _is_check(cls, name: str) -> bool:
        return name in all_checks(cls.kind)

    @pytest.fixture(scope="class")
    @classmethod
    def tried(cls) -> Iterator[Subject]:
        if not isinstance(getattr(cls, "component", None), str):
            message = f"{cls.__name__}: `component` is missing: the name of a {cls.kind}, plugin/name or module:Object"
            raise UserError(message)
        given = {name: getattr(cls, name) for name in cls._given}
        subject = Subject(kind=cls.kind, name=cls.component, options=cls.options, given=given)
        yield subject
        subject.close()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "shared" in metafunc.fixturenames:
            metafunc.parametrize("shared", [self._param(name) for name in shared_checks()])
        if "check" in metafunc.fixturenames:
            metafunc.parametrize("check", [self._param(name) for name in own_checks(self.kind)])

    def test_component(self, tried: Subject, shared: str) -> None:
        """What must hold of a component of any kind."""
        _judge(shared_checks()[shared], tried)

    def _param(self, name: str) -> Any:
        reason = self.expected_failures.get(name)
        return pytest.param(name, marks=[pytest.mark.xfail(strict=True, reason=reason)] if reason else [])


class Conformance(ComponentConformance, kind=""):
    """And `test_conforms` those of the kind."""

    def test_conforms(self, tried: Subject, check: str) -> None:
        """What the contract of its kind says."""
        _judge(own_checks(self.kind)[check], tried)


def _judge(check: Check, subject: Subject) -> None:
    found: Outcome = outcome(check, subject)
    if found.status == "not judged":
        pytest.skip(found.reason)
    if found.status == "failed":
        message = f"{check.about}\n{found.reason}"
        raise AssertionError(message) from found.error


class LossConformance(Conformance, kind="loss"):
    """A loss, of a policy or of an offline algorithm."""


class AdvantageConformance(Conformance, kind="advantage"):
    """An advantage estimator."""


class RejectionConformance(Conformance, kind="rejection"):
    """A filter or a weight on tokens and sequences."""


class NormaliserConformance(Conformance, kind="normaliser"):
    """A way to centre and scale rewards or advantages."""


class KlEstimatorConformance(Conformance, kind="kl_estimator"):
    """An estimator of a KL divergence."""


class AggregationConformance(Conformance, kind="aggregation"):
    """A way from per-token losses to one number."""


class ResamplerConformance(Conformance, kind="resampler"):
    """A draw of the sequences to train on."""


class RewardConformance(Conformance, kind="reward"):
    """A reward. `core_rl.testing.samples.sample` makes samples."""

    samples: ClassVar[Sequence[Sample]] = ()
    """Samples that it is made for; without them, sums of two digits."""
    _given = ("samples",)


class AlgorithmConformance(Conformance, kind="algorithm"):
    """An algorithm: it trains a tiny model for two steps."""

    run_file: ClassVar[Mapping[str, Any]] = {}
    """What its run file must have besides, by section: `{"sampling": {"temperature": 0.7}}`."""
    _given = ("run_file",)


class DataConformance(Conformance, kind="data"):
    """A source of rows."""

    missing: ClassVar[Mapping[str, Any] | None] = None
    """Options, over `options`, of a source that is not there: `{"path": "nowhere.jsonl"}`."""
    _given = ("missing",)


class WorkflowConformance(Conformance, kind="workflow"):
    """A way from a prompt to samples, run with a tiny random model."""

    prompts: ClassVar[Sequence[Prompt]] = ()
    """Prompts that it is made for, in digits, `+`, `=` and spaces; without them, sums."""
    _given = ("prompts",)


class LoggerConformance(Conformance, kind="logger"):
    """A place for metrics and completions."""


class LauncherConformance(Conformance, kind="launcher"):
    """A place where engines run."""


class WeightTransportConformance(Conformance, kind="weight_transport"):
    """A way for new weights to reach a rollout engine."""


class ConfigImporterConformance(Conformance, kind="config_importer"):
    """A reader of another system's configuration files."""

    files: ClassVar[Mapping[str, str]] = {}
    """Files that it is made for: their text, by name."""
    _given = ("files",)
