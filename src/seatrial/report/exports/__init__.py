"""A study in formats for other programs, one module each."""
