"""The control plane of many jobs: what `ashore serve` runs.

What it must not know: Spark; terminals.
"""
