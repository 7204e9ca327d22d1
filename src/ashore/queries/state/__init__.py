"""Checkpoints of queries, read from their files: positions, attempts, copies, rollback.

What it is: what Ashore does with Spark's checkpoints while no Spark is there to ask.
What it promises: state is only read or copied, and a checkpoint that its owner may still write is
never changed.
"""
