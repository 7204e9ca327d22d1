"""The judgement of a soak: what grows, what has found its size, what is noise."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.drills.growth import (
    GAUGES,
    PARTS,
    SAMPLES_MIN,
    Sample,
    batch_rates,
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
    batches=0,
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
        noisy |= {"at_s": number, "batches": 4 * number}
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


KEPT = Path(__file__).parent / "soak_threads.json"
THREADS = next(gauge for gauge in GAUGES if gauge.name == "threads of the JVM")
FREQUENT, RARE = 5.0, 0.5  # batches a second
RATES = {
    "often, then seldom": lambda share: FREQUENT if share < 0.5 else RARE,
    "seldom, then often": lambda share: RARE if share < 0.5 else FREQUENT,
    "by turns": lambda share: FREQUENT if int(share * 7) % 2 else RARE,
    "the same": lambda share: FREQUENT,
}


def follow(rate_at: Callable[[float], float], leaks_each: float = 0) -> list[Sample]:
    """Return ten minutes in which threads follow the rate of batches: 157 to 260.

    Arguments:
        rate_at: batches a second, at a share of the life.
        leaks_each: after so many batches one thread is left for ever; 0: none is.

    """
    dice, samples, batches = Random(2), [], 0.0
    for number, each in enumerate(life() * 3):
        batches += max(0.0, rate_at(number / (3 * COUNT)) * dice.uniform(0.8, 1.2))
        samples.append(each._replace(at_s=number, batches=round(batches)))
    return [
        each._replace(
            jvm_threads=round(
                145
                + 23 * rate
                + dice.uniform(-4, 4)
                + (each.batches // leaks_each if leaks_each else 0)
            )
        )
        for each, rate in zip(samples, batch_rates(samples), strict=True)
    ]


@pytest.mark.parametrize("rates", RATES)
def test_threads_that_follow_the_rate_of_batches_do_not_grow(rates: str) -> None:
    assert THREADS.name not in grown(follow(RATES[rates]))


@pytest.mark.parametrize("rates", RATES)
def test_a_thread_that_each_tenth_batch_leaves_grows(rates: str) -> None:
    assert THREADS.name in grown(follow(RATES[rates], leaks_each=10))


def kept(leaks_each: int = 0) -> list[Sample]:
    """Return a life of five minutes that was played with Spark, beside much other work."""
    rows = json.loads(KEPT.read_text("utf-8"))
    return [
        STEADY._replace(
            at_s=at_s,
            jvm_threads=threads + (batches // leaks_each if leaks_each else 0),
            batches=batches,
        )
        for at_s, threads, batches in rows
    ]


def test_threads_of_a_life_that_was_played_do_not_grow() -> None:
    assert grown(kept()) == []
    assert grown(kept(leaks_each=10)) == [THREADS.name]


def test_threads_that_rise_with_a_rate_that_only_rises_are_not_told_from_a_leak() -> None:
    """Nothing in such a life says which it is: then it is red."""
    rising = follow(lambda share: RARE + (FREQUENT - RARE) * share**2)
    assert THREADS.name in grown(rising)


def test_a_short_life_tells_nothing():
    with pytest.raises(ValueError, match="tell nothing of growth"):
        find_growth(life()[: SAMPLES_MIN - 1])
