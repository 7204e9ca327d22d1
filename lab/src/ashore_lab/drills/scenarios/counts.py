"""A query that counts the records of a drill by hour: what drills of streaming SQL have in common.

It keeps state, so that a record that is lost, or read twice, is a wrong count. It needs Spark.
"""

from ashore_lab.drills.checkers.counts import check_counted
from ashore_lab.drills.sites.real import RealSite
from ashore_lab.drills.sites.site import SiteOptions
from ashore_lab.drills.stage import Stage

COUNTS = "ods.per_hour"
SQL = """
    INSERT INTO ods.per_hour
    SELECT window.start AS hour, country, count(*) AS records
    FROM clicks GROUP BY window(event_time, '1 hour'), country;
"""
LATE_MS = 12 * 3_600_000  # partitions of the topic are read this far apart at most, in event time
LATE = {"policy": "keep", "after": "12h"}


def counted_options(records: int) -> SiteOptions:
    """Return a job that lands the topic and counts it, `records` in each batch at most."""
    counts = {"table": COUNTS, "event_time": {"column": "hour"}, "partition_by": ["date"]}
    return SiteOptions(
        batch_records=records,
        table={"late": LATE},
        sections={"sql": {"text": SQL, "state_partitions": 2}},
        other_tables=(counts,),
    )


def check_counts(stage: Stage, site: RealSite) -> None:
    """Compare the counts with what was produced, all of which has been read."""
    with site.opened() as opened:
        for problem in check_counted(opened.storage, site.produced, COUNTS, LATE_MS):
            stage.require(False, problem)
