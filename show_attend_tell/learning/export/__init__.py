"""A run becomes a model folder."""
