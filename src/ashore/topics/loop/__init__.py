"""The landing loop: batches of topics, from a plan to closed entries of the log.

What it promises: what is planned, written and landed follows from the log alone, so that a process
that takes a job over continues where it stopped.
"""
