"""Divergences, estimators and advantages of distillation from the papers, in Python floats, one place and one sequence at a time."""

from __future__ import annotations

import math


def kl(p, q):
    """sum_v p log(p / q) over lists of probabilities."""
    return sum(a * (math.log(a) - math.log(b)) for a, b in zip(p, q, strict=True) if a > 0)


def jensen_shannon(student, teacher, beta):
    """Of lists of probabilities (2306.13649, eq. 1 with P the teacher)."""
    if beta == 0:
        return kl(teacher, student)
    if beta == 1:
        return kl(student, teacher)
    mixture = [(1 - beta) * s + beta * t for s, t in zip(student, teacher, strict=True)]
    return beta * kl(teacher, mixture) + (1 - beta) * kl(student, mixture)


def over(logs, *, tail, temperature=1.0):
    """Log-probabilities of the ids -> the probabilities that are compared."""
    probabilities = [math.exp(x / temperature) for x in logs]
    if tail == "renormalise" or temperature != 1:
        total = math.fsum(probabilities)
        return [p / total for p in probabilities]
    if tail == "rest":
        return [*probabilities, 1 - math.fsum(probabilities)]
    return probabilities


def gjsd(student, teacher, *, beta, tail, temperature=1.0):
    """One place: lists of log-probabilities."""
    heat = {"tail": tail, "temperature": temperature}
    return jensen_shannon(over(student, **heat), over(teacher, **heat), beta)


def slope(function, point, step=1e-5):
    """The gradient of a function of a list by central differences."""
    result = []
    for index, value in enumerate(point):
        above, below = ([*point[:index], value + sign * step, *point[index + 1 :]] for sign in (1, -1))
        result.append((function(above) - function(below)) / (2 * step))
    return result


def estimate(name, difference):
    """A KL estimator's (value, derivative) at d = log pi - log teacher."""
    if name == "k1":
        return difference, 1.0
    if name == "abs":
        return abs(difference), math.copysign(1.0, difference)
    if name == "k2":
        return difference**2 / 2, difference
    if name == "k3":
        return math.exp(-difference) - 1 + difference, 1 - math.exp(-difference)
    return estimate(name[:2], difference)[0], difference  # k1+ and k3+: the value of one, the gradient of k2


def advantages(log_teacher, log_old, mask, *, coef, discount):
    """One sequence: every later token's log-ratio, discounted by its distance."""
    result = []
    for t in range(len(mask)):
        total = 0.0
        for j in range(t, len(mask)):
            if mask[j]:
                total += (discount ** (j - t)) * (log_teacher[j] - log_old[j])
        result.append(coef * total if mask[t] else 0.0)
    return result
