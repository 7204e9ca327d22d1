"""`ashore migrate`: SQL of a job is changed, looked at, taken back and changed again."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from tests.spark.site import Site
from tests.spark.sql_jobs import (
    MINUTE_MS,
    PER_MINUTE,
    PER_MINUTE_TABLE,
    START_MS,
    Click,
    clicks,
    encode,
    plan_here,
    read_only,
    run,
    sql_job,
)
from typer.testing import CliRunner

from ashore.cli.app import app
from ashore.errors import QueryRefused, StateNotAccepted
from ashore.log.entries import Migrate
from ashore.log.names import SliceName, checkpoint_directory
from ashore.log.store.reader import read_history, read_log
from ashore.queries.change.check import judge_change
from ashore.queries.change.plan import ApplyOptions, plan_change
from ashore.queries.state.attempts import Attempts
from ashore.topics.open_job import open_job

NAME = SliceName("landing", "ods__per_minute")
WRONG = PER_MINUTE.replace("FROM clicks", "FROM clicks WHERE country = 'CN'")
# One more function in the state, and one more column in the table.
RIGHT = PER_MINUTE.replace("AS ids", "AS ids, max(id) AS last").replace(
    "FROM clicks", "FROM clicks WHERE country = 'DE'"
)

BOTH = " UNION ALL ".join(
    f"SELECT id, country, event_time FROM {each}" for each in ("views", "clicks")
)


def migrate(*arguments: object, code: int = 0) -> dict[str, object]:
    result = CliRunner().invoke(app, ["migrate", *map(str, arguments), "--json"])
    assert result.exit_code == code, result.output
    found: dict[str, object] = json.loads(result.stdout)
    return found


def totals(records: list[Click], country: str) -> dict[int, tuple[int, int]]:
    """Clicks and ids of a country, by the start of a minute."""
    found: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for number, of, at_ms in records:
        if of == country:
            minute = at_ms // MINUTE_MS * MINUTE_MS
            count, ids = found[minute]
            found[minute] = (count + 1, ids + number)
    return dict(found)


def landed(site: Site) -> dict[tuple[int, str], tuple[int, int]]:
    """What stands in the table. Fails where a minute appears twice."""
    columns = ("unix_millis(minute) AS at", "country", "clicks", "ids")
    rows = site.read("ods.per_minute").selectExpr(*columns).collect()
    found = {(row.at, row.country): (row.clicks, row.ids) for row in rows}
    assert len(found) == len(rows), "a minute appears twice"
    return found


def expected(records: list[Click], country: str, upto_ms: int) -> dict[tuple[int, str], object]:
    return {
        (at_ms, country): found
        for at_ms, found in totals(records, country).items()
        if at_ms + MINUTE_MS <= upto_ms
    }


@pytest.mark.thirds("a job whose checkpoint is changed")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("again", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_wrong_filter_is_changed_looked_at_undone_and_changed_again(
    site: Site, *, again: bool
) -> None:
    """Every day up to the undo; then the job continues by the old SQL."""
    topic = site.topic(1)
    tables = (read_only(topic), PER_MINUTE_TABLE)
    first, second = clicks(0, 100), clicks(100, 100)
    site.produce(topic, encode(first))
    old = sql_job(site, WRONG, *tables).rename(site.directory / "old.yaml")
    run(site, old)
    before = landed(site)
    assert before == expected(first, "CN", START_MS + MINUTE_MS)
    new = sql_job(site, RIGHT, *tables).rename(site.directory / "new.yaml")

    mapping = site.directory / "mapping.yaml"
    asked = ("apply", old, "--to", new, "--take-over", "--why", "wrong country")
    end = read_log(site.storage, NAME).end
    with open_job(old) as opened, open_job(new) as other:
        judged = judge_change(opened, lambda _: plan_here(site, new))
        with pytest.raises(StateNotAccepted):
            plan_change(opened, other, judged, ApplyOptions("convert", (), ""))
    shown = migrate(*asked, "--accept", "partial", "--explain")
    assert (shown["done"], shown["applied"]) == (False, [])
    assert [each["rewrite"] for each in shown["planned"][0]["operators"]] == ["recode"]
    assert read_log(site.storage, NAME).end == end, "nothing was appended"
    pins = [{"old": each["old"], "new": each["new"]} for each in shown["mapping"]]
    mapping.write_text(json.dumps({"pin": pins, "forbid": []}), "utf-8")  # JSON is YAML

    attempt = newest_attempt(site)
    done = migrate(*asked, "--accept", "partial", "--mapping", mapping)
    (applied,) = done["applied"]
    (stores,) = applied["stores"]
    assert stores["before"] == stores["after"] > 0
    assert newest_attempt(site) != attempt
    assert Path(applied["savepoint"].removeprefix("file://")).is_dir()
    entry = migrations(site)[-1]
    assert (entry.why, entry.savepoint) == ("wrong country", applied["savepoint"])
    assert [{"old": each.old, "new": each.new} for each in entry.pinned] == pins

    with pytest.raises(QueryRefused):  # the old SQL is not that of the state
        run(site, old)
    site.produce(topic, encode(second))
    run(site, new)
    after = landed(site)
    assert after == {**before, **mixed(first, second)}

    nothing = migrate("undo", new, "--take-over", code=2)
    assert "since the migration" in nothing["error"]["message"]
    back = ("undo", new, "--output", "roll-back", "--take-over")
    assert migrate(*back, "--explain")["rows"] == len(after) - len(before)
    require_its_savepoint(back, applied["savepoint"])
    undone = migrate(*back)
    assert (undone["done"], undone["rows"]) == (True, len(after) - len(before))
    assert landed(site) == before
    run(site, old)
    assert landed(site) == expected([*first, *second], "CN", START_MS + 3 * MINUTE_MS)
    assert "no query" in migrate("undo", old, "--take-over", code=2)["error"]["message"]

    if again:
        change_again(site, topic, asked, new, pins)


def require_its_savepoint(undo: tuple[object, ...], place: str) -> None:
    """Undo changes nothing where the savepoint of the migration is gone."""
    savepoint = Path(place.removeprefix("file://"))
    hidden = savepoint.rename(savepoint.with_name("hidden"))
    gone = migrate(*undo, code=4)["error"]
    assert (gone["why"], "migrate apply" in gone["hint"]) == ("no_savepoint", True)
    hidden.rename(savepoint)


def change_again(
    site: Site, topic: str, asked: tuple[object, ...], new: Path, pins: list[dict[str, object]]
) -> None:
    """Apply again, with three partitions: refused while the new job file names a number itself."""
    asked = (*asked, "--accept", "partial", "--partitions", 3)
    assert "state_partitions: 2" in migrate(*asked, code=2)["error"]["message"]
    tables, free = (read_only(topic), PER_MINUTE_TABLE), {"text": RIGHT, "refresh": "1m"}
    sql_job(site, RIGHT, *tables, sql=free).rename(new)
    done = migrate(*asked)
    assert done["planned"][0]["partitions"] == 3
    assert (done["done"], done["queries"][0]["edits"]["pin"]) == (True, pins), "it was kept"
    third, minute = clicks(200, 100), START_MS + 3 * MINUTE_MS
    site.produce(topic, encode(third))
    run(site, new)
    assert len(migrations(site)) == 3
    assert landed(site)[minute, "DE"] == totals(third, "DE")[minute]


def mixed(first: list[Click], second: list[Click]) -> dict[tuple[int, str], object]:
    """What both filters together count of the minutes that end after the migration."""
    upto_ms = START_MS + 3 * MINUTE_MS
    kept = {
        key: found
        for key, found in expected(first, "CN", upto_ms).items()
        if key[0] >= START_MS + MINUTE_MS
    }
    return {**kept, **expected(second, "DE", upto_ms)}


def newest_attempt(site: Site) -> str:
    newest = Attempts(
        site.storage,
        checkpoint_directory(NAME),
        "",
        lambda: read_log(site.storage, NAME).attempt,
    ).newest()
    assert newest is not None
    return newest.path


def migrations(site: Site) -> list[Migrate]:
    found = (each.body for each in read_history(site.storage, NAME))
    return [
        each if isinstance(each, Migrate) else each.undo
        for each in found
        if isinstance(each, Migrate) or getattr(each, "undo", None) is not None
    ]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_topic_comes_in_front_and_begins_where_it_is_told_to(site: Site) -> None:
    topics = [site.topic(1), site.topic(1)]
    clicked = read_only(topics[0])
    viewed = read_only(topics[1], "views")
    first, second = clicks(0, 100), clicks(100, 100)
    site.produce(topics[0], encode(first))
    site.produce(topics[1], encode(first))
    old = sql_job(site, PER_MINUTE, clicked, PER_MINUTE_TABLE)
    old = old.rename(site.directory / "old.yaml")
    run(site, old)
    both = PER_MINUTE.replace("FROM clicks", f"FROM ({BOTH})")
    new = sql_job(site, both, clicked, viewed, PER_MINUTE_TABLE)
    new = new.rename(site.directory / "new.yaml")

    asked = ("apply", old, "--to", new, "--take-over", "--accept", "partial")
    wrong = migrate(*asked, "--begin", f"{topics[1]}/0=4000", code=2)
    assert "[0, 100)" in wrong["error"]["message"]
    unused = migrate(*asked, "--begin", f"{topics[0]}=latest", code=2)
    assert "for the first time" in unused["error"]["message"]
    done = migrate(*asked, "--begin", f"{topics[1]}/0=70")
    assert done["planned"][0]["begins"] == {topics[1]: {"0": 70}}
    (stores,) = done["applied"][0]["stores"]
    assert (stores["rewrite"], stores["after"]) == ("keep", None), "no row was read"

    for topic in topics:
        site.produce(topic, encode(second))
    run(site, new)
    found = landed(site)
    minute, last = START_MS + MINUTE_MS, START_MS + 2 * MINUTE_MS
    once, twice = totals([*first, *second], "DE"), totals([*first[70:], *second], "DE")
    for at_ms in (minute, last):
        assert found[at_ms, "DE"] == tuple(
            one + other for one, other in zip(once[at_ms], twice[at_ms], strict=True)
        )
    assert found[START_MS, "DE"] == totals(first, "DE")[START_MS]
