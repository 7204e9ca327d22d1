"""The verdict on the state of a query whose SQL has changed.

What it is: `judge_query`, the verdict on each operator and column of a state.
What it promises: pure; nothing is read or written.
"""
