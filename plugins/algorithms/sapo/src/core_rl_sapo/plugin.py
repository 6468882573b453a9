"""SAPO: a soft gate in place of the clip."""
