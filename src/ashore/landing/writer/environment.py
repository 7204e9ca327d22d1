"""What a process in which tasks write has in its environment.

What it promises: settings of memory that were measured: one heap for Arrow, Python and the Kafka
client, so that a worker is 50 MB smaller, and no slower; large buffers go back when they are let go
of, so that the size of a batch does not show.
What it must not know: who starts the process.
"""

TASK_ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(20 << 20),
}
