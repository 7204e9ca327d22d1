"""Jobs as processes: Java and locked jars, how they are started, events, requests, metrics.

What it promises: what crosses the process is a typed value, never a dictionary of loose fields.
"""
