"""Which versions of Ray this engine runs on.

Guarantee: needs nothing of Ray but its version, so that another version is named before what it lacks is missed.
"""

from __future__ import annotations

import ray

from exoshuffle.errors import OptionsError

#: From the first, to below the second.
SUPPORTED = ((2, 50), (2, 61))


def ray_version() -> tuple[int, int]:
    """Of the Ray that is installed."""
    major, minor = ray.__version__.split(".")[:2]
    return int(major), int(minor)


def check_version() -> None:
    """Refuses a Ray that this engine was not written for.

    Raises:
        OptionsError: Such a one is installed.
    """
    low, high = SUPPORTED
    if not low <= ray_version() < high:
        raise OptionsError(
            f"Ray {ray.__version__} is installed; supported are {low[0]}.{low[1]} to below {high[0]}.{high[1]}: "
            'run pip install "exoshuffle[ray]"'
        )
