"""DPPO: trust regions in total variation or KL in place of the ratio clip."""
