"""New names for columns that both sides of a join have, as pandas gives them: to both sides."""

from __future__ import annotations

from collections.abc import Sequence

from exoshuffle.errors import OptionsError, shown


def suffixed(
    left: Sequence[str], right: Sequence[str], keys: Sequence[str], suffixes: tuple[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the new names by the old ones, for either side; columns that are one in the result keep theirs.

    Raises:
        OptionsError: ``suffixes`` is no pair of different texts.
    """
    given: object = suffixes
    if (
        not isinstance(given, list | tuple)
        or len(given) != 2
        or not all(isinstance(end, str) for end in given)
    ):
        raise OptionsError(f'suffixes is {shown(given)}; give two texts, such as ("_x", "_y")')
    if given[0] == given[1]:
        raise OptionsError(f"suffixes is {shown(given)}; the two must differ")
    both = [name for name in left if name in right and name not in keys]
    first, second = ({name: f"{name}{end}" for name in both} for end in given)
    return first, second
