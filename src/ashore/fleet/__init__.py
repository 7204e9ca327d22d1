"""Many jobs of one machine, kept running: what `ashore serve` does between two requests.

What it is: the directory of job files and what is wanted of each, the supervisor that starts and
watches job processes, operations, and the index over their history.
What it promises: what is wanted and what happened is in files; a server that dies at any moment
leaves its jobs running, and the next one adopts them and starts none twice.
"""
