"""What a process in which tasks write has in its environment.

What it promises: settings of memory that were measured (docs/internals/performance.md): one heap
for Arrow, Python and the Kafka client, so that a worker is 50 MB smaller, and no slower; freed
memory is used again instead of given back page by page, up to a bound; huge pages where the
system leaves that to programs. A C library other than glibc, or one before 2.35, reads less of it.
"""

TASK_ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    # Arrow's jemalloc starts a thread once Arrow is loaded, used or not; what forks may have none.
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(20 << 20),  # larger buffers go back when they are freed
    "MALLOC_TRIM_THRESHOLD_": str(128 << 20),  # the default, 128 kB, has every batch fault pages
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
