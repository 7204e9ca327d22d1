"""Tables in Iceberg's format: a snapshot for each batch, which the landing log orders.

What it is: from what an entry of the log orders to commits in an Iceberg catalog, through pyiceberg
for catalogs and metadata, and through Ashore's storage for files. Format:
https://iceberg.apache.org/spec, version 2.
What it promises: a snapshot is committed once, whatever answers are lost; a table that was
replaced or rolled back stops the job. Nothing is deleted.
"""
