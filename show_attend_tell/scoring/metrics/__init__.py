"""The metrics themselves, from per-caption counts."""
