"""CISPO, AIPO and TOPR: policy gradients with a detached, truncated weight."""
