"""Use cases over the topics of a job: run, stop, clean, recover, reset a clock, propose a file.

What it promises: no Spark here: a job runs in a process of its own.
"""
