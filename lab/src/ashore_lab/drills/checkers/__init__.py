"""Checkers: each says in figures and words whether one promise was kept."""
