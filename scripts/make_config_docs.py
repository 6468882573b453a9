"""Write the option tables of docs/configuration.md from the configuration classes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from _generated import ROOT, finish

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.options import Option, options_of
from core_rl.config.run_file import RunFile

PAGE = ROOT / "docs" / "configuration.md"
_BLOCK = re.compile(r"(<!-- options: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> int:
    old = PAGE.read_text(encoding="utf-8")
    new = _BLOCK.sub(lambda block: f"{block[1]}{table(block['name'])}{block[3]}", old)
    return finish({PAGE: new}, __doc__)


def table(name: str) -> str:
    lines = ["| key | type | default | |", "|---|---|---|---|"]
    for one in rows(name):
        default = "required" if one.default is None else f"`{one.default}`"
        lines.append(" | ".join(["", f"`{one.key}`", _cell(one.type), _cell(default), _cell(one.help), ""]).strip())
    return "\n".join(lines) + "\n"


def rows(name: str) -> Iterator[Option]:
    """A section's keys; `parts` are the keys of the run file that are no sections."""
    if name == "algorithm":
        yield from options_of(AlgorithmConfig)
        return
    for one in options_of(RunFile):
        section, dot, _ = one.key.partition(".")
        if section == name or (name == "parts" and not dot):
            yield one


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;") if "`" not in text else text.replace("|", "\\|")


if __name__ == "__main__":
    raise SystemExit(main())
