"""The formulas once more, from the papers, in plain Python floats: slow, obvious, and without a line of core_rl.numerics.

A "row" is a list with one entry per token of a sequence; `m` is the row's mask.
"""

from __future__ import annotations

import itertools
import math


def rows(tensor, batch):
    """[N] -> one list per sequence."""
    bounds = batch.cu_seqlens.tolist()
    return [tensor[a:b].tolist() for a, b in itertools.pairwise(bounds)]


def flat(lists):
    return [value for row in lists for value in row]


def mean(values):
    return sum(values) / len(values)


def std(values, ddof):
    if len(values) < 2:
        return 1.0
    centre = mean(values)
    return math.sqrt(sum((value - centre) ** 2 for value in values) / (len(values) - ddof))


def ratio(level, log_p, log_q, m):
    """One row of ratios."""
    differences = [p - q for p, q, inside in zip(log_p, log_q, m, strict=True) if inside]
    if level == "sequence":
        whole = math.exp(sum(differences))
    if level == "geometric":
        whole = math.exp(mean(differences)) if differences else 1.0
    each = (lambda p, q: math.exp(p - q)) if level == "token" else (lambda _p, _q: whole)
    return [each(p, q) if inside else 1.0 for p, q, inside in zip(log_p, log_q, m, strict=True)]


def kl(estimator, log_p, log_ref):
    """(value, derivative by log_p) of one token."""
    d = log_p - log_ref
    k2 = (d * d / 2, d)
    k3 = (math.exp(-d) + d - 1, 1 - math.exp(-d))
    return {
        "k1": (d, 1.0),
        "abs": (abs(d), math.copysign(1.0, d)),
        "k2": k2,
        "k3": k3,
        "k1+": (d, k2[1]),
        "k3+": (k3[0], k2[1]),
    }[estimator]


def aggregate(name, losses, masks, groups, scale):
    """The scalar loss."""
    kept = [[x for x, inside in zip(row, m, strict=True) if inside] for row, m in zip(losses, masks, strict=True)]
    alive = [row for row in kept if row]
    if not alive:
        return 0.0
    by_prompt = [flat([row for row, g in zip(kept, groups, strict=True) if g == prompt]) for prompt in sorted(set(groups))]
    values = {
        "token-mean": mean(flat(alive)),
        "token-sum": sum(flat(alive)),
        "seq-mean-token-mean": mean([mean(row) for row in alive]),
        "seq-mean-token-sum": mean([sum(row) for row in alive]),
        "seq-mean-token-sum-norm": mean([sum(row) / scale for row in alive]),
        "prompt-mean": mean([mean(tokens) for tokens in by_prompt if tokens]),
    }
    return values[name]


def group_normalised(rewards, groups, *, mean_level, std_level, ddof, leave_one_out, eps):
    """(r - mean) / (std + eps), one sample at a time. None is a reward that failed."""
    result = []
    for i, r in enumerate(rewards):
        if r is None:
            result.append(0.0)
            continue

        def others(level, out, i=i):
            near = [j for j in range(len(rewards)) if level == "batch" or groups[j] == groups[i]]
            return [rewards[j] for j in near if rewards[j] is not None and not (out and j == i)]

        advantage = r
        if mean_level != "none":
            compared = others(mean_level, leave_one_out in ("mean", "both"))
            advantage = r - mean(compared) if compared else 0.0
        if std_level != "none":
            deviation = std(others(std_level, leave_one_out in ("std", "both")), ddof)
            advantage = advantage / (deviation + eps) if deviation > 1e-9 else advantage
        result.append(advantage)
    return result


def gae(rewards, values, m, gamma, lam):
    """One row, from the end; a masked token carries value and advantage over, as in verl."""
    advantages, returns = [0.0] * len(m), [0.0] * len(m)
    next_value, advantage = 0.0, 0.0
    for t in reversed(range(len(m))):
        if not m[t]:
            continue
        advantage = rewards[t] + gamma * next_value - values[t] + gamma * lam * advantage
        next_value = values[t]
        advantages[t], returns[t] = advantage, advantage + values[t]
    return advantages, returns
