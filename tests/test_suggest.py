"""Did you mean … ?"""

from __future__ import annotations

from core_rl.suggest import did_you_mean, nearest


def test_two_letters_in_the_wrong_order_are_the_likeliest_slip():
    """`gpro` is `grpo`, and not `gspo`, which has as many letters in place."""
    assert nearest("gpro", ["gspo", "gmpo", "grpo", "ppo"]) == "grpo"
    assert nearest("gsop", ["grpo", "gspo"]) == "gspo"


def test_case_hyphens_and_underscores_are_one():
    """A user of another system writes them as they come."""
    assert nearest("Dr-GRPO", ["grpo", "dr_grpo"]) == "dr_grpo"


def test_nothing_near_lists_what_there_is_while_it_is_little():
    """And nothing where it would fill the screen."""
    assert did_you_mean("zzz", ["a", "b"]) == "; known: a, b"
    assert did_you_mean("zzz", [f"name_{index}" for index in range(40)]) == ""
