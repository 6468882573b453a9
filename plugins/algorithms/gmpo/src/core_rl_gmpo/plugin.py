"""GMPO: the geometric mean of token ratios."""
