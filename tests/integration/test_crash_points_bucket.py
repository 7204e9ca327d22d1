"""The crash points of the landing loop on real object stores: every call that moves a file.

The exhaustive suite is `tests/crash`, where a move is a rename. In a bucket it is a copy and a
delete. On Azurite the last entry of each life is struck, too: while s3proxy puts an object, it
lists another one, `NAME-UUID`, in the same directory, which no log has.
"""

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.azure import Azure
from tests.crash import storage_calls
from tests.crash.harness import Reference, World, explain, reference, report
from tests.crash.storage_calls import KEEPER_LIVES, Scenario, Strike, every_strike, small_world
from tests.shares import share_of

from ashore.base.clock import SystemClock
from ashore.log import names
from ashore.log.store import committer, log
from ashore.storage import open_storage
from ashore_lab.services.s3 import S3
from ashore_lab.testing import Call, FakeClock

HALF_HOUR_MS = 1_800_000
CASES_AT_ONCE = 4


@pytest.fixture(autouse=True, scope="module")
def short_log() -> Iterator[None]:
    """Let the calls be the same in every run, and few entries be enough for an archive."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(committer, "PARALLEL_MOVES", 1)
        patch.setattr(log, "SNAPSHOT_EVERY", 4)
        patch.setattr(names, "ARCHIVE_ENTRIES", 2)
        yield


@pytest.fixture(scope="module", params=["s3", "azure"])
def server(request: pytest.FixtureRequest) -> S3 | Azure:
    found: S3 | Azure = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def scenario(server: S3 | Azure) -> Scenario:
    def new_world() -> World:
        uri = f"{server.uri}/crash/{uuid.uuid4().hex}"
        storage = open_storage(uri, options=server.client_options())
        # Ahead of the server's clock, so that what lies there is old enough to be cleaned.
        return small_world(storage, FakeClock(SystemClock().now_ms() + HALF_HOUR_MS, 0.0))

    return Scenario(new_world, KEEPER_LIVES)


@pytest.fixture(scope="module")
def expected(scenario: Scenario) -> Reference:
    return reference(scenario.new_world())


@pytest.fixture(scope="module")
def calls(scenario: Scenario, server: S3 | Azure) -> list[tuple[int, Call]]:
    """Return every call that moves a file, and the last that appends an entry, of each life."""
    found: list[tuple[int, Call]] = []
    for life, made in enumerate(scenario.number_calls()):
        appended = [call for call in made if call.kind == "create"]
        found += [(life, call) for call in made if call.kind == "publish"]
        found += [(life, call) for call in appended[-1:]]
    if isinstance(server, S3):
        return [place for place in found if place[1].kind == "publish"]
    return found


@every_strike
def test_moves_and_entries(
    scenario: Scenario, expected: Reference, calls: list[tuple[int, Call]], strike: Strike
) -> None:
    def run(place: tuple[int, Call]) -> str | None:
        life, call = place
        what = storage_calls.describe(strike, life, call)
        return explain(what, lambda: scenario.run_case(strike, life, call, expected))

    with ThreadPoolExecutor(CASES_AT_ONCE) as pool:
        report(filter(None, pool.map(run, share_of(calls))))
