"""Topics into tables: records are read, decoded, routed, written and landed in batches.

What it is: from below to above `read`, `decode` and `route`, `write`, `loop` (the driver's loop
over the landing log), `run` (the processes and Spark tasks that write), `use` (use cases).
"""
