"""How plain values are written on pages and accepted as answers."""

from __future__ import annotations

from collections.abc import Sequence

_MONTH_TEXT = "January February March April May June July August September October November December"
_MONTHS = tuple(_MONTH_TEXT.split())

DATE_STYLES = ("month first", "day first")


def show(value: str, target: str, unit: str = "", date_style: str = DATE_STYLES[0]) -> str:
    """Write a value as a page does: digits in groups of three with their unit, dates in words, the rest as it is."""
    if target == "number":
        grouped = f"{int(value):,}"
        return f"{grouped} {unit}" if unit else grouped
    if target == "date":
        year, month, day = (int(part) for part in value.split("-"))
        name = _MONTHS[month - 1]
        return f"{name} {day}, {year}" if date_style == DATE_STYLES[0] else f"{day} {name} {year}"
    return value


def accepted(value: str, target: str, unit: str = "") -> tuple[str, ...]:
    """Every way of writing a plain value that counts as the answer, the usual one first."""
    if target == "number":
        plain = [f"{int(value):,}", str(int(value))]
        return tuple(dict.fromkeys([*plain, *(f"{number} {unit}" for number in plain if unit)]))
    if target == "date":
        return (*(show(value, target, date_style=style) for style in DATE_STYLES), value)
    return (value,)


def joined(items: Sequence[str]) -> str:
    """Join as in a sentence: ``a, b and c``."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
