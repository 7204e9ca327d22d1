"""Which partition a row belongs to: event time, late policy, buckets, and their directories.

Importing the names of directories (`names`) loads no Arrow: take each name from its module.
"""
