# What the crate under `native/` gives to Python.

INTERFACE: int

def describe() -> str: ...
