"""Seeds that have found something: tests run them for ever.

A seed stands for its case only as long as the generator draws as it does now. So each has words of its case. If these
are gone, ``python -m tests.fuzz --only WORDS`` finds another seed for them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Found:
    """A seed.

    Attributes:
        seed: Its number.
        words: Words that the description of its case has.
        what: The fault that it found.
    """

    seed: int
    words: str
    what: str


FOUND = [
    Found(
        63085,
        "5 polars files of {'c0': 'uint32', 'c1': 'New York', 'c2': 'dictionary', 'c3': 'float32'}",
        "dictionaries of several batches were not written to one Arrow IPC file, and the error was a GeneratorExit",
    ),
    Found(
        286,
        "1 ipc files of {'c0': 'seconds'}; sample 1; to file (parquet snappy)",
        "timestamps of seconds were written to Parquet as numbers",
    ),
    Found(
        631,
        "2 ipc files of {'c0': 'int8', 'c1': 'binary view'}; limit 10 of sort",
        "batches of views that were cut from a larger one kept its buffers: 590 MB within 512",
    ),
    Found(
        2004835,
        "1 spark files of {'c0': 'binary', 'c1': 'millis', 'c2': 'float64', 'c3': 'offset', 'c4': 'far date'",
        "map_groups by dates after the year 9999 failed, of which Python has none, to say which group it was",
    ),
]
