"""Spark: reads ranges of Kafka in executors and hands them to the writer.

What it is: the only part of Ashore that imports pyspark; started as `python -m ashore.spark.main`.
What it promises: one Spark action a batch, over exactly the ranges of the plan.
What it must not know: what a prepared batch is good for; that is `landing`.
"""
