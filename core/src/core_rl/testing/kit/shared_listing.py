"""Checks of every kind: how a component is listed, and what it takes as options."""

from __future__ import annotations

from typing import Any

from core_rl.plugins.check import NO_SUMMARY, config_findings, word_findings
from core_rl.testing.kit.check import checks, expect, not_judged
from core_rl.testing.kit.fresh import fresh_listing
from core_rl.testing.kit.subject import Subject, catalogue


def listed(subject: Subject) -> None:
    """Discovery finds it in a new process, without an import of torch or anything as heavy, for its options class too."""
    if ":" in subject.name:
        expect(callable(_target(subject)), f"{subject.name} cannot be called")
        return
    rows = [row for row in fresh_listing()["components"] if _is(row, subject)]
    broken = [f"{row['distribution']}: {row['broken']}" for row in fresh_listing()["plugins"] if row["broken"]]
    expect(rows, f"no plugin that works lists a {subject.kind} {subject.name!r}; broken plugins: {'; '.join(broken) or 'none'}")
    for row in rows:
        expect(not row["config"], "; ".join(row["config"]))


def listing_changes_nothing(subject: Subject) -> None:
    """Listing its plugin leaves the environment, the working directory, the search path and all random states as they are."""
    if ":" in subject.name:
        not_judged("module:Object is in no plugin")
    owner = catalogue().find(subject.kind, subject.name).plugin
    for row in fresh_listing()["plugins"]:
        if row["distribution"] == owner:
            expect(not row["changed"], f"listing {owner} changes {'; '.join(row['changed'])}")


def options_class(subject: Subject) -> None:
    """Its options class is a frozen attrs class, imports nothing heavy, and every option has a help text."""
    found = list(config_findings(subject.kind, subject.component))
    expect(not found, "; ".join(found))


def options_accepted(subject: Subject) -> None:
    """A run file takes its options, and its defaults where none are given."""
    _, problems = subject.read(subject.options)
    expect(not problems, "; ".join(f"{problem.path}: {problem.message}" for problem in problems))


def unknown_option_refused(subject: Subject) -> None:
    """A run file with an option that it does not have is refused, with the place."""
    wrong = "no_such_option_anywhere"
    _, problems = subject.read({**subject.options, wrong: 1})
    words = [problem.message for problem in problems if problem.path.endswith(wrong)]
    expect(words, f"the option {wrong!r} was taken; expected a mistake at {subject.kind}.{wrong}")


def capability_names(subject: Subject) -> None:
    """What it needs and provides are capabilities that core-rl knows, and it says in one line what it is."""
    found = list(word_findings(subject.kind, subject.component))
    if ":" in subject.name:  # it is in no list, so that it needs no summary
        found = [text for text in found if text != NO_SUMMARY]
    expect(not found, "; ".join(found))


def _target(subject: Subject) -> Any:
    from core_rl.plugins.references import load_reference

    return load_reference(subject.component.target)


def _is(row: dict[str, Any], subject: Subject) -> bool:
    owner, _, plain = subject.name.rpartition("/")
    return row["kind"] == subject.kind and row["name"] == plain and owner in ("", row["distribution"], row["entry_point"])


CHECKS = checks(listed, listing_changes_nothing, options_class, options_accepted, unknown_option_refused, capability_names)
