"""Clip-Cov and KL-Cov: bounds on the tokens that drive entropy down."""
