"""The judgement of a soak: what grows, what has found its size, what is noise."""

from random import Random

import pytest
from tests.drills.growth import (
    GAUGES,
    PARTS,
    SAMPLES_MIN,
    Sample,
    find_growth,
    plan_looks,
    read_course,
)

STEADY = Sample(
    at_s=0,
    job_mb=180,
    workers_mb=300,
    jvm_mb=430,
    live_mb=90,
    threads=20,
    jvm_threads=60,
    descriptors=150,
    processes=5,
    staged=4,
    strange=0,
    temporary=12,
    log=900,
)
COUNT = 200


def life(**rises: float) -> list[Sample]:
    """Return samples with noise; each rise is what a gauge has more at the end than at first."""
    dice = Random(1)
    samples = []
    for number in range(COUNT):
        noisy = {
            name: value * (1 + dice.uniform(-0.02, 0.02))
            for name, value in STEADY._asdict().items()
        }
        for name, rise in rises.items():
            noisy[name] += rise * number / COUNT
        samples.append(Sample(**noisy))
    return samples


def grown(samples: list[Sample]) -> list[str]:
    return [course.gauge.name for course in find_growth(samples)]


def test_noise_is_no_growth():
    assert grown(life()) == []


@pytest.mark.parametrize(
    ("field", "rise", "name"),
    [
        ("job_mb", 60, "memory of the job process"),
        ("workers_mb", 120, "memory of its workers"),
        ("jvm_mb", 80, "memory of the JVM"),
        ("live_mb", 60, "heap that is reached"),
        ("threads", 25, "threads of the job process"),
        ("jvm_threads", 40, "threads of the JVM"),
        ("descriptors", 80, "descriptors"),
        ("processes", 12, "processes"),
        ("staged", 300, "staged files"),
        ("strange", 20, "strange files"),
        ("temporary", 200, "temporary files"),
        ("log", 12_000, "files of the log"),
    ],
)
def test_each_gauge_that_rises_all_the_time_grows(field, rise, name):
    assert grown(life(**{field: rise})) == [name]
    assert grown(life(**{field: -rise})) == []


def test_every_gauge_is_tried():
    tried = {mark.args[1][index][2] for mark in _marks() for index in range(len(mark.args[1]))}
    assert tried == {gauge.name for gauge in GAUGES}


def _marks() -> list[pytest.Mark]:
    return [
        mark
        for mark in test_each_gauge_that_rises_all_the_time_grows.pytestmark
        if mark.name == "parametrize"
    ]


def test_what_rises_and_then_stays_has_found_its_size():
    samples = [
        each._replace(jvm_mb=330 + min(100, 100 * number / (0.45 * COUNT)))
        for number, each in enumerate(life())
    ]
    assert grown(samples) == []


def test_what_begins_to_rise_late_grows():
    samples = [
        each._replace(threads=20 + max(0, number - COUNT // 2) // 4)
        for number, each in enumerate(life())
    ]
    assert grown(samples) == ["threads of the job process"]


def test_the_heap_is_looked_at_once_in_each_part():
    looks_s = [share * COUNT for share in plan_looks()]

    def looked_at(rise: float) -> list[Sample]:
        """Return samples, one a second, of which those that are due have looked at the heap."""
        due, samples = list(looks_s), []
        for number, each in enumerate(life()):
            looks = bool(due) and number >= due[0]
            due = due[looks:]
            live_mb = (90 + rise * number / COUNT) if looks else 0.0
            samples.append(each._replace(live_mb=live_mb))
        return samples

    assert len(looks_s) == PARTS
    (heap,) = (gauge for gauge in GAUGES if gauge.is_rare)
    assert read_course(heap, looked_at(0)).levels == (90,) * PARTS
    assert grown(looked_at(0)) == []
    assert grown(looked_at(40)) == ["heap that is reached"]


def test_a_short_life_tells_nothing():
    with pytest.raises(ValueError, match="tell nothing of growth"):
        find_growth(life()[: SAMPLES_MIN - 1])
