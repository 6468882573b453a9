"""The advantages of the family from the papers: plain Python floats, one sample after the other, nothing shared with the implementation."""

from __future__ import annotations

import math
import statistics


def known(rewards, groups, index):
    """Indices of the samples of the group of `index` whose reward did not fail."""
    return [j for j, group in enumerate(groups) if group == groups[index] and not math.isnan(rewards[j])]


def _each(rewards, groups, rule):
    """0 for what failed, the rule for the others; the rule gets the sample and its group."""
    return [0.0 if math.isnan(reward) else rule(i, known(rewards, groups, i)) for i, reward in enumerate(rewards)]


def rloo(rewards, groups):
    def rule(i, members):
        others = [rewards[j] for j in members if j != i]
        return rewards[i] - statistics.fmean(others) if others else 0.0

    return _each(rewards, groups, rule)


def opo(rewards, groups, lengths):
    def rule(i, members):
        total = sum(lengths[j] for j in members)
        return rewards[i] - sum(lengths[j] * rewards[j] for j in members) / total if total else 0.0

    return _each(rewards, groups, rule)


def _std(values):
    return statistics.stdev(values) if len(values) > 1 else 1.0


def gpg(rewards, groups, lengths, *, alpha="spread", scale="none", eps=1e-6):
    counted = [i for i, length in enumerate(lengths) if length and not math.isnan(rewards[i])]

    def differs(i):
        return len({rewards[j] for j in known(rewards, groups, i)}) > 1

    teaching = {"spread": differs, "nonzero_reward": lambda i: rewards[i] != 0, "one": lambda _: True}[alpha]
    factor = len(counted) / (sum(teaching(i) for i in counted) or len(counted) or 1)

    def rule(i, members):
        values = [rewards[j] for j in members]
        std = _std(values) + eps if scale == "std" and differs(i) else 1.0
        return factor * (rewards[i] - statistics.fmean(values)) / std

    return _each(rewards, groups, rule)


def pass_at_k(rewards, groups, *, scale="none", eps=1e-6):
    def rule(i, members):
        others = [rewards[j] for j in members if j != i]
        if not others:
            return 0.0
        lead = max(rewards[j] for j in members) - max(others)  # what the group loses without i
        return lead / (_std([rewards[j] for j in members]) + eps if scale == "std" and lead else 1.0)

    return _each(rewards, groups, rule)


def maxrl(rewards, groups, *, at_zero="zero", eps=1e-6):
    def rule(i, members):
        mean = statistics.fmean(rewards[j] for j in members)
        if at_zero == "zero":
            return (rewards[i] - mean) / mean if mean > 0 else 0.0
        return (rewards[i] - mean) / (max(mean, 0.0) + eps)

    return _each(rewards, groups, rule)


def normalised(values, groups, *, eps=1e-6, population=False):
    """(x - mean) / (std + eps) within the group; 0 without spread."""

    def rule(i, members):
        mine = [values[j] for j in members]
        if len(set(mine)) == 1:
            return 0.0
        std = statistics.pstdev(mine) if population else statistics.stdev(mine)
        return (values[i] - statistics.fmean(mine)) / (std + eps)

    return _each(values, groups, rule)


def gdpo(parts, weights, total, groups, *, order="normalise_then_sum", batch_norm=True, eps=1e-6, population=False):
    """`parts` and `weights`: one list per reward. `total`: the rewards themselves, NaN where the sample failed."""
    options = {"eps": eps, "population": population}
    count = range(len(total))
    if order == "normalise_then_sum":
        single = [normalised(part, groups, **options) for part in parts]
        sums = [sum(w[i] * one[i] for w, one in zip(weights, single, strict=True)) for i in count]
    else:
        added = [sum(0.0 if math.isnan(p[i]) else w[i] * p[i] for w, p in zip(weights, parts, strict=True)) for i in count]
        sums = normalised([math.nan if math.isnan(total[i]) else added[i] for i in count], groups, **options)
    alive = [math.nan if math.isnan(total[i]) else sums[i] for i in count]
    return normalised(alive, [0] * len(total), **options) if batch_norm else [0.0 if math.isnan(x) else x for x in alive]


def returns(token_rewards, gamma):
    """Of the rewards of one sequence's own tokens, by definition."""
    return [sum(gamma ** (k - t) * token_rewards[k] for k in range(t, len(token_rewards))) for t in range(len(token_rewards))]
