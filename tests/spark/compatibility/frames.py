"""Changes of what only a frame says, not SQL, and of what Spark does not show in a plan."""

from pyspark.sql import SparkSession
from tests.spark.compatibility.change import CONVERT, FULL, REFUSED, Base, Change

UNSEEN = "Spark does not show everything that it computes"
JUDGED = "it is there for the judge"
ONE = "rows that are no longer distinguished become one"

DEDUPLICATED = Base(
    "a deduplication of a frame",
    "SELECT id, country FROM once",
    "append",
    (
        Change("nothing", (), FULL, unplayed=JUDGED, is_run=True),
        Change(
            "a result renamed",
            [("id, country", "id AS number, country")],
            FULL,
            unplayed=JUDGED,
        ),
        Change(
            "fewer columns",
            [("FROM once", "FROM once_by_id")],
            CONVERT,
            ONE,
            unplayed="each id has come in the first half",
        ),
        Change(
            "other columns",
            [("id, country FROM once", "id, amount FROM once_by_amount")],
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
        Change("nothing", (), FULL, unplayed=JUDGED, is_run=True),
        Change(
            "another subquery",
            [("count(*) FROM countries", "count(*) + 1 FROM countries")],
            REFUSED,
            UNSEEN,
        ),
    ),
)


def make_frames(session: SparkSession) -> None:
    """Make the views that these bases read. Requires: the view `plain` is there."""
    plain = session.table("plain")
    for name, columns in (
        ("once", ["id", "country"]),
        ("once_by_id", ["id"]),
        ("once_by_amount", ["id", "amount"]),
    ):
        plain.dropDuplicates(columns).createOrReplaceTempView(name)
