"""Images as rows: pixels are those of Pillow, what is no image is named or skipped, and loaders shuffle files."""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.errors import InputError, OptionsError, SchemaError, SkippedWarning
from exoshuffle.operators.steps.images import Pixels
from tests.support.limits import large_memory_limit

Image = pytest.importorskip("PIL.Image")
SIZES = [(20, 30), (64, 16), (7, 5)]


def drawn(seed: int, height: int, width: int, mode: str = "RGB") -> Any:
    pixels = random.Random(seed).randbytes(height * width * len(mode))
    return Image.frombytes(mode, (width, height), pixels)


@pytest.fixture(autouse=True)
def engine() -> Iterator[None]:
    """One with room for stages, whatever the process of the tests has resident."""
    with xs.init(memory_limit=large_memory_limit(), num_cpus=2):
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Thirty images of three sizes and three formats; JPEG and grey ones among them."""
    for number in range(30):
        height, width = SIZES[number % 3]
        kind = ["png", "jpg", "bmp"][number % 3]
        mode = "L" if number % 5 == 0 else "RGB"
        below = tmp_path / "in" / f"class={number % 2}"
        below.mkdir(parents=True, exist_ok=True)
        drawn(number, height, width, mode).save(below / f"{number:02}.{kind}")
    return tmp_path / "in"


def opened(path: str, mode: str = "RGB") -> Any:
    return Image.open(path).convert(mode)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
def test_images_keep_their_sizes(folder: Path, mode: str) -> None:
    dataset = xs.read_images(folder, mode=mode)
    assert dataset.columns == ["image", "height", "width", "path", "class"]
    rows = dataset.to_pylist()
    assert [row["path"] for row in rows] == sorted(map(str, folder.rglob("*.*")))
    for row in rows:
        expected = opened(row["path"], mode)
        assert (row["width"], row["height"]) == expected.size
        assert row["image"] == expected.tobytes()


@pytest.mark.parametrize(("mode", "shape"), [("RGB", [20, 30, 3]), ("L", [20, 30])])
def test_a_size_makes_tensors(folder: Path, mode: str, shape: list[int]) -> None:
    dataset = xs.read_images(folder, size=(20, 30), mode=mode)
    assert dataset.schema.field("image").type == pa.fixed_shape_tensor(pa.uint8(), shape)
    for row in dataset.to_pylist():
        image = opened(row["path"], mode)
        scaled = (
            image if image.size == (30, 20) else image.resize((30, 20), Image.Resampling.BILINEAR)
        )
        assert bytes(row["image"]) == scaled.tobytes()


def test_large_jpegs_are_decoded_at_a_fraction() -> None:
    file = io.BytesIO()
    Image.linear_gradient("L").resize((1600, 1600)).save(file, "jpeg")
    made = Pixels((100, 100), "L").decoded(file.getvalue())["image"]
    whole = Image.open(file).resize((100, 100), Image.Resampling.BILINEAR).tobytes()
    assert isinstance(made, bytes)
    assert max(abs(a - b) for a, b in zip(made, whole, strict=True)) <= 3


def test_paths_alone_decode_nothing(folder: Path) -> None:
    (folder / "class=0" / "notes.txt").write_text("no image")
    dataset = xs.read_images(folder, size=8)
    assert dataset.count() == 31
    assert len(dataset.select("path").to_pylist()) == 31
    assert len(dataset.filter("class = 1").select("image").to_pylist()) == 15


@pytest.mark.parametrize("content", [b"no image", b"", None])
def test_what_is_no_image_is_named(folder: Path, content: bytes | None) -> None:
    broken = folder / "class=0" / "00.png"
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-60] if content is None else content)
    with pytest.raises(
        InputError, match=r"file '.*/class=0/00.png' is no image that Pillow can decode"
    ) as caught:
        xs.read_images(folder, size=8).to_arrow()
    assert "0x" not in str(caught.value), "an address tells nobody anything"


def test_loaders_refuse_images_that_may_be_skipped(tmp_path: Path) -> None:
    """How many rows there are is known when all are decoded, so no state could tell where training stands."""
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    images = xs.read_images(tmp_path, size=4, on_error="skip").with_columns(label="path")
    for shuffle in (True, "1MB", False):
        with pytest.raises(
            OptionsError, match=r'images with on_error="skip", .*\. Read the files without it'
        ):
            xs.DataLoader(images, batch_size=2, shuffle=shuffle, format="arrow")


@pytest.mark.parametrize("size", [None, 8])
def test_what_is_no_image_is_skipped_and_counted(
    folder: Path, tmp_path: Path, size: int | None
) -> None:
    broken = folder / "class=0" / "00.png"
    broken.write_bytes(b"no image")
    dataset = xs.read_images(folder, size=size, on_error="skip")
    with pytest.warns(SkippedWarning):
        assert len(dataset.to_pylist()) == 29
    with pytest.warns(SkippedWarning):
        written = dataset.drop("image").write_parquet(tmp_path / "out")
    assert written.skipped_rows == 1
    assert str(broken) in str(written.skipped)


def broken(folder: Path) -> list[str]:
    """Makes three files no images: two have no format, and one ends too early."""
    none, half, other = (folder / "class=0" / name for name in ("00.png", "04.jpg", "12.png"))
    none.write_bytes(b"no image")
    half.write_bytes(half.read_bytes()[:-200])
    other.write_bytes(b"")
    return [str(none), str(half), str(other)]


@pytest.mark.parametrize("size", [None, 8])
def test_functions_of_rows_behind_skipped_images(
    folder: Path, tmp_path: Path, size: int | None
) -> None:
    """The schema is that of the function's rows; that of the images would have left out every row."""
    names = broken(folder)

    def measured(row: dict[str, Any]) -> dict[str, object]:
        if row["path"].endswith("07.jpg"):
            raise ValueError("not this one")
        return {"path": row["path"], "num_bytes": len(row["image"])}

    images = xs.read_images(folder, size=size, on_error="skip")
    made = images.map(measured, on_error="skip")
    assert (made.columns, made.schema.types) == (["path", "num_bytes"], [pa.string(), pa.int64()])
    with pytest.warns(SkippedWarning, match="4 rows skipped"):
        written = made.write_parquet(tmp_path / "out")
    skipped = sorted((each.path, each.function) for each in written.skipped)
    assert [path for path, function in skipped if function == "read_images"] == names
    assert [path for path, function in skipped if function != "read_images"] == [
        str(folder / "class=1" / "07.jpg")
    ]
    assert written.skipped_rows == 4
    rows = xs.read_parquet(tmp_path / "out").to_pylist()
    assert len(rows) == 26
    assert not {row["path"] for row in rows} & set(names)


class MeanOfImages:
    """Needs rows, as models do."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        image = batch["image"]
        return {"mean": image.reshape(len(image), -1).mean(axis=1), "path": batch["path"]}


@pytest.mark.parametrize("function", [MeanOfImages, MeanOfImages()])
def test_functions_of_batches_behind_skipped_images(folder: Path, function: Any) -> None:
    pytest.importorskip("numpy")
    names = broken(folder)
    images = xs.read_images(folder, size=8, on_error="skip")
    made = images.map_batches(function, batch_format="numpy", batch_size=4)
    with pytest.warns(SkippedWarning, match=r"3 rows skipped.*class=0/00\.png"):
        rows = made.to_pylist()
    assert {row["path"] for row in rows} == {*map(str, folder.rglob("*.*"))} - set(names)


def test_a_function_that_skips_does_not_skip_images(folder: Path) -> None:
    """The error says whose argument leaves out images."""
    broken(folder)
    images = xs.read_images(folder, size=8)
    with pytest.raises(
        InputError, match=r'00\.png.* is no image.*read_images\(.*, on_error="skip"\)'
    ):
        images.map(lambda row: {"path": row["path"]}, on_error="skip").to_arrow()


@pytest.mark.parametrize("shuffle", [True, False, "2MB"])
def test_loaders_hand_out_each_image_once(folder: Path, shuffle: bool | str) -> None:
    def loader(batch_size: int) -> xs.DataLoader:
        images = xs.read_images(folder, size=(6, 4)).select("image", name="path")
        return xs.DataLoader(images, batch_size=batch_size, seed=5, shuffle=shuffle, format="arrow")

    whole = loader(7)
    rows = [row for batch in whole for row in batch.to_pylist()]
    assert sorted(row["name"] for row in rows) == sorted(map(str, folder.rglob("*.*")))
    pixels = Pixels((6, 4), "RGB")
    for row in rows:
        expected = pixels.decoded(Path(row["name"]).read_bytes())["image"]
        assert bytes(row["image"]) == expected
    first = loader(7)
    taken = next(iter(first)).to_pylist()
    rest = loader(4)
    rest.load_state_dict(first.state_dict())
    assert taken + [row for batch in rest for row in batch.to_pylist()] == rows
    named = whole.rows_of(epoch=0, step=0)
    assert [file for file, _ in named] == [row["name"] for row in rows[:7]]


def test_pillow_is_asked_for_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(
        OptionsError, match=r"read_images needs Pillow.*pip install pillow.*read_binary"
    ):
        xs.read_images(folder)


def test_folders_have_other_names_than_columns_of_images(tmp_path: Path) -> None:
    (tmp_path / "height=1").mkdir()
    drawn(1, 2, 2).save(tmp_path / "height=1" / "a.png")
    with pytest.raises(SchemaError, match=r"folders give a column 'height'.*hive=False"):
        xs.read_images(tmp_path)
    assert xs.read_images(tmp_path, hive=False).columns == ["image", "height", "width", "path"]
