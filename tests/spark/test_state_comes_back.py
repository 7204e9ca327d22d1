"""State that comes back: whatever is done to a checkpoint, the results are those of one run.

A seed makes a sequence of: records come; the query is killed after a batch that its sink has and
before Spark says that it is done; a savepoint is taken, and the checkpoint deleted and restored
elsewhere; an older savepoint is restored, and the sink goes back with it; the checkpoint is rolled
back to an earlier batch, and the sink too; the state is rescaled, and rescaled again; what nothing
refers to is deleted. Between any two the checkpoint is inspected.
"""

import itertools
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.checkpoint_files import opened
from tests.spark.programs import QUERIES, Program, Rows, Use, conf, rescaled

from ashore.base.clock import SystemClock
from ashore.log.plan_query import CheckpointPosition
from ashore.queries.state.checkpoint import copy_checkpoint
from ashore.queries.state.savepoints.save import open_shelf
from ashore.queries.state.survey import take_survey
from ashore.queries.tools import savepoints
from ashore.queries.tools.clean_checkpoint import GarbageTally, clean
from ashore.queries.tools.inspect import inspect

CLOCK = SystemClock()
NO_AGE_MS = -60_000  # of what may be deleted: all that is there, whatever the clock of the files
# Columns by which a query that updates says that a row replaces another.
KEYS = {"aggregate": 1, "total": 0, "window": 2, "two operators": 1}


ACTS = (
    "kill",
    "save_and_restore",
    "restore_older",
    "roll_back",
    "rescale_up",
    "rescale_down",
    "clean",
    "come",
)


def quiet(_done: int, _total: int) -> None:
    pass


class Story:
    """One query, where its checkpoint is now, and what its sink holds by batch."""

    def __init__(self, spark: SparkSession, home: Path, kind: str, seed: int) -> None:
        self.program = Program(spark, home / "program", kind)
        self.kind = kind
        self.home = home
        self.dice = random.Random(f"{kind} {seed}")
        self.checkpoint = home / "checkpoint-0"
        self.sink: dict[int, list[str]] = {}
        self.saved: list[tuple[str, int]] = []
        self.told: list[str] = []

    def play(self, acts: Sequence[str] = ACTS) -> None:
        """Do so in the order of a seed; where it is all, rescale again at the end."""
        self.come()
        self.save()
        again = ["rescale_up"] if acts is ACTS else []
        for name in [*self.dice.sample(acts, len(acts)), *again]:
            self.told.append(name)
            act: Callable[[], None] = getattr(self, name)
            act()
            self.inspect()
        self.come()

    def come(self) -> None:
        self.program.put()
        self.run()

    def run(self) -> None:
        self.sink.update(dict(self.program.run(self.checkpoint)))

    def kill(self) -> None:
        """Let the last batch be one that Spark has to run again: the sink gets it twice."""
        self.come()
        last = take_survey(opened(self.checkpoint)).done[-1]
        for name in (str(last), f".{last}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)
        self.run()

    def save(self) -> None:
        shelf = open_shelf(str(self.home / "shelf"), CLOCK, links=self.flip())
        saved = savepoints.take_savepoint(opened(self.checkpoint), None, shelf, CLOCK, quiet)
        self.saved.append((saved.savepoint.place, saved.manifest.batch))

    def save_and_restore(self) -> None:
        self.save()
        self.restore(-1)

    def restore_older(self) -> None:
        """Go back: the sink gives up what came after, and it comes again."""
        _, batch = self.saved[0]
        self.restore(0)
        self.give_up_after(batch)
        self.run()

    def roll_back(self) -> None:
        """Go back to the batch before the last one, as `ashore roll-back` cuts a checkpoint."""
        self.come()
        old = opened(self.checkpoint)
        *_, batch, _ = old.list_finished()
        self.checkpoint = self.new_directory()
        upto = CheckpointPosition(old.read_query_id(), batch, batch)
        copy_checkpoint(old, opened(self.checkpoint), upto)
        self.give_up_after(batch)
        self.run()

    def clean(self) -> None:
        """Delete what nothing refers to, however young; a second time there is nothing."""
        before = self.read_position()
        clean(str(self.checkpoint), None, NO_AGE_MS, CLOCK, explain=False)
        assert self.read_position() == before
        left = clean(str(self.checkpoint), None, NO_AGE_MS, CLOCK, explain=True)
        assert left.total == GarbageTally()

    def read_position(self) -> CheckpointPosition:
        return opened(self.checkpoint).read_position()

    def give_up_after(self, batch: int) -> None:
        self.sink = {number: rows for number, rows in self.sink.items() if number <= batch}

    def restore(self, which: int) -> None:
        place, _ = self.saved[which]
        shutil.rmtree(self.checkpoint)
        self.checkpoint = self.new_directory()
        savepoints.restore_savepoint(
            savepoints.find_savepoint(place, CLOCK),
            str(self.checkpoint),
            CLOCK,
            quiet,
            links=self.flip(),
        )

    def rescale_up(self) -> None:
        self.rescale(self.partitions() + 1)

    def rescale_down(self) -> None:
        self.rescale(self.partitions() - 1 or 3)

    def rescale(self, wanted: int) -> None:
        self.checkpoint = rescaled(
            self.program.spark, self.checkpoint, wanted, self.new_directory()
        )

    def inspect(self) -> None:
        found = inspect(str(self.checkpoint), None, None, CLOCK)
        assert found.batch == max(self.sink, default=0) or found.batch in self.sink
        assert found.operators

    def partitions(self) -> int:
        settings = take_survey(opened(self.checkpoint)).required.offsets.settings
        assert settings is not None
        assert settings.partitions is not None
        return settings.partitions

    def flip(self) -> bool:
        return self.dice.random() < 0.5

    def new_directory(self) -> Path:
        number = int(self.checkpoint.name.rpartition("-")[2]) + 1
        return self.checkpoint.with_name(f"checkpoint-{number}")


def final(kind: str, sink: Rows) -> list[str]:
    """What a table holds in the end: the last row of each key, or all rows."""
    rows = [row for _, some in sorted(sink) for row in some]
    if kind not in KEYS:
        return sorted(rows)
    latest = {tuple(key_of(row, KEYS[kind])): row for row in rows}
    return sorted(latest.values())


def key_of(row: str, columns: int) -> list[str]:
    return split_row(row)[:columns]


def split_row(row: str) -> list[str]:
    """Return the columns of a row as text: a window is a column with commas in it."""
    parts, depth, start = [], 0, 1
    for place, character in enumerate(row):
        depth += (character in "([") - (character in ")]")
        if (character == "," and depth == 1) or (character == ")" and depth == 0):
            parts.append(row[start:place].strip())
            start = place + 1
    return parts


def test_rows_are_split_by_their_columns() -> None:
    assert split_row("(Row(a=f(1, 2), b=3), 'x', 7)") == ["Row(a=f(1, 2), b=3)", "'x'", "7"]
    assert split_row("(1,)") == ["1", ""]


TOGETHER = 2  # acts of each kind, of which a part is played every day: together, everything
PARTS = {
    kind: [ACTS[(TOGETHER * number + each) % len(ACTS)] for each in range(TOGETHER)]
    for number, kind in enumerate(QUERIES)
}


@pytest.mark.long  # every day a part of each kind, below
@pytest.mark.parametrize(
    ("kind", "state_format", "seed"), [*itertools.product(QUERIES, (1, 2), (1, 2))]
)
def test_whatever_is_done_to_a_checkpoint_the_results_are_those_of_one_run(
    spark: SparkSession, use: Use, tmp_path: Path, kind: str, state_format: int, seed: int
) -> None:
    use(conf(state_format))
    story = Story(spark, tmp_path, kind, seed)
    story.play()
    require_one_run(story)


@pytest.mark.thirds
@pytest.mark.parametrize("kind", PARTS)
def test_a_part_of_it_leaves_every_kind_of_state_as_in_one_run(
    spark: SparkSession, use: Use, tmp_path: Path, kind: str
) -> None:
    use(conf())
    story = Story(spark, tmp_path, kind, seed=1)
    story.play(PARTS[kind])
    require_one_run(story)


def test_the_parts_are_of_every_kind_and_do_everything() -> None:
    assert {*PARTS} == {*QUERIES}
    assert {act for part in PARTS.values() for act in part} == {*ACTS}


def require_one_run(story: Story) -> None:
    expected = final(story.kind, story.program.run(story.home / "one run"))
    assert expected
    assert final(story.kind, list(story.sink.items())) == expected, story.told
