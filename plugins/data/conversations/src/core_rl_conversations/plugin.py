"""Conversations and texts to imitate, from files and data sets."""
