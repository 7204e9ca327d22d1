"""`audit`: follows a running job and reports what is wrong while it is young.

What it promises: decides in pure functions (`judge`, `publication`), reads in others, writes
nothing. `result` loads no Arrow; `audit_once` and `follow` of `auditor` do.
"""
