"""Ashore, Spark's streaming query and Flink side by side: `make bench-peers`.

What it is: one run on one machine, with the same topics, bytes and compression for all. `compare`
leads it, `report` makes the tables.
What it promises: every peer is measured by the same clock, from outside, and its rows are counted.
How. Each measurement is a process of its own, which lands a warm-up topic of the same shape first
(a quarter of the records) and then, through a new job in the same virtual machine, the measured
topic. The time is from when that job is started until it has ended: its last file is final, and
what makes it so (log, metadata, checkpoint) is written. Starting the process, Spark or Flink's
cluster is not in it; planning the job is. Every topic is there in full before, and has been read
for 15 s, so that the broker compiles nothing while a peer is measured. CPU time and memory are read
from /proc over the same time: for Ashore of all its processes, for Spark and Flink of the virtual
machine alone, as the Python that drives them here is no part of them. The order of the peers
rotates from repeat to repeat; the tables show medians.
What it must not know: what Ashore does inside.
"""
