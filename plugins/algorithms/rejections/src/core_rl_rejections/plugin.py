"""Filters and weights for rollout correction."""
