"""Loaders for training on small JPEG files: an epoch in random order, decoded on two processes.

    python -m benchmarks.peers.image_loaders FOLDER --amount 20000 --rounds 3

It needs Pillow, NumPy and PyTorch. ``bare`` is the bound: two processes that open, decode and scale, and hand on
nothing. See ``paces.py`` for what is printed.
"""

from __future__ import annotations

import concurrent.futures
import importlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.peers.paces import Race, run

BATCH, SIDE, PROCESSES = 64, 128, 2
#: Sides of the images that are made: somewhat larger than what is asked for, as data sets of small images are.
SIDES = (160, 200)
#: Starts an epoch, which yields the numbers of images that come together.
Epoch: TypeAlias = "Callable[[], Iterator[int]]"


def _paths(folder: Path) -> list[str]:
    return sorted(map(str, folder.glob("*.jpg")))


def _decoded(path: str) -> Any:
    image = importlib.import_module("PIL.Image")
    numpy = importlib.import_module("numpy")
    with image.open(path) as opened:
        scaled = opened.convert("RGB").resize((SIDE, SIDE), image.Resampling.BILINEAR)
        return numpy.asarray(scaled)


def _decode_all(paths: list[str]) -> int:
    return sum(1 for path in paths if _decoded(path).shape == (SIDE, SIDE, 3))


def bare(folder: Path) -> Epoch:
    """Two processes that decode half of the files each."""
    paths = _paths(folder)
    pool = concurrent.futures.ProcessPoolExecutor(PROCESSES)
    halves = [paths[place::PROCESSES] for place in range(PROCESSES)]
    return lambda: pool.map(_decode_all, halves)


def exoshuffle(folder: Path) -> Epoch:
    """``read_images`` behind a loader."""
    import exoshuffle as xs

    xs.init(memory_limit="2GB", num_cpus=PROCESSES)
    images = xs.read_images(folder, size=SIDE).select("image")
    loader = xs.DataLoader(images, batch_size=BATCH, seed=1, format="numpy")
    return lambda: (len(batch["image"]) for batch in loader)


def torch(folder: Path) -> Epoch:
    """PyTorch's loader with two workers, over a list of paths."""
    data = importlib.import_module("torch.utils.data")
    paths = _paths(folder)

    class Images(data.Dataset):  # type: ignore[misc, name-defined]  # torch need not be installed
        def __len__(self) -> int:
            return len(paths)

        def __getitem__(self, place: int) -> Any:
            return _decoded(paths[place])

    loader = data.DataLoader(Images(), BATCH, shuffle=True, num_workers=PROCESSES)
    return lambda: map(len, loader)


def make(folder: Path, num_images: int) -> None:
    """Writes JPEG files of waves and noise, of about 8 kB."""
    image = importlib.import_module("PIL.Image")
    folder.mkdir(parents=True)
    made = random.Random(1)
    for number in range(num_images):
        side = made.randint(*SIDES)
        small = image.frombytes("RGB", (20, 20), made.randbytes(1200))
        large = small.resize((side, side), image.Resampling.BICUBIC)
        large.save(folder / f"{number:06}.jpg", quality=88)


RACE = Race(
    "benchmarks.peers.image_loaders",
    "images",
    {loader.__name__: loader for loader in (bare, exoshuffle, torch)},
    make,
    lambda folder: len(_paths(folder)),
)

if __name__ == "__main__":
    run(RACE, str(__doc__), 20_000)
