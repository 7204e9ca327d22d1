from ashore.base.recent import Recent


def test_the_values_that_were_put_last_are_kept() -> None:
    recent = Recent[str, int](2)
    assert [recent.put(key, number) for number, key in enumerate("abac")] == [0, 1, 2, 3]
    assert [recent.get(key) for key in "abc"] == [None, 1, 3], "one that is put again keeps its age"
    recent.clear()
    assert recent.get("b") is None
