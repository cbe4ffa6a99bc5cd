"""The needs of a user's function whose tasks need more than a CPU: such a step becomes a stage of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from exoshuffle.arguments import check_flag, is_whole
from exoshuffle.errors import OptionsError, shown
from exoshuffle.futures.options import CPU, GPU, check_amounts
from exoshuffle.late_dataclasses import dataclass


class Concurrency(NamedTuple):
    """The numbers of tasks that run at once, or of objects of a class that live: at the least, and at most."""

    least: int
    most: int | None


@dataclass(frozen=True)
class Needs:
    """The needs of one task, or of one object of a class.

    Attributes:
        amounts: The amount that it occupies of each resource, without zeros.
        concurrency: How many there are at once.
        is_ordered: Whether rows keep their order.
    """

    amounts: tuple[tuple[str, float], ...] = ((CPU, 1.0),)
    concurrency: Concurrency = Concurrency(0, None)
    is_ordered: bool = True

    def check(self, total: Mapping[str, float]) -> None:
        """Raises ``OptionsError`` if an engine with so much cannot run as many as it is asked to."""
        asked = max(1, self.concurrency.most or self.concurrency.least)
        for name, amount in self.amounts:
            has = total.get(name, 0)
            if asked * amount > has * (1 + 1e-9):
                times = f"{asked} × " if asked > 1 else ""
                raise OptionsError(
                    f"map_batches needs {times}{amount:g} {name}, and the engine has {has:g}: ask for less, or declare "
                    "more in init()"
                )

    def __str__(self) -> str:
        amounts = ", ".join(f"{amount:g} {name}" for name, amount in self.amounts) or "nothing"
        least, most = self.concurrency
        if most is None:
            return amounts
        return f"{amounts}; {most if least == most else f'{least} to {most}'} at once"


def needs_of(
    num_cpus: float | None,
    num_gpus: float,
    resources: Mapping[str, float] | None,
    concurrency: int | tuple[int, int] | None,
    *,
    ordered: bool,
) -> Needs:
    """Returns the needs that the arguments of a method ask for.

    A task needs a CPU unless it is told otherwise, or none if it needs GPUs.

    Raises:
        OptionsError: An amount or a number that cannot work.
    """
    resources = {} if resources is None else resources
    cpus = (0 if num_gpus else 1) if num_cpus is None else num_cpus
    check_amounts(resources, num_cpus=cpus, num_gpus=num_gpus)
    check_flag("ordered", ordered)
    amounts = {CPU: cpus, GPU: num_gpus, **resources}
    asked = tuple((name, float(amount)) for name, amount in amounts.items() if amount > 0)
    return Needs(asked, _concurrency(concurrency), ordered)


def _concurrency(given: object) -> Concurrency:
    if given is None:
        return Concurrency(0, None)
    bounds = given if isinstance(given, tuple) else (given, given)
    if len(bounds) == 2:
        least, most = bounds
        if is_whole(least) and is_whole(most) and 0 <= least <= most and most >= 1:
            return Concurrency(least, most)
    raise OptionsError(
        f"concurrency is {shown(given)}; give a number from 1 on, or two, (least, most)"
    )
