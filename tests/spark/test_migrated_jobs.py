"""The state of a job's query rewritten for other SQL, by the process that does it."""

from dataclasses import replace

import pytest
from tests.checkpoint_files import opened
from tests.spark.migrations import lay_out
from tests.spark.site import Site
from tests.spark.sql_jobs import (
    PER_MINUTE,
    PER_MINUTE_TABLE,
    checkpoint,
    clicks,
    encode,
    read_only,
    run,
    sql_job,
)

from ashore.errors import AshoreError
from ashore.jobs.events import StateStep
from ashore.jobs.requests import CheckpointAddress, MigrateRequest
from ashore.log.names import SliceName
from ashore.log.store.reader import read_log
from ashore.plans.change.judge import judge_query
from ashore.plans.change.rewriting import plan_rewrite
from ashore.plans.graph import read_stored
from ashore.queries.state.rescaling import finish
from ashore.queries.state.survey import take_survey
from ashore.queries.tools.state_process import MigrationProcess
from ashore.topics.open_job import open_job

MORE = PER_MINUTE.replace("count(*) AS clicks", "max(id) AS last, count(*) AS clicks")


@pytest.mark.long  # every day by the command: tests/spark/test_migrate_apply.py
def test_one_process_plans_and_rewrites_a_job_file_as_it_was(site: Site) -> None:
    topic = site.topic(1)
    tables = [read_only(topic), PER_MINUTE_TABLE]
    site.produce(topic, encode(clicks(0, 100)))
    run(site, sql_job(site, PER_MINUTE, *tables))
    source = opened(checkpoint(site, "ods__per_minute"))
    job_file = sql_job(site, MORE, *tables)
    with open_job(job_file) as job:
        fold = read_log(job.storage, SliceName("landing", "ods__per_minute"))
    old = read_stored(fold.plan.document)
    target = opened(site.directory / "target")
    batch = source.read_position().committed
    lay_out(source, target, batch)
    told = []
    with MigrationProcess(job_file, "landing") as process:
        (new,) = process.plan()
        sql_job(site, PER_MINUTE, *tables)  # somebody edits the file meanwhile
        request = MigrateRequest(
            source=CheckpointAddress(source.uri, ()),
            target=CheckpointAddress(target.uri, ()),
            batch=batch,
            state_format=1,
            query="ods.per_minute",
            rewrite=plan_rewrite(old, new.plan, judge_query(old, new.plan)),
        )
        done = process.rewrite(request, told.append)
        with pytest.raises(AshoreError):
            process.rewrite(replace(request, batch=batch + 7), told.append)

    (moved,) = done.stores
    assert (moved.rewrite, moved.before) == ("recode", moved.after)
    assert moved.after
    assert moved.size_bytes
    assert any(isinstance(each, StateStep) for each in told)
    finish(source, target)
    survey = take_survey(target)
    assert survey.required.batch == batch
    assert {each.operator for each in survey.required.operators.values()} == {0}
