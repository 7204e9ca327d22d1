"""Processes that are started before it is their turn."""

from pathlib import Path

import pytest

from ashore.base.clock import SystemClock
from ashore.log.store.reader import list_log
from ashore_lab.drills.recorder import Recorder
from ashore_lab.drills.sites.servers import Servers
from ashore_lab.drills.sites.site import NAME, SiteOptions

CLOCK = SystemClock()
SPARK = "org.apache.spark"


def has_spark(leader: int) -> bool:
    """Tell whether a process of this session has a JVM with Spark."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(state[3]) == leader and SPARK in command:
                return True
    return False


@pytest.mark.long
def test_one_that_waits_has_a_spark_and_no_log_and_goes_with_its_site(servers: Servers) -> None:
    recorder = Recorder(CLOCK, lambda _snapshot: None)
    site = servers.site(1, SiteOptions(), recorder)
    try:
        site.produce(30)
        site.expect(1)
        ((waiting,),) = site.ahead._waiting.values()
        while not has_spark(waiting.pid):
            CLOCK.sleep(0.05)
        site.expect(0)
        assert site.live().code == 0, "the one that waits"
        assert not site.ahead._waiting[site.job_file]
        site.ahead.start(site.job_file)
        ((left,),) = site.ahead._waiting.values()
        with site.opened() as opened:
            before = list_log(opened.storage, NAME)
            while not has_spark(left.pid):
                CLOCK.sleep(0.05)
            assert list_log(opened.storage, NAME) == before
    finally:
        site.close()
    assert not Path(f"/proc/{left.pid}").exists()
