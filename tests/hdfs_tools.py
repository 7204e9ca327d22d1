"""Mending an HDFS that a test has broken: NameNodes, the proxy in front of them, DataNodes."""

from ashore_lab.services.hdfs import Hdfs
from ashore_lab.services.hdfs_ha import NameNodeRole


def active_of(hdfs: Hdfs) -> int:
    """Return which NameNode is active. Fails if none is."""
    active = hdfs.active()
    assert active is not None
    return active


def mend(hdfs: Hdfs) -> None:
    """Bring everything back to work: both NameNodes, of which one is active, and all DataNodes."""
    for index, namenode in enumerate(hdfs.processes[2:4]):
        hdfs.restore(index)
        if namenode.is_frozen():
            hdfs.thaw_namenode(index)
    active = hdfs.active()
    for index in (0, 1):
        state = hdfs.state(index)
        if index != active and state is not None and state.role is NameNodeRole.ACTIVE:
            hdfs.kill_namenode(index)  # does not know yet that it was replaced, and ends soon
    hdfs.start()
