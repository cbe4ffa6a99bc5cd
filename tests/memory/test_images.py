"""Images that keep their size: decoding them is planned for by their headers, with all copies of their pixels."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

import exoshuffle as xs
from exoshuffle.engines.local.memory import limits

WIDTH, HEIGHT = 4000, 3000


def test_large_images_fit_by_what_is_declared_for_them(tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    noise = Image.effect_noise((WIDTH, HEIGHT), 60).convert("RGB")
    for number in range(6):
        noise.save(images / f"{number}.jpg", quality=80)
    with xs.init(memory_limit=limits.limit_for(420_000_000), spill_dirs=str(tmp_path)):
        sizes = [len(row["image"]) for row in xs.read_images(images).iter_rows()]
    assert sizes == [3 * WIDTH * HEIGHT] * 6
