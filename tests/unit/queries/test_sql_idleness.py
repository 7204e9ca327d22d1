"""Which inputs of a query others no longer wait for, and up to where time goes on without them."""

from ashore.queries.spark.internals.event_times import IdleInputs, TimeInput

A, B, C = (TimeInput(name, frozenset({name.lower()})) for name in "ABC")
PATIENCE_S = {"a": 100.0, "b": 10.0, "c": 10.0}
NOTHING = {"A": None, "B": None, "C": None}


def inputs(*given: TimeInput) -> IdleInputs:
    return IdleInputs(given or (A, B, C), PATIENCE_S, now_s=1_000.0)


def take(
    idle: IdleInputs, topics: list[str], marks: dict[str, int | None], now_s: float
) -> dict[str, int]:
    return idle.take(marks, now_s) if idle.brought(topics, now_s) else {}


def test_time_goes_on_to_the_slowest_input_that_is_not_idle() -> None:
    idle = inputs()
    assert take(idle, ["a", "b"], {"A": 70, "B": 50, "C": None}, 1_009.0) == {}
    assert take(idle, ["a", "b"], {"A": 80, "B": 60, "C": None}, 1_010.0) == {"C": 60}
    assert take(idle, ["a"], {"A": 90, "B": None, "C": None}, 1_015.0) == {}, "b is not idle yet"
    assert take(idle, ["a"], {"A": 95, "B": None, "C": None}, 1_021.0) == {"B": 95, "C": 95}


def test_an_input_that_brings_records_again_is_waited_for() -> None:
    idle = inputs(A, B)
    assert take(idle, ["a"], {"A": 80, "B": None}, 1_020.0) == {"B": 80}
    assert take(idle, ["a", "b"], {"A": 200, "B": 90}, 1_021.0) == {}
    assert take(idle, ["a"], {"A": 300, "B": None}, 1_022.0) == {}
    assert take(idle, ["a"], {"A": 310, "B": None}, 1_031.0) == {"B": 310}


def test_records_without_an_event_time_are_no_idleness() -> None:
    idle = inputs(A, B)
    assert take(idle, ["a", "b"], {"A": 80, "B": None}, 1_020.0) == {}
    assert take(idle, ["b"], {"A": None, "B": None}, 1_029.0) == {}


def test_nothing_goes_on_by_inputs_that_have_no_time_yet() -> None:
    assert take(inputs(), ["a"], NOTHING, 1_050.0) == {}, "a is not idle, and has no time"
    unread = {"A": 80, "B": None, "C": None}
    assert take(inputs(), ["a", "b"], unread, 1_020.0) == {}, "b has records, and no time yet"
    assert take(inputs(), [], NOTHING, 1_500.0) == {}, "all are idle"


def test_an_input_that_the_plan_did_not_show_might_be_the_slowest() -> None:
    assert take(inputs(A, B), ["a"], {"A": 80, "B": None, "X": None}, 1_500.0) == {}
    assert take(inputs(A, B), ["a"], {"A": 80}, 1_500.0) == {}


def test_one_input_holds_nobody_up() -> None:
    assert not inputs(A).brought([], 2_000.0)
    assert inputs(A, B).brought([], 2_000.0)
    assert not inputs(A, B).brought(["a", "b"], 2_000.0)


def test_an_input_is_idle_as_a_whole() -> None:
    both = TimeInput("D", frozenset({"b", "c"}))
    idle = inputs(A, both)
    assert take(idle, ["a", "c"], {"A": 80, "D": None}, 1_020.0) == {}
    assert take(idle, ["a"], {"A": 80, "D": None}, 1_030.0) == {"D": 80}
    assert idle.topics_of("D") == {"b", "c"}
