"""How the scripts that write files of the repository end: stale files are written, or, with `--check`, only named."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def finish(files: Mapping[Path, str], about: str | None) -> int:
    """The exit code: 1 when `--check` finds a stale file."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--check", action="store_true", help="write nothing, and exit with 1 if a file is stale")
    check = parser.parse_args().check
    stale = [path for path, text in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if check and stale:
        print(f"stale, run make generated: {', '.join(str(path.relative_to(ROOT)) for path in stale)}", file=sys.stderr)
        return 1
    for path in stale:
        path.write_text(files[path], encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: written")
    return 0
