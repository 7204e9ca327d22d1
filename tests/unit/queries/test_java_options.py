"""Options of the driver's JVM: those that a launch gives, and a job's own."""

from ashore.jobs.file import Job, parse_job
from ashore.queries.spark.state.main import parse_arguments
from ashore.topics.run.spark.session import DRIVER_OPTIONS, conf_of, with_java_options

JOB = """\
job: clicks
lake: file:///data/lake
source: {{kafka: {{bootstrap_servers: "127.0.0.1:9092"}}}}
tables: [{{topic: clicks, table: ods.clicks, schema: id BIGINT}}]
spark: {{conf: {{{conf}}}}}
"""
GIVEN = "-XX:SharedArchiveFile=/cache/classes/0.jsa -Xlog:disable"


def options_of(conf: str, given: str = GIVEN) -> str | None:
    job: Job = parse_job(JOB.format(conf=conf))
    return with_java_options(conf_of(job), given).get(DRIVER_OPTIONS)


def test_a_jobs_own_options_come_last_and_so_count() -> None:
    assert options_of(f"{DRIVER_OPTIONS}: '-Xlog:gc'") == f"{GIVEN} -Xlog:gc"
    light = options_of("", given="")
    assert light is not None
    assert options_of("") == f"{GIVEN} {light}"


def test_a_verb_for_checkpoints_takes_them_too() -> None:
    asked = ["rescale", "somewhere", f"--java-options={GIVEN}", "--request={}"]
    assert parse_arguments(asked).java_options == GIVEN


def test_a_jobs_own_archive_is_left_to_it() -> None:
    own = "-XX:SharedArchiveFile=/mine.jsa"
    assert options_of(f"{DRIVER_OPTIONS}: '{own}'") == own
