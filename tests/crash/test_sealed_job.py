"""Deferred actions are completed, whatever call of storage, catalog or HTTP a fault strikes."""

import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest
from tests.crash import sealed_job
from tests.crash.harness import FAULTS, find_failures, require_none_fails
from tests.crash.sealed_job import Document, SealedWorld
from tests.marks import but

from ashore.log import names
from ashore.log.entries import Closing, DeferredAction, Seal
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.log.plan_commit import Tried, complete_deferred
from ashore.log.positions import BatchTime
from ashore.log.store import entry_writer
from ashore.log.store.effects import Effects, Sealer, success_content
from ashore.topics.loop import job_loop
from ashore_lab.testing import ProcessStopped
from ashore_lab.testing.faults import CATALOG_CALLS

BY_NEAR = {"fails before", "late at the end", "stops after"}  # every day; by `seal` the others


class Listener(BaseHTTPRequestHandler):
    """Keeps what it is told."""

    reported: ClassVar[list[Document]] = []

    def do_POST(self) -> None:
        self.reported.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None: ...


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Listener) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}/sealed"
        server.shutdown()
        serving.join()


class NoPause:
    """Waits between the ticks of a job that take no time."""

    def __init__(self, *_bounds_s: float) -> None: ...

    def delays_s(self, _jitter: object) -> Iterator[float]:
        while True:
            yield 0.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_loop, "Backoff", NoPause)


@pytest.fixture(autouse=True)
def stops_end_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is stopped in a thread of a slice has nobody to tell it to."""
    report = threading.excepthook

    def hook(ended: threading.ExceptHookArgs) -> None:
        if not isinstance(ended.exc_value, ProcessStopped):
            report(ended)

    monkeypatch.setattr(threading, "excepthook", hook)


@pytest.fixture(params=["near", "seal"])
def new_world(request: pytest.FixtureRequest, address: str) -> Callable[[], SealedWorld]:
    return lambda: SealedWorld(request.param == "seal", address, Listener.reported)


def test_the_job_makes_every_kind_of_call(new_world: Callable[[], SealedWorld]) -> None:
    first, second, third = sealed_job.number_calls(new_world)
    kinds = {call.kind for call in (*second, *third)}
    calls = CATALOG_CALLS - {"drop_partitions"}  # which only `retire` does
    assert kinds >= calls | {"create", "publish", "stat", "list", "read", "sync", "post"}
    assert first[-1].kind in CATALOG_CALLS


@pytest.mark.parametrize(
    ("new_world", "fault"),
    but(
        pytest.mark.long,
        itertools.product(["near", "seal"], FAULTS),
        lambda strategy, fault: (strategy == "near") == (fault in BY_NEAR),
    ),
    indirect=["new_world"],
)
def test_every_call(new_world: Callable[[], SealedWorld], fault: str) -> None:
    require_none_fails(sealed_job.cases(new_world, FAULTS[fault]))


# ---- a suite that cannot turn red proves nothing


def take_failures_for_done(patch: pytest.MonkeyPatch) -> None:
    run = Effects.run

    def careless(self: Effects, deferred: Sequence[DeferredAction]) -> Tried:
        run(self, deferred)
        return Tried(frozenset(each.id for each in deferred))

    patch.setattr(Effects, "run", careless)


def forget_what_is_deferred(patch: pytest.MonkeyPatch) -> None:
    """Do what the entry just finished defers, and nothing that was put off."""
    patch.setattr(entry_writer, "find_due", lambda _known, closing: closing.deferred)


def publish_before_the_entry(patch: pytest.MonkeyPatch) -> None:
    plan = Sealer.plan

    def hasty(self: Sealer, name: SliceName, fold: Fold, time: BatchTime) -> Seal | None:
        seal = plan(self, name, fold, time)
        for each in seal.partitions if seal else ():
            deferred = DeferredAction(
                "", "success_file", each.table, each.partition, each.version, each.rows
            )
            path = f"ods.db/clicks/{each.partition}/{names.success_name(each.version)}"
            self.storage.create(path, success_content(name.job, deferred))
        return seal

    patch.setattr(Sealer, "plan", hasty)


def close_before_the_effects(patch: pytest.MonkeyPatch) -> None:
    """Tell in the closing entry that nothing is deferred, and then do it."""

    def hasty(known: Mapping[str, DeferredAction], closing: Closing, tried: Tried) -> Closing:
        return replace(complete_deferred(known, closing, tried), deferred=(), failed=())

    patch.setattr(entry_writer, "complete_deferred", hasty)


MISSING = "not registered|not the seals|not every|the catalog has"
MUTATIONS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str, str]] = {
    "take failures for done": (take_failures_for_done, "fails before", MISSING),
    "forget what is deferred": (forget_what_is_deferred, "fails before", "defers"),
    "tell before the entry": (publish_before_the_entry, "stops before", "no entry seals"),
    "close before the effects": (
        close_before_the_effects,
        "fails before",
        "not the seals|not every",
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_found(name: str, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    mutate, fault, finds = MUTATIONS[name]
    mutate(monkeypatch)
    world = lambda: SealedWorld(False, address, Listener.reported)  # noqa: E731
    found = next(find_failures(sealed_job.cases(world, FAULTS[fault])), "nothing was found")
    assert re.search(finds, found), found
