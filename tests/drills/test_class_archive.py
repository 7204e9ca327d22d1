"""A job of a drill starts with the classes that an earlier one has kept."""

from ashore.base.clock import SystemClock
from ashore.drills.recorder import Recorder
from ashore.drills.sites.class_archive import archive_path, use_options
from ashore.drills.sites.servers import Servers


def test_the_classes_are_kept_once_and_used(servers: Servers) -> None:
    recorder = Recorder(SystemClock(), lambda _snapshot: None)
    options = servers.java_options(recorder)
    assert options == use_options(archive_path())
    made_ns = archive_path().stat().st_mtime_ns
    assert servers.java_options(recorder) == options
    assert archive_path().stat().st_mtime_ns == made_ns
    mine = archive_path().parent.glob(f"{archive_path().stem}.*")
    assert list(mine) == [archive_path()], "none is half written"
