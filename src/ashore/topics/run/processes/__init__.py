"""Jobs without Spark: `spark: none`. Their tasks run in processes of this machine.

What it is: what `ashore.queries.spark` is for a cluster, for a laptop and for small topics: a
BatchRunner over a pool of processes, and the job process around it.
What it promises: the same log, the same files, the same guarantees: tasks run the very same writer.
"""
