"""What the session keeps of jobs that are over: a few, since nobody looks at Spark's pages."""

import time

import pytest
from pyspark.sql import SparkSession

from ashore.topics.run.spark.session import DEFAULTS

JOBS, WAIT_S = 200, 30
SLACK = 25  # Spark looks at what to forget now and then, beside the jobs
KEPT = {
    "spark.ui.retainedJobs": "org.apache.spark.status.JobDataWrapper",
    "spark.ui.retainedStages": "org.apache.spark.status.StageDataWrapper",
    "spark.sql.ui.retainedExecutions": "org.apache.spark.sql.execution.ui.SQLExecutionUIData",
}


@pytest.fixture(scope="module")
def busy(spark: SparkSession) -> SparkSession:
    for _ in range(JOBS):
        spark.range(0, 1, 1, 1).collect()
    return spark


@pytest.mark.long  # a hundred jobs of Spark
@pytest.mark.parametrize("setting", KEPT)
def test_what_is_kept_of_jobs_that_are_over_does_not_grow_with_them(
    busy: SparkSession, setting: str
) -> None:
    store = busy.sparkContext._jsc.sc().statusStore().store()
    kind = busy._jvm.org.apache.spark.util.Utils.classForName(KEPT[setting], True, True)
    most = int(DEFAULTS[setting]) + SLACK
    until_s = time.monotonic() + WAIT_S
    while store.count(kind) > most and time.monotonic() < until_s:
        time.sleep(0.1)  # Spark forgets beside the jobs
    assert 0 < store.count(kind) <= most < JOBS
