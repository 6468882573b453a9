"""VESPO: a smooth weight of the sequence ratio."""
