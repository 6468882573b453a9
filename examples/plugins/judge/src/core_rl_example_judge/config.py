"""Options of the reward `judge`. Light: no HTTP library."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import attrs

_positive: Any = attrs.validators.gt(0)


def _check_url(_: Any, __: attrs.Attribute[str], value: str) -> None:
    parts = urlsplit(value)
    if "@" in parts.netloc:
        message = "must hold no user and password: a key goes into the environment variable that api_key_env names"
        raise ValueError(message)
    if parts.scheme not in {"http", "https"} or not parts.netloc or parts.query or parts.fragment:
        message = f"must be the address in front of /chat/completions, such as http://localhost:8000/v1, found {value!r}"
        raise ValueError(message)


def _check_variable(_: Any, __: attrs.Attribute[str | None], value: str | None) -> None:
    if value is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        message = "must be the name of an environment variable, such as JUDGE_API_KEY, and never the key itself"
        raise ValueError(message)


@attrs.frozen(kw_only=True)
class JudgeConfig:
    """Who judges, by what, and how patiently it is asked."""

    url: str = attrs.field(
        validator=_check_url,
        metadata={"help": "the API's address, such as http://localhost:8000/v1, without /chat/completions"},
    )
    model: str = attrs.field(metadata={"help": "the judge's name at that server"})
    rubric: str = attrs.field(
        default="Is the answer correct, complete and clear?", metadata={"help": "what the judge looks for, in words"}
    )
    max_score: int = attrs.field(
        default=10, validator=_positive, metadata={"help": "the judge gives 0 to this; the reward is the part of it, 0 to 1"}
    )
    api_key_env: str | None = attrs.field(
        default=None,
        validator=_check_variable,
        metadata={"help": "the environment variable with the API key; null: the server wants none"},
    )
    max_tokens: int = attrs.field(default=256, validator=_positive, metadata={"help": "the longest reply of the judge"})
    max_concurrency: int = attrs.field(default=8, validator=_positive, metadata={"help": "requests in flight at a time"})
    timeout_s: float = attrs.field(
        default=20.0, validator=_positive, metadata={"help": "seconds until one try counts as failed"}
    )
    retries: int = attrs.field(
        default=2,
        validator=attrs.validators.ge(0),
        metadata={"help": "further tries after 429, 5xx, a lost connection or no answer in time"},
    )
    backoff_s: float = attrs.field(
        default=0.5, validator=_positive, metadata={"help": "seconds before the second try; it doubles with each one"}
    )
    max_wait_s: float = attrs.field(
        default=10.0,
        validator=_positive,
        metadata={"help": "the longest wait before a try; a server that asks for more (Retry-After) is not asked again"},
    )
    cache_size: int = attrs.field(
        default=10_000, validator=_positive, metadata={"help": "verdicts that are kept, so that the same text is judged once"}
    )
