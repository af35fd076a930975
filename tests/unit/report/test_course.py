"""The course of a task: complete where it is short, thinned where it is long."""

from __future__ import annotations

from tilewright.report.course import MOST_DOTS, Course


def test_a_short_course() -> None:
    course = Course.of([(3, 5.0), (4, None), (7, 6.0), (9, 2.0)], [(3, 1), (7, 2)])
    assert (course.trials, course.failed) == (4, 1)
    assert course.dots == [(1, 5.0), (3, 6.0), (4, 2.0)]
    assert course.best == [(1, 5.0), (4, 2.0)]
    assert course.runs == [(3, 2)]  # the first one begins where the picture does
    assert list(course.staircase()) == [(1, 5.0), (4, 5.0), (4, 2.0), (4, 2.0)]


def test_nothing_was_measured() -> None:
    course = Course.of([(1, None)])
    assert (course.trials, course.failed, course.dots, course.best) == (1, 1, [], [])
    assert list(course.staircase()) == []


def test_a_long_course_is_thinned() -> None:
    count = 100_000
    course = Course.of((n, 1 / (n + 1)) for n in range(count))  # each is the best so far
    assert (course.trials, course.failed) == (count, 0)
    for points in (course.dots, course.best):
        assert len(points) <= 2 * MOST_DOTS + 2
        assert points[0] == (1, 1.0)
        assert points[-1] == (count, 1 / count)
        places = [place for place, _ in points]
        assert places == sorted(places)
