"""REINFORCE and its baselines: RLOO, REINFORCE++, ReMax, OPO, GPG, pass@k, MaxRL, GDPO, PF-PPO."""
