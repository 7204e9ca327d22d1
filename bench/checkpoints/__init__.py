"""What the state of a streaming query costs, by how it is checkpointed.

    python -m bench.checkpoints run [--part ...]     measure, and add to bench/results
    python -m bench.checkpoints table                the table again, from what was measured

What it is: one aggregation, three ways to keep its state (`modes`): a snapshot with each batch, a
changelog as Spark has it, and what Ashore sets. Each measurement is a process of its own (`job`),
which first fills the state with all keys, then runs at a steady rate, and is looked at from outside
each second (`samples`). Checkpoints are on a real HDFS on the same machine.
What it promises: all modes have the same input, the same number of partitions and the same
interval; only what is compared differs. Raw samples are kept as CSV. Nothing stays behind.
What it must not know: how Ashore lands.

The source is Spark's `rate`: it counts seconds of the machine's clock and makes a number for each
row, so that it needs no broker, no decoding and next to no CPU time, and goes on by the clock after
a kill, which makes a backlog, as Kafka would. (`rate-micro-batch` makes none.) Keys are arithmetic:
a number times a prime, modulo the number of keys, so that all keys are met equally often and none
twice before all were; skewed: a share of the keys that follows a power, so that a fifth of the keys
gets four fifths of the updates. Rows go nowhere (`noop`).
"""
