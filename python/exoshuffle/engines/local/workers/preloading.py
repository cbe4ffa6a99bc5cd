"""The modules that a fork server imports before it forks, so that workers have them once, and what they take.

Arrow's conversions of Python values import pandas wherever it is installed. That takes 36 MB and 0.3 s in each worker,
for which functions were stopped that had taken nothing. So the server imports it. The user's modules are not imported:
they may start threads or open files, which a fork does not go well with.
"""

from __future__ import annotations

import functools
import importlib.util
import sys

#: Modules that tasks import and that take long; a server imports those that the program has imported. Of this package
#: they are those that tasks with functions use. With all of ``exoshuffle.dataset`` a server took 65 ms longer to start.
_WORTH_IMPORTING = (
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.parquet",
    "exoshuffle.operators.core.tasks",
    "exoshuffle.operators.map_groups.step",
    "exoshuffle.operators.steps.columns",
    "exoshuffle.operators.steps.functions",
    "exoshuffle.operators.steps.images",
    "exoshuffle.operators.steps.items",
    "exoshuffle.operators.steps.rows",
    "exoshuffle.dataset.jobs.stages.tasks",
    "exoshuffle.dataset.jobs.unshuffled",
)
#: The memory that pandas 3.0 and NumPy take in a server, the program and two workers, beside their own.
PANDAS_BYTES = 56_000_000

#: Pages of pandas that become a worker's own, as Python counts references in them. Without them a worker had 53 to 59
#: MB where 53 were allowed, and a function was stopped that had taken nothing.
TOUCHED_BYTES = 8_000_000


def modules() -> list[str]:
    """Returns the names of the modules, in order."""
    found = [name for name in _WORTH_IMPORTING if name in sys.modules]
    return [*found, "pandas"] if "pyarrow" in found and _has_pandas() else found


def pandas_bytes() -> int:
    """Returns what pandas will take of a server's memory: nothing where it is not installed."""
    return PANDAS_BYTES if _has_pandas() else 0


def touched_bytes() -> int:
    """Returns the memory of a worker in pages of pandas that it shared with its server first."""
    return TOUCHED_BYTES if _has_pandas() else 0


@functools.cache
def _has_pandas() -> bool:
    try:
        return importlib.util.find_spec("pandas") is not None
    except ValueError:  # a module without a loader stands in its place
        return False
