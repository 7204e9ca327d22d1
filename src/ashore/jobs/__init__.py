"""Jobs as processes: what they need to start, how they are started, which events they send.

What it is: Java and locked jars, the launch of a job process, and the events that pass between it
and its listeners.
What it promises: what crosses the process is a typed value, never a dictionary of loose fields.
"""
