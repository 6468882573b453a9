"""The kit judges: what is right passes every check, and what has one fault fails the check that is about it."""

from __future__ import annotations

import pytest

from core_rl.testing.kinds import reward
from core_rl.testing.kit.runner import all_checks, outcome, outcomes, own_checks
from core_rl.testing.kit.subject import Subject

RIGHT = {
    "loss": ["toy_losses:Good", "toy_losses:StopGradient", "toy_losses:Declares"],
    "advantage": ["toy_parts:GroupMean"],
    "rejection": ["toy_parts:Keep"],
    "normaliser": ["toy_parts:Centre"],
    "kl_estimator": ["toy_parts:Squared"],
    "aggregation": ["toy_parts:TokenMean"],
    "resampler": ["toy_parts:Uniform"],
    "reward": ["toy_around:Exact", "toy_around:AsyncExact"],
    "data": ["toy_around:Rows", "toy_around:NothingHeldOut"],
    "logger": ["toy_around:Lines"],
    "config_importer": ["toy_around:Importer"],
    "workflow": ["toy_around:Single"],
    "weight_transport": ["toy_around:Copies"],
    "launcher": ["toy_around:Here"],
    "algorithm": ["toy_around:ToyAlgorithm"],
}
WRONG = {
    "loss": {
        "toy_losses:Averages": "per_token",
        "toy_losses:Half": "per_token",
        "toy_losses:AveragesOverTheBatch": "any_split",
        "toy_losses:LeaksMasked": "masked_tokens",
        "toy_losses:ByPlace": "any_order",
        "toy_losses:MeanAsMetric": "any_split",
        "toy_losses:NumberAsMetric": "metrics",
        "toy_losses:Writes": "leaves_the_batch_alone",
        "toy_losses:SeedsTorch": "no_global_state",
        "toy_losses:Drops": "same_again",
        "toy_losses:SetsTheEnvironment": "no_global_state",
        "toy_losses:ReadsUndeclared": "reads_what_is_there",
        "toy_losses:Overflows": "finite",
        "toy_losses:NoGradient": "learns",
        "toy_losses:Zero": "learns",
        "toy_losses:WrongGradient": "gradient_is_the_slope",
        "toy_losses:Remembers": "same_again",
        "toy_losses:DoesNotPickle": "pickles",
        "toy_losses:TakesOneArgument": "contract",
        "toy_losses:BadUnit": "any_split",
        "toy_losses:ThawedOptions": "options_class",
        "toy_losses:UnknownCapability": "capability_names",
    },
    "advantage": {
        "toy_parts:PerSequence": "per_token",
        "toy_parts:DividesByZero": "finite",
        "toy_parts:ByIndex": "any_order",
        "toy_parts:ReadsValues": "per_token",
        "toy_parts:MeansOverEverything": "masked_tokens",
        "toy_parts:ChangesRewards": "leaves_the_batch_alone",
        "toy_parts:NanWithoutTokens": "empty_mask",
        "toy_parts:RandomBaseline": "same_again",
    },
    "rejection": {
        "toy_parts:KeepsSequences": "per_token",
        "toy_parts:Explodes": "finite",
        "toy_parts:MeanOfNothing": "empty_mask",
        "toy_parts:Draws": "same_again",
        "toy_parts:KeepsTheFirstHalf": "any_order",
        "toy_parts:JudgesMasked": "masked_tokens",
        "toy_parts:ChangesLogprobs": "leaves_the_batch_alone",
    },
    "normaliser": {
        "toy_parts:CountsNan": "not_a_number",
        "toy_parts:CountsMasked": "outside_the_mask",
        "toy_parts:Divides": "finite",
        "toy_parts:DropsMasked": "one_for_each",
        "toy_parts:RunningMean": "any_order",
        "toy_parts:InPlace": "same_again",
    },
    "kl_estimator": {
        "toy_parts:MeanKl": "token_by_token",
        "toy_parts:OffsetKl": "zero_where_equal",
        "toy_parts:ExponentialKl": "finite",
        "toy_parts:LosesSlope": "gradient_is_the_slope",
        "toy_parts:SumKl": "per_token",
        "toy_parts:RandomKl": "same_again",
    },
    "aggregation": {
        "toy_parts:WeighsMasked": "per_token",
        "toy_parts:NanWhenEmpty": "empty_mask",
        "toy_parts:ByGroupNumber": "other_numbers",
        "toy_parts:RandomWeights": "same_again",
    },
    "resampler": {
        "toy_parts:Global": "same_seed",
        "toy_parts:Beyond": "indices",
        "toy_parts:Tensors": "indices",
        "toy_parts:ByReward": "edges",
        "toy_parts:Reorders": "leaves_the_batch_alone",
    },
    "reward": {
        "toy_around:NanReward": "scores",
        "toy_around:TextReward": "scores",
        "toy_around:Exits": "odd_input",
        "toy_around:NotThreadSafe": "several_threads",
        "toy_around:Counts": "same_again",
        "toy_around:Marks": "leaves_the_sample_alone",
        "toy_around:Backtracks": "long_completion",
    },
    "data": {
        "toy_around:Grows": "fixed_length",
        "toy_around:Shuffles": "same_rows",
        "toy_around:Dicts": "rows",
        "toy_around:Wraps": "fixed_length",
        "toy_around:EmptyEval": "both_splits",
        "toy_around:Forgiving": "missing_source",
    },
    "logger": {
        "toy_around:WritesElsewhere": "stays_in_the_folder",
        "toy_around:NeedsNumbers": "odd_numbers",
        "toy_around:NeedsText": "odd_samples",
        "toy_around:NeedsAStart": "short_runs",
        "toy_around:NewFolderOnly": "resume",
        "toy_around:ExitsOnErrors": "unusable_folder",
        "toy_around:EatsMetrics": "leaves_what_it_gets",
        "toy_around:OneSplit": "a_run",
    },
    "config_importer": {
        "toy_around:RaisesImporter": "refuses",
        "toy_around:OtherSections": "reads",
    },
    "workflow": {
        "toy_around:EncodesAgain": "logprobs",
        "toy_around:OneSample": "samples",
        "toy_around:ForgetsTheSeed": "same_seed",
        "toy_around:NoLogprobs": "turns",
        "toy_around:Swallows": "too_long",
        "toy_around:HidesAborts": "aborted",
        "toy_around:Deaf": "cancelled",
        "toy_around:Unpacked": "packs",
    },
    "weight_transport": {
        "toy_around:NoProof": "wrong_weights",
        "toy_around:OldVersion": "versions",
        "toy_around:SendsOnce": "new_weights",
        "toy_around:SilentReport": "arrives",
        "toy_around:FillsIn": "lost_tensor",
    },
    "launcher": {
        "toy_around:LosesOptions": "builds_a_train_engine",
        "toy_around:ClosesOnce": "closes",
        "toy_around:OneEngine": "several_train_engines",
        "toy_around:OtherRolloutOptions": "builds_a_rollout_engine",
        "toy_around:OwnErrors": "errors_arrive",
    },
    "algorithm": {
        "toy_around:Learnless": "trains",
        "toy_around:Unresolved": "options_accepted",
        "toy_around:OneSampleEach": "in_a_run_file",
        "toy_around:Wordless": "formula",
    },
}
GIVEN = {"config_importer": {"files": {"other.txt": "steps: 3"}}, "data": {"missing": {"path": "nowhere"}}}


def failures(kind, name):
    """(failed, not judged), each reasons by check."""
    subject = Subject(kind=kind, name=name, given=GIVEN.get(kind, {}))
    found = list(outcomes(subject))
    subject.close()
    return tuple({one.check: one.reason for one in found if one.status == status} for status in ("failed", "not judged"))


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in RIGHT.items() for name in names])
def test_what_is_right_passes(kind, name):
    """Every check is met; what is not judged are facts of a plugin, or of what the test class does not give."""
    failed, not_judged = failures(kind, name)

    assert failed == {}
    assert set(not_judged) <= {"listing_changes_nothing", "missing_source", "unknown_option_refused"}


@pytest.mark.parametrize(
    ("kind", "name", "check"), [(kind, name, check) for kind, names in WRONG.items() for name, check in names.items()]
)
def test_what_is_wrong_fails_its_check(kind, name, check, monkeypatch):
    """And the check says why, in words."""
    monkeypatch.setattr(reward, "LIMIT_S", 0.3)
    subject = Subject(kind=kind, name=name, given=GIVEN.get(kind, {}))
    found = outcome(all_checks(kind)[check], subject)
    subject.close()

    assert found.status == "failed"
    assert len(found.reason.split()) > 3


@pytest.mark.parametrize("kind", sorted(RIGHT))
def test_every_check_is_failed_by_something(kind):
    """A check that nothing fails might be one that cannot."""
    assert set(own_checks(kind)) <= set(WRONG[kind].values())
