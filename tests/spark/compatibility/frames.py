"""Changes of what only a frame says, not SQL, and of what Spark does not show in a plan."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.spark.compatibility.change import CONVERT, FULL, REFUSED, Base, Change
from tests.spark.compatibility.widths import WIDER

UNSEEN = "Spark does not show everything that it computes"
ONE = "rows that are no longer distinguished become one"

DEDUPLICATED = Base(
    "a deduplication of a frame",
    "SELECT part, country FROM once",
    "append",
    (
        Change("nothing", (), FULL, is_run=True),
        Change("a result renamed", [("part, country", "part AS number, country")], FULL),
        Change(
            "fewer columns",
            [("part, country FROM once", "part FROM once_by_part")],
            CONVERT,
            ONE,
            is_run=True,
        ),
        Change("a column that gets wider", [("FROM once", "FROM once_wide")], CONVERT, WIDER),
        Change(
            "other columns",
            [("part, country FROM once", "part, id FROM once_by_id")],
            REFUSED,
            "which rows were there is not known",
        ),
    ),
)

SUBQUERY = Base(
    "a condition by a subquery",
    "SELECT country, count(*) AS n FROM plain WHERE id > (SELECT count(*) FROM countries) "
    "GROUP BY country",
    "update",
    (
        Change("nothing", (), FULL, is_run=True),
        Change(
            "another subquery",
            [("count(*) FROM countries", "count(*) + 1 FROM countries")],
            REFUSED,
            UNSEEN,
        ),
    ),
)


def make_frames(session: SparkSession) -> None:
    """Make the views that these bases read. Requires: the view `plain` is there.

    A `part` is of forty rows, so that each half of the rows has some of its own.
    """
    rows = session.table("plain").withColumn("part", F.expr("INT(amount / 10)"))
    wide = rows.withColumn("part", F.expr("BIGINT(part)"))
    for name, frame, columns in (
        ("once", rows, ["part", "country"]),
        ("once_by_part", rows, ["part"]),
        ("once_wide", wide, ["part", "country"]),
        ("once_by_id", rows, ["part", "id"]),
    ):
        once = frame.dropDuplicates(columns).select(*columns)
        once.createOrReplaceTempView(name)
