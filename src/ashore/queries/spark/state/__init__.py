"""Tools for state that need Spark: rows of stores read, counted and written.

What it is: the process that the verbs of `ashore checkpoint` start where state itself is at stake.
What it promises: a checkpoint that is read is not changed; what is written is another one.
"""
