"""Jobs on Spark: the job process, the queries of its SQL, and state that Spark reads and writes.

What it is: started as `python -m ashore.queries.spark.main`. With `ashore.topics.run.spark` the
only part of Ashore that imports pyspark.
"""
