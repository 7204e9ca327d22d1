"""Faults: each a small module. A fault is a value; a site knows how to let it strike."""
