"""The streaming source `ashore`: topics as decoded rows, for Spark's public Python data source API.

It reads with `topics/read` and decodes with `topics/decode`, as landing does. Planning runs in one
process beside the driver for each stream, reading in Spark's Python workers.
"""
