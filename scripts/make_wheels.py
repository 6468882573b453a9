"""Build a wheel of every distribution of this checkout into `wheelhouse/`, or into the folder that is given.

python scripts/make_wheels.py [FOLDER]

In this process, without build isolation. The same sources give the same bytes: hatchling takes the time of every file from
SOURCE_DATE_EPOCH, or a fixed one where that is not set.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "wheelhouse")
    folder = parser.parse_args().folder
    start = time.monotonic()
    wheels = build_all(folder)
    width = max(len(wheel.name) for wheel in wheels)
    for wheel in wheels:
        print(f"  {wheel.name:<{width}} {wheel.stat().st_size / 1000:7.1f} kB")
    place = os.path.relpath(folder)
    print(f"{len(wheels)} wheels in {place}, {time.monotonic() - start:.1f} s")
    print(f"pip install --find-links {place} 'core-rl[local,grpo,math]'")
    return 0


def build_all(folder: Path) -> list[Path]:
    """The wheels of the core and of every plugin. Those that an earlier build left are removed first."""
    for old in folder.glob("core_rl*.whl"):
        old.unlink()
    return [build(path, folder) for path in distributions()]


def distributions() -> list[Path]:
    """The folder of every distribution: the core's, then the plugins'."""
    return [ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/*/pyproject.toml"))]


def build(path: Path, folder: Path) -> Path:
    """The wheel of one distribution."""
    (wheel,) = WheelBuilder(str(path)).build(directory=str(folder), versions=["standard"])
    return Path(wheel)


if __name__ == "__main__":
    sys.exit(main())
