"""A query reads only the columns that it uses, and is the same query."""

import json
from dataclasses import replace

import pytest
from tests.spark import test_nexmark as nexmark
from tests.spark.site import Site
from tests.spark.sql_jobs import START_MS, read_only, run, sql_job

from ashore.errors import RowNotComputed
from ashore.log.fold import EMPTY
from ashore.log.progress import Quiet
from ashore.plans.graph import PlanGraph
from ashore.plans.operator_graph import identify
from ashore.queries.spark.sql import frames
from ashore.queries.spark.sql.assembly import assembled, plan_queries
from ashore.queries.spark.sql.views import View
from ashore.topics.loop.job import load_job_file
from ashore.topics.loop.sinks import sink_slice

SCHEMA = "id BIGINT, country STRING, ts BIGINT, amount DECIMAL(10,2), tags ARRAY<STRING>"

Opened = dict[str, list[tuple[str, ...] | None]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    """The columns that streams were opened with, by view."""
    found: Opened = {}
    before = frames.open_stream

    def open_stream(*arguments: object, **options: object) -> object:
        (view,) = (each for each in arguments if isinstance(each, View))
        found.setdefault(view.name, []).append(view.columns)
        return before(*arguments, **options)

    monkeypatch.setattr(frames, "open_stream", open_stream)
    return found


def test_only_columns_that_a_query_uses_are_read_and_all_are_judged(
    site: Site, opened: Opened
) -> None:
    topic, other = site.topic(2), site.topic(1)
    records = [
        {"id": n, "country": "DE", "ts": START_MS + n, "amount": "1.50", "tags": ["a"]}
        for n in range(20)
    ]
    records[7]["tags"] = 5  # not read, and invalid all the same
    site.produce(topic, [json.dumps(each).encode() for each in records])
    text = """
        CREATE TEMPORARY VIEW priced AS SELECT id, amount * 2 AS twice, tags FROM clicks;
        CREATE TEMPORARY VIEW unread AS SELECT country FROM orders;
        INSERT INTO ods.ids SELECT id FROM priced WHERE twice > 1;
        INSERT INTO ods.counts
            SELECT count(*) AS n FROM clicks GROUP BY window(event_time, '1 second');
    """
    tables = [
        read_only(topic, schema=SCHEMA),
        read_only(other, "orders", schema=SCHEMA),
        {"table": "ods.ids"},
        {"table": "ods.counts"},
    ]
    run(site, sql_job(site, text, *tables))
    rows = sorted(row[0] for row in site.read("ods.ids").collect())
    assert rows == [n for n in range(20) if n != 7]
    assert set(opened) == {"clicks"}, "a view that no INSERT reads is not opened"
    # Planned with all of them, run with these.
    assert set(opened["clicks"]) == {None, ("id", "ts", "amount"), ("ts",)}


def test_a_column_that_was_not_read_stops_a_query_that_needs_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(View, "narrow", lambda view, _graph: replace(view, columns=("id", "ts")))
    topic = site.topic(1)
    site.produce(topic, [json.dumps({"id": 1, "country": "DE", "ts": START_MS}).encode()])
    tables = [read_only(topic), {"table": "ods.all"}]
    job_file = sql_job(site, "INSERT INTO ods.all SELECT id, country FROM clicks;", *tables)
    with pytest.raises(RowNotComputed) as stopped:
        run(site, job_file)
    assert "clicks.country is not read from its topic" in str(stopped.value)
    assert site.files("ods.all") == []


def test_a_view_that_was_not_opened_stops_a_query_that_reads_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = site.topic(1), site.topic(1)
    for topic in (first, second):
        site.produce(topic, [json.dumps({"id": 1, "country": "DE", "ts": START_MS}).encode()])
    tables = [read_only(first), read_only(second, "orders"), {"table": "ods.all"}]
    text = "INSERT INTO ods.all SELECT c.id FROM clicks c JOIN orders o ON c.id = o.id;"
    only = property(lambda plan: tuple(each for each in plan.views if each.name == "clicks"))
    monkeypatch.setattr(frames.QueryPlan, "read_views", only)
    with pytest.raises(RowNotComputed) as stopped:
        run(site, sql_job(site, text, *tables))
    assert "orders is not opened" in str(stopped.value)
    assert site.files("ods.all") == []


def what_it_does(graph: PlanGraph) -> list[str]:
    return [each.with_inputs for each in identify(graph)]


@pytest.mark.long  # every day: the queries above, and those of the Nexmark job that run
def test_queries_are_the_same_over_the_columns_that_they_read(site: Site) -> None:
    topics = {topic: site.topic(2, topic) for topic in nexmark.SCHEMAS}
    numbers = {each.number for each in nexmark.QUERIES if each.file == nexmark.queries.TABLES} - {
        13
    }  # of a file
    path = nexmark.job_file(site, topics, numbers, 1_000_000)
    narrowed = {}
    with assembled(load_job_file(path), site.spark, Quiet()) as parts:
        for item, plan in plan_queries(parts, parts.assembly.rhythm(until_drained=True)):
            name = sink_slice(parts.job.job, item)
            graph = frames.open_frame(parts.spark, parts.kafka, plan, name, EMPTY).graph
            views = tuple(view.narrow(graph) for view in plan.views)
            narrow = replace(plan, views=views)
            again = frames.open_frame(parts.spark, parts.kafka, narrow, name, EMPTY).graph
            assert what_it_does(again) == what_it_does(graph), item.table
            narrowed[item.table] = {
                view.name: view.columns for view in narrow.read_views if view.columns is not None
            }
    assert narrowed["nexmark.q5"]["bid"] == ("auction", "date_time")
    assert sum(map(bool, narrowed.values())) > len(numbers) / 2
    # debug
