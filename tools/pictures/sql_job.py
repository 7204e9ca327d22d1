"""A job with SQL: the six steps of `SqlQuery` and `QuerySink`."""

from collections.abc import Iterator

from .shapes import Box, Kind, Line, Picture, Shape, Text


def _data() -> Iterator[Shape]:
    for y, topic in ((40, "clicks"), (106, "orders")):
        yield Box(10, y, 104, 50, (topic, "topic"))
        yield Line(((114, y + 25), (150, y + 25)))
        yield Box(152, y, 124, 50, (topic, "view, watermark"))
        yield Line(((276, y + 25), (312, y + 25)))
    yield Box(314, 40, 150, 116, ("INSERT INTO", "one query of Spark:", "joins, windows, …"))
    yield Line(((464, 98), (524, 98)))
    yield Text(494, 90, "2 write")
    yield Box(526, 40, 112, 116, ("staged files", "no reader", "sees them"), Kind.STAGED)
    yield Line(((638, 98), (702, 98)))
    yield Text(670, 90, "4 move")
    yield Box(704, 40, 86, 116, ("sink table", "final files"), Kind.TABLE)
    yield Text(790, 180, "5 publish: catalog", Kind.SMALL, "end")


def _truth() -> Iterator[Shape]:
    yield Line(((582, 156), (582, 224)))
    yield Text(592, 208, "3 prepare: the batch counts", Kind.SMALL, "start")
    lines = ("landing log of the query", "open · prepare · commit · …")
    yield Box(526, 226, 264, 62, lines, Kind.LOG)
    yield Line(((526, 270), (466, 270)))
    yield Text(496, 289, "6 commit")
    yield Text(496, 330, "killed before 3: run and written again", Kind.SMALL, "start")
    yield Text(496, 352, "killed after 3: run again for its state,", Kind.SMALL, "start")
    yield Text(496, 370, "its rows are thrown away", Kind.SMALL, "start")


def _checkpoint() -> Iterator[Shape]:
    yield Box(152, 200, 312, 186, (), Kind.FRAME)
    yield Text(164, 222, "checkpoint of the query,", Kind.SMALL, "start")
    yield Text(164, 239, "an attempt for each writer", Kind.SMALL, "start")
    yield Line(((394, 156), (394, 250)))
    yield Text(384, 184, "1 plan", Kind.SMALL, "end")
    yield Box(314, 252, 140, 122)
    yield Text(384, 274, "attempt 4", Kind.PLAIN)
    for number, line in enumerate(("offsets/118", "state/…", "commits/118")):
        yield Text(384, 296 + 18 * number, line, Kind.CODE)
    yield Text(384, 356, "the last after 6")
    yield Line(((262, 313), (312, 313)))
    yield Text(287, 305, "copy")
    yield Box(164, 252, 98, 122, ("attempt 3", "its writer", "may be", "frozen"), Kind.STAGED)


PICTURE = Picture(
    "sql-job",
    "A job with SQL",
    "Topics are views with watermarks; an INSERT is a query over views. For each batch Spark plans "
    "offsets in the checkpoint, tasks write staged files, a prepare entry in the query's own "
    "landing log makes the batch count, files are moved to the sink table, partitions are "
    "registered, a commit entry is appended, and then Spark's commits file is written. A writer "
    "works on a checkpoint attempt of its own, a copy of the one before.",
    800,
    396,
    (*_data(), *_truth(), *_checkpoint()),
)
