"""Where records come from, as the driver sees it: the seam, and Kafka behind it.

Promises: a job only asks and reads; nothing is written to a source but offsets for monitoring.
Importing the seam (`source`) loads no client: take `KafkaSource` from `kafka`.
"""
