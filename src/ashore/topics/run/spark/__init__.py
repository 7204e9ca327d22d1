"""Batches of topics on Spark: one job a batch, over exactly the ranges of its plan."""
