"""`verify`: proof that each record is in its table exactly once.

What it promises: decides in pure functions, reads in others, writes nothing. `job` has the order,
which lets a running job be verified.
"""
