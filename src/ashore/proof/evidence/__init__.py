"""Evidence: what logs, files and topics say of a job's records, computed apart from the fold.

What it promises: nothing here leans on the code that landed the records, so that a mistake there
does not hide itself.
"""
