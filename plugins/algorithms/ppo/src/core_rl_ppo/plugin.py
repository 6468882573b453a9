"""PPO with a critic, and VAPO."""
