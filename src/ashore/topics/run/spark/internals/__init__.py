"""Inside Spark: each private call, declared in one table, and jobs that ask little of the JVM.

What it promises: a test compares each call with the Spark that is installed. A Spark whose
internals are not known is used by PySpark's public way.
"""
