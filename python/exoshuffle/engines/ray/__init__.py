"""The Ray engine: everything that runs on the local engine runs on a Ray cluster, unchanged.

Guarantee: nothing of Ray leaves this package. Needs ``pip install "exoshuffle[ray]"``.
"""

from exoshuffle.errors import OptionsError

try:
    import ray  # noqa: F401  so that this error comes before any other
except ImportError as error:
    raise OptionsError(
        'engine "ray" needs Ray, which is not installed; run pip install "exoshuffle[ray]"'
    ) from error

from exoshuffle.engines.ray.versions import check_version

check_version()

from exoshuffle.engines.ray.engine import RayEngine  # noqa: E402  imports parts of Ray that another version lacks

__all__ = ["RayEngine"]
