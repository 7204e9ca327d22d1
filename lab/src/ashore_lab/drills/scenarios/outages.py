"""Scenarios in which servers are away for a while, again and again, and the job waits for them."""

from ashore.log.store.reader import read_log
from ashore_lab.drills.faults import Moment, Out, Outage
from ashore_lab.drills.sites.site import NAME, Site, SiteOptions
from ashore_lab.drills.stage import Stage

BATCHES = 5  # in each round


def play_outages(stage: Stage) -> None:
    """Produce; let servers stop and come back while the job lands it on HDFS."""
    records, away_s = max(1, stage.length.records // BATCHES), stage.length.outage_s
    site = stage.site(SiteOptions(batch_records=records, lake="hdfs", sections={"deadline": "10s"}))
    site.expect(stage.length.rounds)
    for number in range(stage.length.rounds):
        outages = [
            Outage(Moment(each.place, each.number), Out(each.kind), away_s)
            for each in stage.schedule
            if each.round == number
        ]
        site.produce(stage.length.records)
        stage.ride_out(site, *outages, within_s=len(outages) * away_s)
        if stage.problems:
            break  # further rounds would only take long
    struck, expected = stage.recorder.faults, len(stage.schedule)
    stage.require_proof(struck == expected, f"{struck} of {expected} outages came in time")


def count_deferred(site: Site) -> int:
    """Return how many registrations the log still has deferred."""
    with site.opened() as opened:
        return len(read_log(opened.storage, NAME).deferred)
