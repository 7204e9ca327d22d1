"""Webhooks, with a real receiver: what is sent, signed, repeated, and owed by the next server."""

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.unit.proof.lakes import JOB, TABLE, Lake, make_lake

from ashore.fleet.operate.webhook import Webhook, WebhookAddress, notice_of
from ashore.fleet.records.journal import Happened, Journal
from ashore.fleet.records.server_files import ServerFiles
from ashore.fleet.server.job_watch import FleetWatch
from ashore.fleet.server.log_follower import LogFollower
from ashore.log.entries import Commit, Define, Seal, SealedPartition
from ashore.log.fold import Action
from ashore.log.tables import TableColumn, TableDefinition
from ashore_lab.testing import FakeClock

SECRET = b"a secret of two"
WITHIN_S = 60.0


@dataclass
class Receiver:
    """Takes what is posted to it. `answers`: the next statuses; then 200."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    got: list[dict[str, Any]] = field(default_factory=list)  # with status 200
    asked: list[tuple[str, str]] = field(default_factory=list)  # method, id
    changed: threading.Condition = field(default_factory=threading.Condition)

    def wait(self, count: int) -> list[dict[str, Any]]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.got) >= count, WITHIN_S), self.asked
        return self.got


@contextmanager
def receiving(port: int = 0) -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.take(b"")

        def do_POST(self) -> None:
            self.take(self.rfile.read(int(self.headers["content-length"])))

        def take(self, body: bytes) -> None:
            with receiver.changed:
                status = receiver.answers.pop(0) if receiver.answers else 200
                receiver.asked.append((self.command, self.headers.get("ashore-event", "")))
                if status == 200:
                    at, digest = self.headers["ashore-signature"].split(",")
                    signed = at.removeprefix("t=").encode() + b"." + body
                    wanted = hmac.new(SECRET, signed, hashlib.sha256).hexdigest()
                    is_signed = digest == f"v1={wanted}"
                    receiver.got.append({**json.loads(body), "is_signed": is_signed})
                receiver.changed.notify_all()
            self.send_response(status)
            self.send_header("content-length", "0")
            if status == 302:
                self.send_header("location", receiver.url)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}/events"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def sending(directory: Path, url: str) -> Iterator[Webhook]:
    hook = Webhook(directory, WebhookAddress(url, SECRET), first_wait_s=0.01)
    hook.start()
    try:
        yield hook
    finally:
        hook.end()


def phase(number: int) -> dict[str, object]:
    run = {"run": f"run-{number}", "digest": "d", "why": "files are gone", "hint": "recover"}
    return {"event": "phase", "job": "clicks", "phase": "needs-decision", "at_ms": number, **run}


def test_events_arrive_signed_and_in_order(tmp_path: Path) -> None:
    with receiving() as receiver, sending(tmp_path, receiver.url) as hook:
        for number in range(3):
            assert hook.take(phase(number))
        got = receiver.wait(3)
    assert [(each["at_ms"], each["type"]) for each in got] == [
        (number, "needs_decision") for number in range(3)
    ]
    assert all(each["is_signed"] for each in got)
    assert [each["id"] for each in got] == [asked for _, asked in receiver.asked]
    assert hook.pending() == 0


def test_what_is_refused_is_sent_again_and_nothing_overtakes_it(tmp_path: Path) -> None:
    with receiving() as receiver:
        receiver.answers += [500, 404, 302]
        with sending(tmp_path, receiver.url) as hook:
            hook.take(phase(1))
            hook.take(phase(2))
            first, second = (each["id"] for each in receiver.wait(2))
    assert receiver.asked == [("POST", first)] * 4 + [("POST", second)], (
        "a redirect is not followed"
    )


def test_the_next_server_sends_what_is_owed(tmp_path: Path) -> None:
    with receiving() as receiver:
        url, port = receiver.url, int(receiver.url.split(":")[2].split("/")[0])
    with sending(tmp_path, url) as hook:  # nobody listens
        hook.take(phase(1))
        hook.take({"event": "phase", "job": "clicks", "phase": "running", "at_ms": 2})
        assert hook.pending() == 1, "of a job that runs nobody is told"
    with receiving(port) as receiver, sending(tmp_path, url) as hook:
        hook.take(phase(3))
        assert [each["at_ms"] for each in receiver.wait(2)] == [1, 3]


def test_what_is_told_again_has_the_same_id_and_another_end_has_another(tmp_path: Path) -> None:
    with receiving() as receiver, sending(tmp_path, receiver.url) as hook:
        again, other = {"at_ms": 2, "before": None}, {"at_ms": 3}  # they go in order of time
        for each in (phase(1), {**phase(1), **again}, {**phase(2), **other}):
            hook.take(each)
        ids = [each["id"] for each in receiver.wait(3)]
    assert ids[0] == ids[1] != ids[2]


def test_an_event_that_a_full_disk_does_not_take_is_sent_all_the_same(tmp_path: Path) -> None:
    directory = tmp_path / "deliveries"
    with receiving() as receiver:
        hook = Webhook(directory, WebhookAddress(receiver.url, SECRET))
        directory.rmdir()
        assert not hook.take(phase(1)), "it is not kept"
        assert (hook.deliver(), hook.pending()) == (False, 1)
        directory.mkdir()
        assert (hook.deliver(), hook.pending()) == (True, 0)
        assert [each["at_ms"] for each in receiver.got] == [1]


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        *(
            ({"event": "phase", "phase": each}, "needs_decision")
            for each in ("needs-decision", "invalid", "fenced", "missing")
        ),
        ({"event": "phase", "phase": "backing-off"}, None),
        ({"event": "ended", "error": "files-lost"}, "lost"),
        ({"event": "ended", "error": "log-lost"}, "lost"),
        ({"event": "ended", "error": "schema-conflict"}, "schema_change"),
        ({"event": "ended", "error": ""}, None),
        ({"event": "sealed"}, "sealed"),
        ({"event": "schema"}, "schema_change"),
        ({"event": "adopted"}, None),
    ],
)
def test_what_others_are_told(event: dict[str, object], kind: str | None) -> None:
    assert notice_of(event) == kind


# --- from the log --------------------------------------------------------------------------------


def seal(*partitions: str) -> Seal:
    found = tuple(SealedPartition(TABLE, each, 1, 10, 10, 0) for each in partitions)
    return Seal(found, (Action.SUCCESS_FILE,), ())


def definition(*columns: str) -> Define:
    found = tuple(TableColumn(each, "BIGINT", nullable=True) for each in columns)
    return Define((TableDefinition(TABLE, found, (), "UTC", "parquet", True, ()),), (), "")


class Followers:
    """Servers of one state directory that follow one lake, one after the other."""

    def __init__(self, directory: Path, lake: Lake) -> None:
        self.files = ServerFiles.of(directory)
        self.files.make()
        self.lake = lake
        self.told: list[Happened] = []
        self.is_full = False
        self.next()

    def next(self) -> None:
        """Kill the server: another one begins."""
        self.follower = LogFollower(self.files, self.take, self.lake.clock)

    def take(self, happened: Happened) -> bool:
        if not self.is_full:
            self.told.append(happened)
        return not self.is_full

    def follow(self) -> list[tuple[str, int]]:
        """Return what is told by now: kind, and entry."""
        self.follower.follow("clicks", self.lake.opened())
        told = [(each.kind, int(str(each.fields["entry"]))) for each in self.told]
        self.told.clear()
        return told


@pytest.fixture
def lake() -> Lake:
    return make_lake()


@pytest.fixture
def followers(tmp_path: Path, lake: Lake) -> Followers:
    lake.append(definition("id"))
    lake.append(seal("date=2026-11-01"))
    lake.clock.advance(1)
    found = Followers(tmp_path, lake)
    assert found.follow() == [], "what was there before is not told"
    return found


def test_seals_are_told_once_also_those_of_a_time_without_a_server(
    followers: Followers, lake: Lake
) -> None:
    first = lake.append(seal("date=2026-11-21", "date=2026-11-22"))
    assert followers.follow() == [("sealed", first.number)]
    lake.append(Commit("idle"))
    assert followers.follow() == []
    second = lake.append(seal("date=2026-11-23"))
    followers.next()
    assert followers.follow() == [("sealed", second.number)]
    followers.next()
    assert followers.follow() == []


def test_what_is_not_kept_is_told_again_with_the_same_id(followers: Followers, lake: Lake) -> None:
    first, second = lake.append(seal("date=2026-11-21")), lake.append(seal("date=2026-11-22"))
    followers.is_full = True
    with pytest.raises(OSError, match="cannot be kept"):
        followers.follow()
    followers.is_full = False
    assert followers.follow() == [("sealed", first.number), ("sealed", second.number)]


def test_a_server_that_dies_before_it_notes_how_far_it_is_tells_again(
    followers: Followers, lake: Lake
) -> None:
    path = followers.files.run_of("clicks").followed
    before = path.read_bytes()
    entry = lake.append(seal("date=2026-11-21"))
    assert followers.follow() == [("sealed", entry.number)]
    path.write_bytes(before)
    followers.next()
    assert followers.follow() == [("sealed", entry.number)]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_schema_change_is_told_in_words(
    followers: Followers, lake: Lake, *, is_restarted: bool
) -> None:
    lake.append(definition("id", "country"))
    if is_restarted:
        followers.next()
    followers.follower.follow("clicks", lake.opened())
    (told,) = followers.told
    assert told.kind == "schema"
    assert told.fields["new"] == []
    (change,) = told.fields["changes"]  # type: ignore[misc]
    assert change.startswith(f"{TABLE}: column country")


def test_a_job_that_is_new_here_tells_of_its_first_entries(tmp_path: Path) -> None:
    lake = Lake()
    followers = Followers(tmp_path, lake)
    assert followers.follow() == []
    lake.open()
    entry = lake.append(definition("id"))
    followers.follower.follow("clicks", lake.opened())
    (told,) = followers.told
    assert (told.fields["entry"], told.fields["new"]) == (entry.number, [TABLE])


def test_a_long_absence_is_read_in_parts_and_a_log_made_anew_from_its_start(
    followers: Followers, lake: Lake
) -> None:
    numbers = [lake.append(seal(f"date={each}")).number for each in range(450)]
    assert followers.follow() == [("sealed", each) for each in numbers]
    other = Lake()
    other.clock.advance(lake.clock.monotonic_s() + 1000)
    followers.lake = other
    other.open()
    entry = other.append(seal("date=2026-11-21"))
    assert followers.follow() == [("sealed", entry.number)]


def test_a_sealed_partition_reaches_the_receiver_though_the_server_dies(
    tmp_path: Path, lake: Lake
) -> None:
    """The parts of a server, put together as it does, twice over the same state directory."""
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "clicks.yaml").write_text(JOB, "utf-8")
    files = ServerFiles.of(jobs)
    files.make()

    @contextmanager
    def opened(_path: Path) -> Iterator[Any]:
        yield lake.opened()

    def look(hook: Webhook) -> None:
        journal = Journal(files, webhook=hook.take)
        follower = LogFollower(files, journal.take, FakeClock())
        watch = FleetWatch(jobs, FakeClock(), opened, follow=follower.follow)
        watch.look()
        watch.close()

    with receiving() as receiver:
        hook = Webhook(files.deliveries, WebhookAddress(receiver.url, SECRET))
        look(hook)  # it knows the job from now on
        lake.append(seal("date=2026-11-21"))
        look(hook)
        assert hook.pending() == 1, "it dies before it has sent it"
        with sending(files.deliveries, receiver.url) as hook:
            look(hook)
            (got,) = receiver.wait(1)
    assert (got["type"], got["job"], got["table"]) == ("sealed", "clicks", TABLE)
    assert got["partitions"] == [{"partition": "date=2026-11-21", "version": 1, "rows": 10}]
    assert len(receiver.asked) == 1


def test_a_damaged_file_of_where_logs_were_read_to_begins_now(
    followers: Followers, lake: Lake
) -> None:
    followers.files.run_of("clicks").followed.write_text("{")
    lake.append(seal("date=2026-11-21"))
    lake.clock.advance(1)
    followers.next()
    assert followers.follow() == [], "nothing is told twice in bulk"
