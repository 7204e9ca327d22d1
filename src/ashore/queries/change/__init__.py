"""Migration: the SQL of a job changes while its state is kept.

What it promises: no Spark here; a process of its own plans queries and rewrites state.
"""
