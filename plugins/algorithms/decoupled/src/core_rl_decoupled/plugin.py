"""Decoupled PPO: a proximal policy apart from the one that sampled."""
