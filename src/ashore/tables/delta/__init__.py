"""Tables in Delta's format: a version for each batch, which the landing log orders.

What it is: the protocol of Delta tables over Ashore's storage: a version is a file of the table's
`_delta_log` that is created exclusively, as an entry of the landing log is. No library takes part.
Protocol: https://github.com/delta-io/delta/blob/master/PROTOCOL.md.
What it promises: a version is committed once, whatever answers are lost; a table that was replaced
or rolled back stops the job. Nothing is deleted or overwritten.
"""
