"""The versions of Ray that this engine runs on.

Guarantee: the check needs only Ray's version, so that an unsupported version is named before any missing part of it is.
"""

from __future__ import annotations

import ray

from exoshuffle.errors import OptionsError

#: Supported from the first version to below the second.
SUPPORTED = ((2, 50), (2, 61))


def ray_version() -> tuple[int, int]:
    """Returns the version of the Ray that is installed."""
    major, minor = ray.__version__.split(".")[:2]
    return int(major), int(minor)


def check_version() -> None:
    """Refuses a Ray that this engine was not written for.

    Raises:
        OptionsError: Such a version is installed.
    """
    low, high = SUPPORTED
    if not low <= ray_version() < high:
        raise OptionsError(
            f"Ray {ray.__version__} is installed; supported are {low[0]}.{low[1]} to below {high[0]}.{high[1]}: "
            'run pip install "exoshuffle[ray]"'
        )
