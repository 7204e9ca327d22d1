"""The landing log: what it says, what follows from it, and where it is kept.

What it is: offsets, file states, log entries, the fold over them and the plans made from a fold;
below `store`, what reads, appends, archives, moves and cleans.
What it promises: outside of `store` pure functions over frozen values, standard library only: no
I/O, no clock, no random number.
"""
