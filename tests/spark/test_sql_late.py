"""Records that come too late, or too early, for a query: how many, and what `status` says."""

from tests.spark.site import At, Site
from tests.spark.sql_jobs import (
    PER_MINUTE,
    PER_MINUTE_TABLE,
    START_MS,
    clicks,
    encode,
    per_minute,
    read_only,
    read_per_minute,
    run,
    sql_job,
)

from ashore.landing.log_reader import read_log
from ashore.protocol.names import SliceName

SLICE = "ods__per_minute"


def counted(site: Site) -> dict[str, int]:
    return dict(read_log(site.storage, SliceName("landing", SLICE)).counters)


def test_late_records_are_counted_as_records_over_restarts(site: Site) -> None:
    """An aggregate of Spark counts one row for all late records of a group that a task has."""
    topic = site.topic(1)
    job_file = sql_job(site, PER_MINUTE, read_only(topic), PER_MINUTE_TABLE)
    site.produce(topic, encode(clicks(0, 200)))
    run(site, job_file)
    assert counted(site).get("late", 0) == 0
    watermark_ms = START_MS + 199_000 - 10_000
    too_late = [(1, "DE", START_MS + number) for number in range(7)]
    still_open = [(1, "DE", watermark_ms - 1_000)]  # its window is not over
    at_the_watermark = [(1, "DE", watermark_ms)]  # Spark holds it late too
    in_time = clicks(200, 50)

    told = At("never", lambda: None)
    site.produce(topic, encode([*too_late, *still_open, *at_the_watermark, *in_time]))
    run(site, job_file, told)

    assert counted(site)["late"] == 9
    assert any("9 records of clicks are behind the watermark" in each for each in told.troubles)
    assert any("operators with state left them out" in each for each in told.troubles)
    site.produce(topic, encode([*too_late[:2], *clicks(250, 50)]))
    run(site, job_file)
    assert counted(site)["late"] == 11
    expected = per_minute(
        [*clicks(0, 300), *still_open, *at_the_watermark],
        watermark_ms=START_MS + 299_000 - 10_000,
    )
    assert read_per_minute(site) == expected
    site.prove(job_file)
