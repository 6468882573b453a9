"""Ports of this machine."""

from __future__ import annotations

import socket


def free_port(address: str = "127.0.0.1") -> int:
    """One that nobody listens at now."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as listener:
        listener.bind((address, 0))
        port: int = listener.getsockname()[1]
        return port
