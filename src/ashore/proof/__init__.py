"""Proof: what a job has landed, compared with what its log, its files and its topics say.

What it is: `verify`, `audit`, `doctor`, `status`, and what happened to one file (`trace`).
What it promises: reads only, but for `doctor` and `retire`, which append to the log what they do.
"""
