"""PPO-clip token by token from the papers, in Python floats, with its derivative."""

from __future__ import annotations

import math


def ppo_clip(log_p, log_old, advantage, *, low=0.2, high=0.2, dual=None, delta=None):
    """(loss, derivative of the loss by log_p) of one token."""
    r = math.exp(log_p - log_old)
    bounded = r if delta is None else min(r, delta)
    clipped = min(max(r, 1 - low), 1 + high)
    if bounded * advantage <= clipped * advantage:
        loss, slope = -bounded * advantage, -r * advantage if bounded == r else 0.0
    else:
        loss, slope = -clipped * advantage, -r * advantage if clipped == r else 0.0
    if dual is not None and advantage < 0 and loss > -dual * advantage:
        loss, slope = -dual * advantage, 0.0
    return loss, slope
