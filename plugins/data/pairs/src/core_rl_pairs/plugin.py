"""Pairs of preferred and rejected completions, and labelled completions, from files and data sets."""
