"""A reward as a user writes one."""


def length(completion):
    return min(len(completion), 10) / 10
