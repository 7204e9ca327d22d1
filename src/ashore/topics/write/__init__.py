"""What runs on executors: fetched records in, closed and synced data files out.

What it is: step 2 of a batch, for one task.
What it promises: each record ends in exactly one place; memory and open files are bounded; nothing
is listed, deleted or overwritten. A task that fails leaves in-progress files, which no log names.
"""
