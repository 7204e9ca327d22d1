"""The views that the queries of the compatibility suite read."""

from pyspark.sql import SparkSession
from tests.spark.compatibility.frames import make_frames
from tests.spark.streams import CLICKS, VIEWS, topic_view

BID = (
    "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, "
    "date_time TIMESTAMP, extra STRING"
)
AUCTION = (
    "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, "
    "date_time TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING"
)
PERSON = (
    "id BIGINT, name STRING, email STRING, credit_card STRING, city STRING, state STRING, "
    "date_time TIMESTAMP, extra STRING"
)
# Schema and column of event time by stream; none: it has no watermark.
# A stream whose columns are read as shorter types: as a job file has it before it widens them.
NARROW = "id INT, country STRING, ts TIMESTAMP, amount FLOAT"
ALIASES = {"narrow": ("plain", NARROW)}
STREAMS = {
    "clicks": (CLICKS, "ts"),
    "views": (VIEWS, "seen"),
    "plain": (CLICKS, ""),
    "other": (VIEWS, ""),
    "bid": (BID, "date_time"),
    "auction": (AUCTION, "date_time"),
    "person": (PERSON, "date_time"),
}


def plan_views(session: SparkSession) -> SparkSession:
    """Make a view of a topic of each stream, of no broker: enough to plan with."""
    for name, (schema, event_time) in STREAMS.items():
        topic_view(session, name, schema, event_time)
    for name, (topic, schema) in ALIASES.items():
        topic_view(session, topic, schema, name=name)
    make_tables(session)
    make_frames(session)
    return session


def make_tables(session: SparkSession) -> None:
    rows = [("DE", "Germany"), ("FR", "France")]
    session.createDataFrame(rows, "code STRING, name STRING").createOrReplaceTempView("countries")
