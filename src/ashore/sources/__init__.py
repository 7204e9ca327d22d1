"""Where records come from, as the driver sees it: the seam, and Kafka behind it.

Promises: questions only; nothing is written to a source. Importing the seam (`sources.base`) loads
no client: take `KafkaSource` from `sources.kafka`.
Must not know: tables, batches, the log, how executors read.
"""
