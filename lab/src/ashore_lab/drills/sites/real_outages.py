"""Outages of a drill on real servers: what is done to them, and how they come back.

What it is: `RealOutages`, for one site.
What it promises: what is broken is mended when its time is over, whatever the job does meanwhile.
What is mended can be used; a spare, which is not waited for, comes later: `wait` and `end` return
when that is at work as well.
"""

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ashore.base.clock import SystemClock
from ashore.errors import ServiceError, fail
from ashore_lab.drills.faults.outage import Out, Outage
from ashore_lab.drills.recorder import Recorder
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.services.hive import Hive

CLOCK = SystemClock()
AWAKE_S = 1.0
Spare = Callable[[], object]  # brings back what is not waited for
Mend = Callable[[], Spare | None]
Break = Callable[[], Mend]
# What strikes clients on their way to NameNodes, whether there is a second one or not.
WITHOUT_SPARE = {Out.NAMENODE_CUT_OFF, Out.NAMENODES}


class RealOutages:
    """Breaks servers, and mends each in a thread of its own."""

    def __init__(self, breaks: dict[Out, Break], recorder: Recorder) -> None:
        self._breaks = breaks
        self._recorder = recorder
        self._threads: list[tuple[threading.Thread, threading.Event]] = []
        self._failures: list[Exception] = []
        self._ending = threading.Event()

    def begin(self, outage: Outage) -> None:
        """Break it, once what was broken before is back, and its spare if needed.

        Raises ServiceError.
        """
        if outage.out not in self._breaks:
            fail(f"no server of this site can be broken so: {outage.out}")
        self._wait_until_mended()
        if outage.out not in WITHOUT_SPARE:
            self.wait()
        self.mend_later(outage.kind, outage.seconds, self._breaks[outage.out]())

    def mend_later(self, what: str, after_s: float, mend: Mend) -> None:
        """Let `mend` bring back what has been broken, so much later."""
        self._ending.clear()
        is_mended = threading.Event()
        thread = threading.Thread(target=self._mend, args=(what, after_s, mend, is_mended))
        self._threads.append((thread, is_mended))
        thread.start()

    def mend(self) -> None:
        """Mend everything now. Raises what kept it from coming back, if that is known."""
        self._ending.set()
        self._wait_until_mended()
        self._raise_failure()

    def end(self) -> None:
        """Mend everything now, spares too. Raises as `wait`."""
        self._ending.set()
        self.wait()

    def wait(self) -> None:
        """Wait until everything is back. Raises what kept it from coming back."""
        while self._threads:
            self._threads.pop()[0].join()
        self._raise_failure()

    def _wait_until_mended(self) -> None:
        for _, is_mended in self._threads:
            is_mended.wait()

    def _raise_failure(self) -> None:
        if self._failures:
            raise self._failures.pop(0)

    def _mend(self, what: str, after_s: float, mend: Mend, is_mended: threading.Event) -> None:
        self._ending.wait(None if after_s == math.inf else after_s)
        try:
            bring_spare = mend()
            self._recorder.note("mended", f"over: {what}")
            is_mended.set()
            if bring_spare:
                bring_spare()
        except Exception as error:  # noqa: BLE001 - a thread's last line: `wait` raises it
            self._failures.append(error)
        finally:
            is_mended.set()


def storage_breaks(hdfs: Hdfs) -> dict[Out, Break]:
    """Return what can be done to the servers of an HDFS, each with what undoes it."""
    nodes = range(hdfs.options.datanodes)
    pairs = _namenode_breaks(hdfs) if hdfs.options.namenodes > 1 else {}
    return pairs | {
        Out.STORAGE_NODE: lambda: _stop_datanodes(hdfs, nodes[:1]),
        Out.STORAGE_NODES: lambda: _stop_datanodes(hdfs, nodes),
    }


def metastore_breaks(hive: Hive) -> dict[Out, Break]:
    """Return what can be done to a metastore, with what undoes it."""

    def kill() -> Mend:
        hive.kill()
        return hive.start

    return {Out.METASTORE: kill}


def quota_break(hdfs: Hdfs, directory: str) -> Break:
    """Return what uses up a directory's space quota, which is lifted afterwards."""

    def use_up() -> Mend:
        hdfs.set_space_quota(directory, 1)
        return lambda: hdfs.set_space_quota(directory, None)

    return use_up


def _namenode_breaks(hdfs: Hdfs) -> dict[Out, Break]:
    """Return what can be done to two NameNodes."""

    def switch() -> Mend:
        hdfs.switch()
        return lambda: None

    def kill() -> Mend:
        active = _active(hdfs)
        hdfs.kill_namenode(active)
        return lambda: _replace(hdfs, active)

    def freeze() -> Mend:
        active = _active(hdfs)
        hdfs.freeze_namenode(active)
        return lambda: _replace_frozen(hdfs, active)

    def cut_off() -> Mend:
        active = _active(hdfs)
        hdfs.black_hole(active)
        return lambda: hdfs.restore(active)  # what hung there arrives, and it is still active

    def cut_off_both() -> Mend:
        _all(hdfs.black_hole, (0, 1))
        return lambda: _all(hdfs.restore, (0, 1))

    return {
        Out.SWITCH: switch,
        Out.NAMENODE_KILLED: kill,
        Out.NAMENODE_FROZEN: freeze,
        Out.NAMENODE_CUT_OFF: cut_off,
        Out.NAMENODES: cut_off_both,
    }


def _active(hdfs: Hdfs) -> int:
    active = hdfs.active()
    if active is None:
        raise ServiceError("no NameNode is active", hint="was the last outage mended?")
    return active


def _replace(hdfs: Hdfs, killed: int) -> Spare:
    hdfs.switch(1 - killed)
    return lambda: hdfs.start_namenode(killed)


def _replace_frozen(hdfs: Hdfs, frozen: int) -> Spare:
    """Continue with the other one; the first is woken, takes itself for active, and is killed."""
    hdfs.switch(1 - frozen)
    hdfs.thaw_namenode(frozen)
    CLOCK.sleep(AWAKE_S)
    hdfs.kill_namenode(frozen)
    return lambda: hdfs.start_namenode(frozen)


def _stop_datanodes(hdfs: Hdfs, nodes: Sequence[int]) -> Mend:
    _all(hdfs.stop_datanode, nodes)
    return lambda: _all(hdfs.start_datanode, nodes)


def _all(action: Callable[[int], object], nodes: Sequence[int]) -> None:
    """Do something to servers at the same time. Raises what the first failure raises."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(action, nodes))
