"""The resources that the engine gives to tasks: CPUs, declared GPUs and other declared resources.

Guarantee: no resource is given out twice. One exception: a waiting task gives its CPU back, and takes it again after.
"""

from __future__ import annotations

from collections.abc import Mapping

from exoshuffle.engines.local.tasks.gpus import Gpus
from exoshuffle.errors import OptionsError
from exoshuffle.futures.options import CPU, GPU

#: Amounts by name, as ``TaskOptions.shape``.
Need = tuple[tuple[str, float], ...]

#: Shares such as 0.1 do not add up exactly.
_TOLERANCE = 1e-9


class Resources:
    """Amounts by name."""

    def __init__(self, total: Mapping[str, float]) -> None:
        self.total = dict(total)
        self._free = dict(total)
        self._gpus = Gpus(total.get(GPU, 0))

    def check(self, what: str, demand: Mapping[str, float]) -> None:
        """Refuses a demand that can never be met.

        Raises:
            OptionsError: The demand is more than there is at all.
        """
        for name, amount in demand.items():
            has = self.total.get(name, 0)
            if amount > has + _TOLERANCE:
                raise OptionsError(
                    f"{what} needs {amount:g} {name}; the engine has {has:g}: ask for less, or declare more in init()"
                )

    def fits(self, need: Need) -> bool:
        """Whether so much is free."""
        free = self._free
        for name, amount in need:
            if free.get(name, 0) + _TOLERANCE < amount or (
                name == GPU and not self._gpus.fits(amount)
            ):
                return False
        return True

    def lacking(self, need: Need) -> list[str]:
        """Returns the resources of which too little is free."""
        return [name for name, amount in need if not self.fits(((name, amount),))]

    def take(self, need: Need) -> tuple[int, ...]:
        """Gives resources out; the caller has asked ``fits``, or takes back CPUs that it lent.

        Returns:
            The numbers of the GPUs, if it needs any.
        """
        gpus: tuple[int, ...] = ()
        for name, amount in need:
            self._free[name] -= amount
            if name == GPU:
                gpus = self._gpus.take(amount)
        return gpus

    def give_back(self, need: Need, gpus: tuple[int, ...] = ()) -> None:
        """Ends ``take``, which returned these GPUs."""
        for name, amount in need:
            self._free[name] += amount
            if name == GPU:
                self._gpus.give_back(amount, gpus)

    @property
    def free_cpus(self) -> float:
        """The free CPU slots; negative while tasks that waited run beside the tasks that took their slots."""
        return self._free.get(CPU, 0)
