"""Which option a completion chooses. From the clearest sign to the weakest; of one kind of sign the last counts."""

from __future__ import annotations

import re

from core_rl.data.answers import final_part, last_boxed, last_line, last_tag
from core_rl_choice.options import Options, normalise

_LABEL = r"(?!a\s+[A-Za-z])[(\[*\"'`]{0,4}([A-Za-z]|\d{1,2})(?![\w'\u2019])"
_DECLARED = re.compile(
    r"(?i:\b(?:answer|choice|option)\b\s*(?:is|:|=|would be|should be|must be)\s*:?\s*(?:option|choice)?\s*)" + _LABEL
)
_LEADING = re.compile(r"\s*[(\[*]{0,3}([A-Z]|\d{1,2})(?:[)\]*]{1,3}|[.:)])")
_LONE = re.compile(r"(?<![\w'\u2019])[(\[*]{0,3}([A-Z])[)\]*]{0,3}(?![\w'\u2019])")
_ARTICLE = "A"
_MAX_CHARS = 20_000


def chosen(text: str, options: Options, *, strict: bool) -> str | None:
    """The label that is chosen, None if none is."""
    text = final_part(text)
    stated = last_boxed(text) or last_tag(text, "answer")
    if stated is not None:
        return _named(stated, options)
    text = text[-_MAX_CHARS:].strip()
    found = options.label_of(text) or _last(_DECLARED, text, options)
    if found is not None or strict:
        return found
    leading = _LEADING.match(text)
    found = options.label_of(leading.group(1)) if leading else None
    return found or options.label_of_text(text) or _by_text(text, options) or _lone(text, options)


def by_pattern(text: str, options: Options, pattern: re.Pattern[str]) -> str | None:
    """The label in the last match of the user's own pattern."""
    return _last(pattern, final_part(text), options)


def _named(stated: str, options: Options) -> str | None:
    """Inside a box or tag: the label, the option's text, or `B. the text`."""
    stated = re.sub(r"\\(?:text|mathrm|textbf|mathbf)\s*\{([^{}]*)\}", r"\1", stated[:_MAX_CHARS]).strip()
    leading = _LEADING.match(stated)
    found = options.label_of(stated) or options.label_of_text(stated) or _last(_DECLARED, stated, options)
    return found or (options.label_of(leading.group(1)) if leading else None)


def _last(pattern: re.Pattern[str], text: str, options: Options) -> str | None:
    labels = [label for match in pattern.findall(text) if (label := options.label_of(match or "")) is not None]
    return labels[-1] if labels else None


def _by_text(text: str, options: Options) -> str | None:
    """The one option whose text stands in the last line, when it is the only one there."""
    line = f" {normalise(last_line(text) or '')} "
    there = [label for label, known in zip(options.labels, options.texts, strict=False) if f" {normalise(known)} " in line]
    return there[0] if len(there) == 1 else None


def _lone(text: str, options: Options) -> str | None:
    """The last capital that stands alone in the last line; an `A` before a word is an article, an `I` a person."""
    line = last_line(text) or ""
    for match in reversed(list(_LONE.finditer(line))):
        word = re.match(r"\s+[a-z]", line[match.end() :]) is not None
        if not (word and match.group() in {_ARTICLE, "I"}) and options.label_of(match.group(1)) is not None:
            return options.label_of(match.group(1))
    return None
