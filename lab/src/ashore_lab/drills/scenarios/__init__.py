"""Scenarios, one module each, that read as the incident did. This is the one table of them."""

from ashore_lab.drills.drill import Drill
from ashore_lab.drills.scenarios import (
    broker_restart,
    checkpoint_lost,
    clock_jump,
    cluster_gone,
    delete_before_write,
    disk_full,
    kill_driver,
    kill_executor,
    late_effects,
    lost_answers,
    metastore_outage,
    namenode_failover,
    poison_records,
    replay_budget,
    retention,
    rolling_restart,
    slow_storage,
    space_quota,
    storage_nodes_down,
    topic_recreated,
    upgrade,
    zombie_writer,
)

SCENARIOS: tuple[Drill, ...] = (
    kill_driver.DRILL,
    kill_executor.DRILL,
    cluster_gone.DRILL,
    zombie_writer.DRILL,
    lost_answers.DRILL,
    late_effects.DRILL,
    delete_before_write.DRILL,
    disk_full.DRILL,
    slow_storage.DRILL,
    namenode_failover.DRILL,
    storage_nodes_down.DRILL,
    metastore_outage.DRILL,
    space_quota.DRILL,
    clock_jump.DRILL,
    broker_restart.DRILL,
    rolling_restart.DRILL,
    poison_records.DRILL,
    retention.DRILL,
    topic_recreated.DRILL,
    checkpoint_lost.DRILL,
    upgrade.DRILL,
    replay_budget.DRILL,
)

__all__ = ["SCENARIOS"]
