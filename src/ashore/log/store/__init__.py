"""The landing log on a storage: read, appended, archived; its files moved, published, cleaned.

What it promises: every effect follows from an entry of the log; nothing is listed on the commit
path, nothing deleted or overwritten.
"""
