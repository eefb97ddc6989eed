"""Sizes in a text, read apart from the product's own reader so that the two can be compared."""

from __future__ import annotations

import re

_POWERS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def gib_sizes(text: str) -> list[float]:
    """Every number with a byte unit, in GiB."""
    found = re.findall(r"([0-9][0-9,]*(?:\.[0-9]+)?)\s*(?:([kmgt])i?b|bytes?|b)", text, re.IGNORECASE)
    return [float(number.replace(",", "")) * 2.0 ** (_POWERS[prefix.lower()] - 30) for number, prefix in found]
