"""How much earlier a row is seen through the metastore with strategy `near` than with `seal`.

    python -m bench.near_seal

A real broker, metastore and job process. Event times and the job's clock run SPEED times as fast as
the machine's, so that an hour is over in half a minute. A row is seen once its partition is
registered and its file is final. Batches are not scaled: a second of work counts as two minutes,
which is held against `near`.
"""

import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from ashore.base.clock import CLOCK_VARIABLE, Steering, SystemClock
from ashore.jobs.events import Landed, WarningEvent
from ashore.jobs.failure import Failed
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.tables.catalog.hive_client import HiveClient
from ashore.tables.catalog.hive_wire import Address
from ashore_lab.services.hive import Hive
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.producer import Producer, create_topics
from bench.table import Row

SPEED = 120
HOURS = 2
RATE = 200  # records a second, of the machine's clock
LOOK_EVERY_S = 0.1
PATIENCE_S = 600.0
HOUR_MS = 3_600_000
START_MS = 1_605_916_800_000  # 2020-11-21 00:00 UTC: a clock that is ahead is refused
CLOCK = SystemClock()
JOB = """\
job: {strategy}
lake: file://{lake}
source:
  kafka: {{bootstrap_servers: "{servers}"}}
  first_start: {{default: earliest}}
tables:
  - topic: {strategy}
    table: bench.{strategy}
    schema: "id BIGINT, ts BIGINT"
    event_time: {{column: ts}}
catalog: {{hive: {{uri: "{hive}", strategy: {strategy}}}}}
batch: {{interval: 500ms}}
spark: {{master: "local[2]"}}
"""


@dataclass
class Trial:
    """A job of one strategy. `produced_s[id]` and `seen_s` are on the monotonic clock."""

    strategy: str
    lake: Path
    steering: Steering
    produced_s: list[float] = field(default_factory=list)
    event_ms: list[int] = field(default_factory=list)
    seen_s: dict[Path, float] = field(default_factory=dict)
    seen_rows: int = 0
    is_landing: threading.Event = field(default_factory=threading.Event)
    is_over: threading.Event = field(default_factory=threading.Event)

    def now_ms(self) -> int:
        return self.steering.at(CLOCK.now_ms())

    def directory(self, hour_ms: int) -> str:
        return f"{datetime.fromtimestamp(hour_ms / 1000, UTC):date=%Y-%m-%d/hour=%H}"

    def produce(self, servers: str) -> None:
        with Producer(servers) as producer:
            while not self.is_over.wait(1 / RATE):
                number, ts_ms = len(self.event_ms), self.now_ms()
                self.event_ms.append(ts_ms)
                self.produced_s.append(time.monotonic())
                producer.send(self.strategy, number % 2, b'{"id": %d, "ts": %d}' % (number, ts_ms))

    def listen(self, launch: JobLaunch) -> None:
        for event in launch.events():
            if isinstance(event, WarningEvent | Failed):
                print(event, file=sys.stderr)
            if isinstance(event, Landed):
                self.is_landing.set()

    def look(self, client: HiveClient, hours_ms: range) -> None:
        """Note the files that a reader of the metastore sees now and did not see before."""
        paths = [self.directory(hour_ms) for hour_ms in hours_ms]
        for each in client.call("get_partitions_by_names", "bench", self.strategy, paths):
            directory = Path(each.sd.location.removeprefix("file:"))
            for file in directory.iterdir():
                if file.name[0] not in "._" and file not in self.seen_s:
                    self.seen_s[file] = time.monotonic()
                    self.seen_rows += pq.read_metadata(file).num_rows

    def watch(self, client: HiveClient) -> range:
        """Look until all records of HOURS whole hours were seen. Return these hours."""
        self.is_landing.wait(PATIENCE_S)
        first_ms = (self.now_ms() // HOUR_MS + 1) * HOUR_MS
        end_ms, give_up_s = first_ms + HOURS * HOUR_MS, time.monotonic() + PATIENCE_S
        hours_ms = range(first_ms, end_ms, HOUR_MS)
        while True:
            self.look(client, hours_ms)
            wanted = sum(first_ms <= each < end_ms for each in self.event_ms)
            if self.now_ms() > end_ms and self.seen_rows == wanted:
                return hours_ms
            if time.monotonic() > give_up_s:
                missing = f"{self.seen_rows} of {wanted} rows"
                raise TimeoutError(f"{missing} are seen with {self.strategy}")
            time.sleep(LOOK_EVERY_S)

    def waits_s(self) -> np.ndarray:
        """Return for each row how long after its record was produced it was seen."""
        produced_s = np.array(self.produced_s)
        waits = [
            seen_s - produced_s[pq.read_table(file, columns=["id"])["id"].to_numpy()]
            for file, seen_s in self.seen_s.items()
        ]
        return np.concatenate(waits)


@contextlib.contextmanager
def running(trial: Trial, servers: str, uri: str) -> Iterator[None]:
    """Run the job and produce for it."""
    job_file = trial.lake.parent / f"{trial.strategy}.yaml"
    job_file.write_text(
        JOB.format(strategy=trial.strategy, lake=trial.lake, servers=servers, hive=uri), "utf-8"
    )
    clock_file = trial.lake.parent / "clock.json"
    trial.steering.write(clock_file)
    steered = {CLOCK_VARIABLE: str(clock_file)}
    with JobLaunch("run", job_file, LaunchOptions(environment=steered)) as launch:
        threads = [
            threading.Thread(target=trial.listen, args=(launch,)),
            threading.Thread(target=trial.produce, args=(servers,)),
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            trial.is_over.set()
            launch.stop()
            for thread in threads:
                thread.join()


def run(strategy: str, folder: Path, kafka: Kafka, hive: Hive) -> np.ndarray:
    lake = folder / "lake"
    lake.mkdir(exist_ok=True)
    create_topics(kafka.bootstrap_servers, {strategy: 2})
    trial = Trial(strategy, lake, Steering(CLOCK.now_ms(), START_MS, SPEED))
    host, port = hive.uri.removeprefix("thrift://").split(":")
    client = HiveClient((Address(host, int(port)),), 60, CLOCK)
    with running(trial, kafka.bootstrap_servers, hive.uri):
        hours_ms = trial.watch(client)
    client.close()
    print(f"{strategy}: {len(hours_ms)} hours seen, {len(trial.seen_s)} files", file=sys.stderr)
    return trial.waits_s()


def show(found: dict[str, np.ndarray]) -> list[Row]:
    print(f"an hour of event time lasts {3600 / SPEED:.0f} s; {HOURS} whole hours of records\n")
    print("| produced to seen | rows | mean | p50 | p99 |\n|---|---|---|---|---|")
    figures = {
        name: [waits_s.mean(), *np.percentile(waits_s, [50, 99])] for name, waits_s in found.items()
    }
    for name, numbers in figures.items():
        cells = [f"{number * SPEED / 60:.1f} min ({number:.2f} s)" for number in numbers]
        print(f"| `{name}` | {len(found[name]):,} | {' | '.join(cells)} |")
    shares = [1 - near / seal for near, seal in zip(figures["near"], figures["seal"], strict=True)]
    print(f"| earlier | | {' | '.join(f'{share:.0%}' for share in shares)} |")
    questions = ("mean", "median", "99th percentile")
    return [
        Row(f"wait to be seen, near v. seal, {question}", 1 - share)
        for question, share in zip(questions, shares, strict=True)
    ]


def main() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("starting a broker and a metastore ...", file=sys.stderr)
        with Kafka(folder / "kafka") as kafka, Hive(folder / "hive") as hive:
            return show(
                {strategy: run(strategy, folder, kafka, hive) for strategy in ("near", "seal")}
            )


if __name__ == "__main__":
    main()
