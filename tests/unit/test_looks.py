"""How many stretches of an input are looked at, by what each of them decodes beside its rows."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from exoshuffle.dataset.inputs import file_sizes
from exoshuffle.dataset.inputs.weighing import MEASURED_STRETCHES


@dataclass(frozen=True)
class Part:
    """A part of a file, as its footer tells it."""

    bytes: int
    size: int


@pytest.mark.parametrize(
    ("decoding_bytes", "count"),
    [(0, 8), (50_000_000, 8), (100_000_000, 4), (200_000_000, 2), (250_000_000, 1), (10**12, 1)],
)
def test_large_dictionaries_are_decoded_for_few_stretches(decoding_bytes: int, count: int) -> None:
    assert file_sizes.num_looks(decoding_bytes) == count <= MEASURED_STRETCHES


@pytest.mark.parametrize("count", [1, 2, 8])
def test_the_densest_part_is_always_looked_at(count: int) -> None:
    parts = [Part(1000 + number, 10) for number in range(40)]
    chosen = file_sizes._some(parts, count)  # type: ignore[arg-type]  # what it asks of parts
    assert parts[-1] in chosen
    assert len(chosen) == (1 if count == 1 else count + 1)
