"""Queries: SQL over topics, its state, and how state follows changes of the SQL.

What it is: `state` (checkpoints as files), `spark` (queries, and state, on Spark), `change`
(migration of SQL) and `tools` (commands for checkpoints), all over `ashore.plans`.
"""
