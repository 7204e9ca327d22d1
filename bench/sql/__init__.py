"""Ashore, plain Spark and Flink run the same SQL side by side: `make bench-sql`.

What it is: queries (`queries`) over generated topics (`inputs`), three engines (`engines`),
`measures`, and DuckDB, which computes what each query must give (`proof`).
What it promises: an engine is a command. It is measured from outside, by its whole tree of
processes, and every row that it wrote is compared. What an engine cannot run is in the tables.
How. A rate is measured by runs of the command to the end of a topic of few records, of which the
median shows what a start costs, and to the end of one of many: the difference is for the records.
So no engine is warm, and none has its start in its rate. Event time is in the records; windows that
the newest event has not passed by far are not compared, as only Flink closes them when a topic
ends. Latency and recovery are measured on a stream that is produced while the engine runs,
with the machine's clock as event time, on the same cores: from when a row could be known (the time
in its record, or the end of its window and the allowed lateness) until a reader sees its file.
What it must not know: what the engines do inside.
"""
