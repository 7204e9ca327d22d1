"""What is of one machine: locks, processes, memory, threads, and the process that runs one job."""
