"""Streaming SQL: each INSERT of a job is a query of Structured Streaming.

What it is: statements, source views, checkpoints, and the loop that keeps a query running; its rows
go through the landing log, as landed records do.
What it promises: a query and the log of its table are compared before each batch, so that
the rows of every batch are in the table once.
"""
