"""Fewer marks on a chart than a long run has resets, without a stretch of resets that goes unmarked."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["MOST_MARKS", "thinned"]

MOST_MARKS = 2000  # a screen has fewer columns of pixels


def thinned(marks: Mapping[int, str], most: int = MOST_MARKS) -> dict[int, str]:
    """Return at most `most` of the marks, texts by position: the first of each stretch, which counts the others.

    >>> thinned({10: "a reset", 20: "a reset", 900: "a reset"}, most=2)
    {10: 'a reset (and 1 more up to sample 20)', 900: 'a reset'}
    >>> thinned({10: "a reset", 900: "a reset"}, most=2)
    {10: 'a reset', 900: 'a reset'}
    """
    if len(marks) <= most:
        return dict(marks)
    first, last = min(marks), max(marks)
    stretches: dict[int, list[int]] = {}
    for position in sorted(marks):
        stretches.setdefault((position - first) * most // (last - first + 1), []).append(position)
    return {
        start: marks[start] + (f" (and {len(others)} more up to sample {others[-1]})" if others else "")
        for start, *others in stretches.values()
    }
