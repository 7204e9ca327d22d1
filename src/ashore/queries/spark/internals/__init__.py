"""Inside Spark: the one folder that calls what Spark does not promise to keep.

What it is: streaming plans and their sources, read as values (`ashore.plans`) from classes of the
JVM that are internal to Spark; Spark's own check of them; what Spark refuses, in words; jobs that
ask little of the JVM.
What it promises: every call is declared in `jvm`, where a test compares it with the Spark that is
installed; an unknown version of Spark is refused before anything is called, or, for jobs of
numbered tasks, used by PySpark's public way. No query is started, and no checkpoint is touched.
"""
