"""The landing protocol: what the log says and what follows from it.

What it is: offsets, file states, log entries, the fold over them, and the plans made from a fold.
What it promises: pure functions over frozen values, standard library only. Nothing here does I/O,
reads a clock or draws a random number.
What it must not know: Kafka, Spark, storages, formats.
"""
