"""What queries do, as values: plan graph, terms, stateful operators, windows, sources.

What it is: from what Spark writes of a physical plan to a graph of what it does, and from there to
what is reported of it: operators, keys, what is refused.
What it promises: pure, standard library only; no object of the JVM, and no name that a query gives
its views, subqueries and columns, but for those that it hands on.
"""
