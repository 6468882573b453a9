"""A stand-in for SGLang, on the path of the servers that tests start."""

from pathlib import Path

ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parent)}
