"""Tables as readers see them: names of partitions, columns by Spark's DDL, and catalogs."""
