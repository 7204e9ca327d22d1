"""Development and test servers: real ones, from jars, on free ports of this machine.

What it is: Kafka, HDFS, a Hive metastore, ZooKeeper, a Spark standalone cluster, and the registry
behind `ashore services`.
What it promises: no containers, nothing to install but Java; every server is stopped by its
process id, and what it leaves is one directory.
"""
