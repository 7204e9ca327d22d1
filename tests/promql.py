"""A part of PromQL, to evaluate alert rules in tests: what `promql_parser` reads, over samples.

What it is: `Samples`, which are scraped, and `evaluate`. Selectors with matchers and `offset`;
rate, increase, changes, min_over_time, max_over_time; sum, max and min `by`; comparisons,
arithmetic, `and`, `or`. `rate` does not extrapolate to the ends of its range.
What it promises: what it does not know raises. The parser is not ours, so that a rule which it
reads is PromQL.
"""

import functools
import itertools
import operator
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import promql_parser as promql
from prometheus_client import CollectorRegistry

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
STALE_S = 300.0  # a sample is looked for so far back

ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: left / right if right else float("nan"),
}
COMPARE: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
AGGREGATE: dict[str, Callable[[Iterable[float]], float]] = {"sum": sum, "max": max, "min": min}


@dataclass
class Samples:
    """What was scraped: for each series its values with their times."""

    series: dict[str, dict[Labels, tuple[list[float], list[float]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(lambda: ([], [])))
    )  # times and values

    def add(self, at_s: float, name: str, labels: Mapping[str, str], value: float) -> None:
        times, values = self.series[name][frozenset(labels.items())]
        times.append(at_s)
        values.append(value)

    def scrape(self, at_s: float, registry: CollectorRegistry) -> None:
        for metric in registry.collect():
            for each in metric.samples:
                self.add(at_s, each.name, each.labels, each.value)


def evaluate(samples: Samples, expression: str, at_s: float) -> Vector:
    """Return the series that an expression has at a time."""
    found = _evaluate(_parse(expression), samples, at_s)
    assert isinstance(found, dict), expression
    return found


@functools.cache
def _parse(expression: str) -> Any:
    return promql.parse(expression)


def _evaluate(node: Any, samples: Samples, at_s: float) -> Vector | float:
    match node:
        case promql.NumberLiteral():
            return float(node.val)
        case promql.ParenExpr():
            return _evaluate(node.expr, samples, at_s)
        case promql.VectorSelector():
            ranges = _select(node, samples, at_s, STALE_S)
            return {labels: values[-1] for labels, values in ranges.items()}
        case promql.Call():
            return _call(node, samples, at_s)
        case promql.AggregateExpr():
            return _aggregate(node, samples, at_s)
        case promql.BinaryExpr():
            return _binary(node, samples, at_s)
        case _:
            raise NotImplementedError(type(node).__name__)


def _select(node: Any, samples: Samples, at_s: float, range_s: float) -> dict[Labels, list[float]]:
    end_s = at_s - (node.offset.total_seconds() if node.offset else 0.0)
    found = {}
    matchers = node.matchers.matchers
    for labels, (times, values) in samples.series[node.name].items():
        inside = values[bisect_right(times, end_s - range_s) : bisect_right(times, end_s)]
        if inside and all(_matches(each, dict(labels)) for each in matchers):
            found[labels] = inside
    return found


def _matches(matcher: Any, labels: Mapping[str, str]) -> bool:
    value = labels.get(matcher.name, "")
    match str(matcher.op).rpartition(".")[2]:
        case "Equal":
            return value == matcher.value
        case "NotEqual":
            return value != matcher.value
        case "Re":
            return re.fullmatch(matcher.value, value) is not None
        case "NotRe":
            return re.fullmatch(matcher.value, value) is None
        case other:
            raise NotImplementedError(other)


def _increase(values: list[float]) -> float:
    pairs = itertools.pairwise(values)
    return sum(after - before if after >= before else after for before, after in pairs)


def _call(node: Any, samples: Samples, at_s: float) -> Vector | float:
    if node.func.name == "time":
        return at_s
    (argument,) = node.args
    range_s = argument.range.total_seconds()
    selected = _select(argument.vector_selector, samples, at_s, range_s)
    name = node.func.name
    if name in {"rate", "increase"}:
        by_s = range_s if name == "rate" else 1.0
        return {
            labels: _increase(values) / by_s
            for labels, values in selected.items()
            if len(values) > 1
        }
    of_range: dict[str, Callable[[list[float]], float]] = {
        "max_over_time": max,
        "min_over_time": min,
        "changes": lambda values: sum(a != b for a, b in itertools.pairwise(values)),
    }
    return {labels: of_range[name](values) for labels, values in selected.items()}


def _aggregate(node: Any, samples: Samples, at_s: float) -> Vector:
    inner = _evaluate(node.expr, samples, at_s)
    assert isinstance(inner, dict)
    by = set(node.modifier.labels) if node.modifier else set()
    assert node.modifier is None or node.modifier.type == promql.AggModifierType.By
    groups = defaultdict[Labels, list[float]](list)
    for labels, value in inner.items():
        groups[frozenset(pair for pair in labels if pair[0] in by)].append(value)
    return {labels: AGGREGATE[str(node.op)](values) for labels, values in groups.items()}


def _binary(node: Any, samples: Samples, at_s: float) -> Vector | float:
    left, right = (_evaluate(each, samples, at_s) for each in (node.lhs, node.rhs))
    name = str(node.op)
    if name in {"and", "or"}:
        assert isinstance(left, dict)
        assert isinstance(right, dict)
        return _combine(name, left, right, node.modifier)
    if isinstance(left, float) and isinstance(right, float):
        return ARITHMETIC[name](left, right)
    pairs = list(_pair(left, right))
    if name in ARITHMETIC:
        return {labels: ARITHMETIC[name](one, other) for labels, one, other in pairs}
    assert not (node.modifier and node.modifier.return_bool)
    return {labels: one for labels, one, other in pairs if COMPARE[name](one, other)}


def _combine(name: str, left: Vector, right: Vector, modifier: Any) -> Vector:
    on = set(modifier.matching.labels) if modifier and modifier.matching else None

    def key(labels: Labels) -> Labels:
        return labels if on is None else frozenset(pair for pair in labels if pair[0] in on)

    others = {key(labels) for labels in right}
    if name == "and":
        return {labels: value for labels, value in left.items() if key(labels) in others}
    here = {key(labels) for labels in left}
    return {**{each: value for each, value in right.items() if key(each) not in here}, **left}


def _pair(left: Vector | float, right: Vector | float) -> Iterable[tuple[Labels, float, float]]:
    if isinstance(left, float):
        assert isinstance(right, dict)
        return [(labels, left, value) for labels, value in right.items()]
    if isinstance(right, float):
        return [(labels, value, right) for labels, value in left.items()]
    return [(labels, left[labels], right[labels]) for labels in left if labels in right]
