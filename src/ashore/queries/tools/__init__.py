"""Looking into a query's checkpoint and copying it, without Spark.

What it is: the use cases behind `ashore checkpoint`.
What it promises: no JVM is started, and nothing that runs is stopped or changed.
"""
