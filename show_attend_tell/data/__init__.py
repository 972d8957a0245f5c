"""Data sets, vocabularies, pictures and stored features."""
