"""What the servers of a fleet share: records, which `store.Records` reads and replaces.

What it is: desired states, job files, the journal of events, and an index over it.
What it promises: nothing here knows which machine it is on: no lock, no process, no number of one.
"""
