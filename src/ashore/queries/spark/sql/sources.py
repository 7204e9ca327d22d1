"""The sources of a query, compared with those of its checkpoint.

What it promises: pure. What would be refused once a batch is planned is refused before.
"""

from collections.abc import Sequence

from ashore.log.names import SliceName
from ashore.queries.spark.sql.refusals import other_sources
from ashore.queries.state.layout import Ends


def check_sources(name: SliceName, sources: Sequence[Sequence[str]], ends: Ends) -> None:
    """Refuse sources in another order than that of the checkpoint, before Spark plans a batch.

    Spark knows them by their order, and would write a batch's offsets before Ashore is asked.

    Arguments:
        name: of the query's slice.
        sources: the topics of each, in the order of Spark's plan.
        ends: of the newest batch in the checkpoint. A source may be missing.

    Raises QueryRefused. Another number of sources is for Spark to refuse.

    """
    for index, topics in enumerate(sources):
        before = ends.get(index, {}).keys()
        if not before <= set(topics):  # topics may come: of one that goes Spark misses the offsets
            raise other_sources(
                str(name), f"{', '.join(sorted(before))} is now {', '.join(topics)}"
            )
