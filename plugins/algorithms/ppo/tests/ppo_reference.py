"""The formulas from the papers, one sequence at a time in Python floats; nothing of core_rl in it but the batch's own fields.

A row is one sequence: lists with one entry per token. `steps` are lists of (reward, value, tokens of the step).
"""

from __future__ import annotations

import itertools


def rows(batch, *names):
    """One tuple of lists for each sequence."""
    bounds = batch.cu_seqlens.tolist()
    columns = [(batch.loss_mask if name == "loss_mask" else batch[name]).tolist() for name in names]
    return [tuple(column[a:b] for column in columns) for a, b in itertools.pairwise(bounds)]


def token_rewards(reward, mask, turn_rewards=None, kl_rewards=None):
    """The sequence's reward at its last token in the mask; turn rewards at the last one up to their own; KL at each token.

    `reward` is without the KL penalty.
    """
    paid = [0.0] * len(mask)
    inside = [t for t, m in enumerate(mask) if m]
    if inside:
        paid[inside[-1]] += reward
    for t, amount in enumerate(turn_rewards or []):
        reached = [u for u in inside if u <= t]
        if reached:
            paid[reached[-1]] += amount
    for t, amount in enumerate(kl_rewards or []):
        paid[t] += amount if mask[t] else 0.0
    return paid


def token_steps(rewards, values, mask, between):
    """Every token of the mask; with `zero` every other one too, with nothing in it."""
    kept = range(len(mask)) if between == "zero" else [t for t, m in enumerate(mask) if m]
    return [(rewards[t], values[t], [t]) if mask[t] else (0.0, 0.0, []) for t in kept]


def turn_steps(rewards, values, mask, generated):
    """Runs of `generated`; a turn without a token in the mask is none."""
    turns, previous = [], False
    for t, g in enumerate(generated):
        if g and not previous:
            turns.append([])
        if g and mask[t]:
            turns[-1].append(t)
        previous = g
    return [(sum(rewards[t] for t in turn), values[turn[0]], turn) for turn in turns if turn]


def gae(steps, size, gamma, lam, lam_value):
    """(A, R) for each token by the double sum of the definition."""
    deltas = []
    for k, (reward, value, _) in enumerate(steps):
        following = steps[k + 1][1] if k + 1 < len(steps) else 0.0
        deltas.append(reward + gamma * following - value)
    advantages, returns = [0.0] * size, [0.0] * size
    for k, (_, value, tokens) in enumerate(steps):
        for t in tokens:
            advantages[t] = sum((gamma * lam) ** (j - k) * deltas[j] for j in range(k, len(steps)))
            returns[t] = value + sum((gamma * lam_value) ** (j - k) * deltas[j] for j in range(k, len(steps)))
    return advantages, returns
