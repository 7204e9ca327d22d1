"""Landing: the loop that brings batches from prepared to readable, and what helps when it stops.

What it is: the driver's side of the protocol (log, moves, recovery, cleaning, verification) and,
under `writer`, what runs on executors.
What it promises: every effect follows from an entry of the log; nothing is listed on the commit
path, nothing deleted or overwritten.
What it must not know: Spark. A batch is read and written behind the seam `batch.BatchRunner`.
"""
