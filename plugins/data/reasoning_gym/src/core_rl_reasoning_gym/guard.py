"""What a model wrote is not run. Some scorers of reasoning-gym `eval` the answer, or give it to sympy's parser, which does."""

from __future__ import annotations

import ast
import re

EVALUATED = frozenset({"binary_matrix", "n_queens", "spiral_matrix", "string_insertion"})
PARSED = frozenset({"countdown", "intermediate_integration", "polynomial_multiplication", "puzzle24", "simple_integration"})

_MAX_CHARS = 500
_NO_CODE = re.compile(r"[\w\s.,'-]*")
_FORMULA = re.compile(r"[\w\s+\-*/^().,]*")
_CALL = re.compile(r"([A-Za-z_]\w+)\s*\(")
_DANGER = re.compile(r"__|\.\s*[A-Za-z_]|\*\*[\s(+-]*\w*[\s)]*\*\*|(?:\*\*|\^)[\s(+-]*\d{4,}|\blambda\b|\d{20,}")
_FUNCTIONS = frozenset(
    [
        "sin",
        "cos",
        "tan",
        "sec",
        "csc",
        "cot",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "exp",
        "log",
        "ln",
        "sqrt",
        "Abs",
        "abs",
        "erf",
        "Si",
        "Ci",
        "Rational",
        "Integer",
    ]
)


def is_safe(task: str, answer: str) -> bool:
    """Whether the task's scorer may see the answer: a literal or plain text where it evaluates, a plain formula where it parses."""
    if task in EVALUATED:
        return _NO_CODE.fullmatch(answer) is not None or _is_literal(answer)
    if task in PARSED:
        short = len(answer) <= _MAX_CHARS and _FORMULA.fullmatch(answer) is not None
        return short and not _DANGER.search(answer) and _FUNCTIONS.issuperset(_CALL.findall(answer))
    return True


def _is_literal(answer: str) -> bool:
    try:
        ast.literal_eval(answer.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return False
    return True
