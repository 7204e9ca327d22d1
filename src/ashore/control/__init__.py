"""Use cases: what commands and servers ask for.

What it is: run, status, verify, recover, clean, rejoin, each a function from a job to a value.
What it promises: no Spark here: a job runs in a process of its own, so that a command starts in
a moment and the control plane never loads a JVM.
What it must not know: terminals, pages.
"""
