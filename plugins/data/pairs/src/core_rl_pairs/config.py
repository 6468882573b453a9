"""Options of the data sources `pairs` and `labelled`."""

from __future__ import annotations

import attrs

from core_rl.data.completions import PROMPT_FIELDS
from core_rl.data.tables import TableOptions

COMPLETION_FIELDS = ("completion", "response", "answer", "output")
LABEL_FIELDS = ("label", "desirable")
_PROMPT_HELP = "null: the first of " + ", ".join(PROMPT_FIELDS) + ", if any; not read where completions are whole conversations"


@attrs.frozen(kw_only=True)
class PairsConfig(TableOptions):
    """Which rows, and which of their fields. Where they come from is said by `TableOptions`."""

    prompt_field: str | None = attrs.field(default=None, metadata={"help": _PROMPT_HELP})
    chosen_field: str = attrs.field(default="chosen", metadata={"help": "the preferred completion, or the whole conversation"})
    rejected_field: str = attrs.field(default="rejected", metadata={"help": "the other one"})
    margin_field: str | None = attrs.field(
        default=None, metadata={"help": "by how much the first is better, for reward models; null: margin, if the rows have it"}
    )
    ref_chosen_field: str = attrs.field(
        default="ref_chosen_logps",
        metadata={"help": "log-probability of the chosen completion under a reference policy, if the rows have it"},
    )
    ref_rejected_field: str = attrs.field(default="ref_rejected_logps", metadata={"help": "the same of the rejected one"})


@attrs.frozen(kw_only=True)
class LabelledConfig(TableOptions):
    """Which rows, and which of their fields. A row of a pair, {chosen, rejected}, is one good and one bad completion."""

    prompt_field: str | None = attrs.field(default=None, metadata={"help": _PROMPT_HELP})
    completion_field: str | None = attrs.field(
        default=None, metadata={"help": "null: the first of " + ", ".join(COMPLETION_FIELDS)}
    )
    label_field: str | None = attrs.field(
        default=None,
        metadata={
            "help": "true, 1 for a good completion, false, 0 for a bad one; null: the first of " + ", ".join(LABEL_FIELDS)
        },
    )
