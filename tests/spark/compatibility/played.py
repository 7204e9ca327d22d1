"""Changes played on streams of files: old SQL over half of the input, then the new one."""

import importlib.util
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from tests.checkpoint_files import opened
from tests.spark.compatibility.change import Base, Change
from tests.spark.compatibility.frames import make_frames
from tests.spark.compatibility.nexmark import FOLDER
from tests.spark.compatibility.views import ALIASES, STREAMS, make_tables
from tests.spark.migrations import Rows, lay_out

from ashore.plans.change.judge import judge_query
from ashore.plans.change.rewriting import StateRewrite, plan_rewrite
from ashore.plans.change.verdicts import QueryVerdict
from ashore.plans.graph import StoredPlan
from ashore.plans.text import normalise_sql
from ashore.queries.spark.internals.reading import check_streaming
from ashore.queries.spark.state.rewrite import Migration, NewQuery, migrate
from ashore.queries.state.rescaling import finish

ROWS, HALF_ROWS = 306, 153  # HALF in change.py is the time of the first row of the second half
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HALF = BEGIN + timedelta(minutes=HALF_ROWS)
EVENTS, STEP_MS = 2_000, 100
Record = Mapping[str, object]


class Played:
    """Queries over streams of files, each in two halves."""

    def __init__(self, session: SparkSession, home: Path) -> None:
        self.session, self.home = session, home
        self._whole: dict[tuple[str, str], Rows] = {}
        self._old: dict[tuple[str, str], Path] = {}
        self._runs = 0
        make_tables(session)
        for name, rows in _streams().items():
            (home / name).mkdir(parents=True)
            event_time = STREAMS[name][1] or ("seen" if name == "other" else "ts")
            halves: tuple[list[Record], list[Record]] = [], []
            for row in rows:
                halves[datetime.fromisoformat(str(row[event_time])) >= HALF].append(row)
            (home / name / "0.json").write_text(_lines(halves[0]), "utf-8")
            (home / name / "_1.json").write_text(_lines(halves[1]), "utf-8")

    def frame(self, sql: str) -> DataFrame:
        for name, (schema, event_time) in STREAMS.items():
            reader = self.session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
            frame = reader.json(str(self.home / name))
            if event_time:
                frame = frame.withWatermark(event_time, "10 seconds")
            frame.createOrReplaceTempView(name)
        for name, (stream, schema) in ALIASES.items():
            reader = self.session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
            reader.json(str(self.home / stream)).createOrReplaceTempView(name)
        make_frames(self.session)
        return self.session.sql(_same_time(sql))

    def plan(self, sql: str, mode: str) -> StoredPlan:
        graph = check_streaming(self.frame(sql), mode)
        return StoredPlan("one", (normalise_sql(sql),), (), graph)

    def judge(self, base: Base, change: Change) -> QueryVerdict:
        old, new = base.old(change), base.new(change)
        return judge_query(self.plan(old, base.mode), self.plan(new, base.mode))

    def rewrite(self, base: Base, change: Change, verdict: QueryVerdict) -> StateRewrite:
        """Return how the state is rewritten. Raises QueryRefused."""
        old, new = (self.plan(sql, base.mode) for sql in (base.old(change), base.new(change)))
        return plan_rewrite(old, new, verdict)

    def go_on(self, base: Base, change: Change, rewrite: StateRewrite) -> Rows:
        """Return what the new SQL emits of the second half, with the state of the old SQL."""
        one = opened(self._after_half(base.old(change), base.mode))
        other = opened(self._home("new"))
        batch = one.read_position().committed
        lay_out(one, other, batch)
        query = NewQuery(self.frame(base.new(change)), base.mode)
        migrate(self.session, Migration(one, other, batch, rewrite), query, lambda _event: None)
        finish(one, other)
        return self._second(base.new(change), base.mode, Path(other.uri.removeprefix("file://")))

    def go_on_as_it_is(self, old: str, new: str, mode: str) -> Rows:
        """Return what other SQL emits of the second half, with the state of the old SQL as it is.

        Raises what Spark raises where it refuses that.
        """
        copy = self._home("copied")
        shutil.copytree(self._after_half(old, mode), copy)
        return self._second(new, mode, copy)

    def whole(self, sql: str, mode: str) -> Rows:
        """Return what a query emits of the second half that has seen the first."""
        if (sql, mode) not in self._whole:
            checkpoint = self._after_half(sql, mode)
            self._old.pop((sql, mode))  # it goes on
            self._whole[sql, mode] = self._second(sql, mode, checkpoint)
        return self._whole[sql, mode]

    def _after_half(self, sql: str, mode: str) -> Path:
        if (sql, mode) not in self._old:
            home = self._old[sql, mode] = self._home("old")
            self._run(sql, mode, home)
        return self._old[sql, mode]

    def _second(self, sql: str, mode: str, checkpoint: Path) -> Rows:
        for name in STREAMS:  # a name that begins with _ is not read
            (self.home / name / "_1.json").rename(self.home / name / "1.json")
        try:
            return self._run(sql, mode, checkpoint)
        finally:
            for name in STREAMS:
                (self.home / name / "1.json").rename(self.home / name / "_1.json")

    def _run(self, sql: str, mode: str, checkpoint: Path) -> Rows:
        found: Rows = []

        def take(rows: DataFrame, _batch: int) -> None:
            found.extend(tuple(_rounded(value) for value in row) for row in rows.collect())

        writer = self.frame(sql).writeStream.outputMode(mode).foreachBatch(take)
        writer = writer.option("checkpointLocation", checkpoint.as_uri())
        writer.trigger(availableNow=True).start().awaitTermination()
        return sorted(found, key=str)

    def _home(self, name: str) -> Path:
        self._runs += 1
        return self.home / f"{name}-{self._runs}"


def _same_time(sql: str) -> str:
    """Let windows of the clock be so long that a run has but one of them."""
    before, clock, after = sql.partition("current_timestamp(), '")
    return f"{before}{clock}36{after.replace(' seconds', '00 days', 1)}" if clock else sql


def _rounded(value: object) -> object:
    match value:
        case float():
            return round(value, 6)
        case list():
            return sorted(value, key=str)
        case _:
            return value


def _lines(rows: Sequence[Record]) -> str:
    return "\n".join(json.dumps(row) for row in rows)


def _streams() -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {name: [] for name in STREAMS}
    for number in range(ROWS):
        at = (BEGIN + timedelta(minutes=number)).isoformat()
        country = ("DE", "FR", "IT")[number // 6 % 3]
        click = {"id": number % 20, "country": country, "ts": at, "amount": number / 4}
        view = {"id": number % 20, "page": country, "seen": at}
        for name, row in (("clicks", click), ("plain", click), ("views", view), ("other", view)):
            found[name].append(row)
    generator = _load_generator()
    moved = HALF - generator.FIRST_TIME - timedelta(milliseconds=EVENTS // 2 * STEP_MS)
    for topic, record in generator.generate(EVENTS, step_ms=STEP_MS):
        for column in ("date_time", "expires"):
            if column in record:
                at = datetime.fromisoformat(record[column]) + moved
                record[column] = at.isoformat(timespec="milliseconds")
        found[topic].append(record)
    return found


def _load_generator():
    spec = importlib.util.spec_from_file_location("nexmark_made_up", FOLDER / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
