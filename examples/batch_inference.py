"""Runs a model over the pages of documents: stages side by side, objects of a class, bad input skipped.

Run it: ``python -m examples.batch_inference``.

A document is read as bytes, and a generator makes pages of it, as one would make frames of a video. However many they
are, few are in memory. The model is a class, so its weights are loaded once in each worker process, and not for each
batch. It tells the language of a page by its letters; put a network on ``num_gpus=1`` in its place. A document that
cannot be decoded is left out, and named in the result.
"""

from __future__ import annotations

import json
import math
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import exoshuffle as xs

TEXTS = {
    "English": "the quick brown fox jumps over the lazy dog while the others watch with wonder",
    "German": "der schnelle braune fuchs springt über den faulen hund und die anderen sehen zu",
    "Spanish": "el rápido zorro marrón salta sobre el perro perezoso mientras los otros lo miran",
}
NUM_DOCUMENTS, NUM_PAGES = 30, 20
PAGES = pa.schema({"path": pa.string(), "page": pa.int64(), "text": pa.string()})


def make_documents(folder: Path) -> None:
    """Writes documents whose pages form feeds divide, each in one language; the last one is damaged."""
    folder.mkdir()
    languages = list(TEXTS.values())
    for number in range(NUM_DOCUMENTS):
        words = languages[number % len(languages)].split()
        pages = [" ".join(words[page % 5 :]) for page in range(NUM_PAGES)]
        (folder / f"{number:02}.txt").write_text("\f".join(pages))
    (folder / "damaged.txt").write_bytes(b"\xff\xfe page")


def make_weights(path: Path) -> None:
    """Writes how often each language uses each letter."""
    weights = {
        language: {letter: text.count(letter) / len(text) for letter in set(text)}
        for language, text in TEXTS.items()
    }
    path.write_text(json.dumps(weights))


def pages_of(document: dict[str, Any]) -> Iterator[dict[str, object]]:
    """Yields the pages of a document, one by one."""
    for number, text in enumerate(document["bytes"].decode().split("\f")):
        yield {"path": document["path"], "page": number, "text": text}


class LanguageModel:
    """Tells the language of each page of a batch."""

    def __init__(self, path: Path, *, unseen: float = 1e-4) -> None:
        self._weights: dict[str, dict[str, float]] = json.loads(path.read_text())
        self._unseen = unseen

    def __call__(self, pages: pa.Table) -> pa.Table:
        """Returns the pages with their languages in the place of their texts."""
        languages = pa.array(map(self._language, pages["text"].to_pylist()), pa.string())
        return pages.drop_columns("text").append_column("language", languages)

    def _language(self, text: str) -> str:
        return max(self._weights, key=lambda language: self._score(self._weights[language], text))

    def _score(self, weights: dict[str, float], text: str) -> float:
        return sum(math.log(weights.get(letter, self._unseen)) for letter in text)


def main() -> None:
    """Makes documents, runs the model over their pages, and checks what it says."""
    xs.init(memory_limit="1GB", num_cpus=2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_documents(folder / "documents")
        make_weights(folder / "weights.json")
        predicted = (
            xs.read_binary(folder / "documents")
            .flat_map(pages_of, schema=PAGES, on_error="skip")
            .map_batches(
                LanguageModel,
                fn_constructor_args=(folder / "weights.json",),
                batch_size=64,
                concurrency=(0, 2),
            )
        )
        print(predicted.explain().operator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", xs.errors.SkippedWarning)
            result = predicted.write_parquet(folder / "languages")
        for skipped in result.skipped:
            print("skipped", skipped)
        counts = xs.read_parquet(folder / "languages").group_by("language").agg(pages="count")
        found = {row["language"]: row["pages"] for row in counts.iter_rows()}
    xs.shutdown()
    assert result.skipped_rows == 1
    assert found == dict.fromkeys(TEXTS, NUM_DOCUMENTS // len(TEXTS) * NUM_PAGES)
    print(f"{result.rows} pages read: {found}")


if __name__ == "__main__":
    main()
