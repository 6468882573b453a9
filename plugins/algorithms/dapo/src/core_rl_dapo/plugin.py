"""DAPO: clip-higher, dynamic sampling, overlong shaping."""
