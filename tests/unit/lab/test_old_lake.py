"""The lake that stands for an earlier release: it is never written again, and any can be made."""

import hashlib
import json
from importlib.resources import files

import pytest
from tools.old_lakes import leave_lake

from ashore_lab.drills.recorder import Recorder
from ashore_lab.drills.scenarios.upgrade import OPTIONS, OldLake, load_old_lake
from ashore_lab.drills.sites.memory import MemorySite
from ashore_lab.testing import FakeClock

DIGESTS = {1: "b8d9f48aaf3241db61c6228713e3855561b415cc5ec2a691c0a3320efeb34c2d"}


@pytest.mark.parametrize("format_version", DIGESTS)
def test_an_old_lake_stays_what_it_is(format_version: int) -> None:
    path = files("ashore_lab.drills").joinpath("lakes", f"format-{format_version}.json")
    assert hashlib.sha256(path.read_bytes()).hexdigest() == DIGESTS[format_version]
    assert load_old_lake(format_version).format_version == format_version


def kinds(lake: OldLake) -> list[str]:
    """Return the kinds of the entries in the log of a lake, in their order."""
    return [json.loads(text)["kind"] for path, text in lake.files.items() if "/log/" in path]


def test_the_lake_of_this_release_is_left_in_the_midst_of_moves() -> None:
    lake, old = leave_lake(), load_old_lake(1)
    assert len([path for path in lake.files if path.endswith(".in-progress")]) == 4
    assert kinds(lake) == kinds(old)


def test_an_old_lake_is_finished() -> None:
    clock = FakeClock()
    site = MemorySite(7, OPTIONS, clock, Recorder(clock, lambda _snapshot: None))
    load_old_lake(1).put(site)
    assert site.landed() == 24
    assert site.live().code == 0
    assert site.landed() == 36
