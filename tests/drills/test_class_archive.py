"""A job of a drill starts with the classes that an earlier one has kept."""

import pytest

from ashore.base.clock import SystemClock
from ashore.jobs.class_archive import archive_stem, find_archive, use_options
from ashore_lab.drills.recorder import Recorder
from ashore_lab.drills.sites.servers import Servers


@pytest.mark.early  # each job process of the run takes a third less CPU time after it
def test_the_classes_are_kept_once_and_used(servers: Servers) -> None:
    recorder = Recorder(SystemClock(), lambda _snapshot: None)
    options = servers.java_options(recorder)
    archive = find_archive()
    assert archive is not None
    assert options == use_options(archive)
    made = archive.stat().st_ino
    assert servers.java_options(recorder) == options
    assert archive.stat().st_ino == made
    mine = archive.parent.glob(f"{archive_stem().name}*")
    assert list(mine) == [archive], "none is half written"
