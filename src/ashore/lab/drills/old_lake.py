"""A lake as an earlier release has left it, kept as one file of text.

What it is: `OldLake`: the files of a small lake whose job was killed twice: while its tasks wrote,
which left dirty in-progress files, and in the midst of the moves of its second batch.
What it promises: a lake of a format is the same for ever; `tools.old_lakes` has written it.
"""

import json
from dataclasses import asdict, dataclass
from importlib.resources import files

from ashore.errors import check
from ashore.lab.drills.sites.memory import MemorySite
from ashore.lab.drills.sites.site import SiteOptions
from ashore.lab.drills.workloads.numbers import Numbered, Produced

# JSON lines, so that the whole lake can be read by people.
OPTIONS = SiteOptions(batch_records=12, table={"format": "jsonl", "partition_by": ["country"]})


@dataclass(frozen=True, slots=True)
class OldLake:
    """What an earlier release has left: path and content of each file, and what was produced."""

    format_version: int
    seed: int
    records: int
    files: dict[str, str]

    def dump(self) -> str:
        """Return the text that `load_old_lake` reads."""
        return json.dumps(asdict(self), indent=1) + "\n"

    def put(self, site: MemorySite) -> None:
        """Put the lake, and the topic that it was landed from, on a new site of OPTIONS."""
        check(site.produced.total == 0, "a lake is put where nothing is yet")
        workload = site.produced.workload
        site.produced = Produced(Numbered(workload.topic, self.seed, workload.partitions))
        site.produce(self.records)
        for path, content in self.files.items():
            site.machine.create(path, content.encode())
        site.sample()


def load_old_lake(format_version: int) -> OldLake:
    """Return the lake that the first release of a format has left."""
    path = files("ashore.lab.drills").joinpath("lakes", f"format-{format_version}.json")
    return OldLake(**json.loads(path.read_text("utf-8")))
