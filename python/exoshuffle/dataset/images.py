"""``read_images``: a dataset of images, decoded in worker processes."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util

from exoshuffle.arguments import is_whole
from exoshuffle.dataset.arguments_elsewhere import refuse_arguments
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.inputs.file_input import FileInput
from exoshuffle.dataset.opening import Hive, Paths
from exoshuffle.dataset.read import read_binary
from exoshuffle.dataset.tree.nodes import MapNode, Node, StageNode, sources
from exoshuffle.errors import OptionsError, SchemaError, shown
from exoshuffle.operators.steps.images import CHANNELS, DecodeImages, Pixels
from exoshuffle.operators.steps.needs import Needs
from exoshuffle.operators.steps.skipping import check_on_error
from exoshuffle.units import option_bytes

#: Files whose headers tell how large images are when they are decoded.
_LOOKED_AT = 8
#: Pillow in a worker process, and an image before and behind its conversion, of four bytes a pixel.
_LIBRARY_BYTES, _PIXEL_BYTES = 8_000_000, 8
#: Images that keep their size: their bytes as Pillow copies them, twice, in their row, and in its column.
_COPIES = 4
#: More bytes than a file has.
_ANY_BYTES = 2**62


def read_images(
    paths: Paths,
    *,
    size: int | tuple[int, int] | None = None,
    mode: str = "RGB",
    on_error: str = "raise",
    memory: int | str | None = None,
    hive: Hive = True,
    **others: object,
) -> Dataset:
    """Reads images: each file is a row, with its pixels in ``image`` and its ``path``.

    With ``size``, ``image`` is a tensor of height × width × channels of bytes (height × width in mode ``L``), which is
    an array in NumPy batches. Without, images keep their sizes. Then ``image`` has the bytes of the pixels, row by row,
    and the columns ``height`` and ``width`` say how many they are.

    >>> images = xs.read_images("train/", size=(224, 224)).with_columns(label="split_part(path, '/', -2)")
    >>> loader = xs.DataLoader(images.select("image"), batch_size=256, seed=7)

    Images are decoded in worker processes, by Pillow, only where ``image`` is needed. Behind a ``DataLoader`` files are
    shuffled as they are, and decoded last. The orientation that EXIF tells is left alone.

    Args:
        paths: See ``read_parquet``. All files are taken for images: name some by a pattern, ``"in/**/*.jpg"``.
        size: Height and width, or one number for both; other images are scaled to it, bilinearly. JPEG files that are
            more than twice as large are decoded at a fraction of their size.
        mode: The channels of a pixel: ``L`` (grey), ``LA``, ``RGB``, ``RGBA``, ``CMYK``, ``YCbCr`` or ``HSV``.
        on_error: ``"skip"`` leaves out files that are no images; they are counted and named in the result of
            ``write_*``, and a warning tells of them.
        memory: Most memory that decoding an image takes. Default: by the headers of the largest files.
        hive: See ``read_parquet``.
        **others: None; arguments of Ray Data are refused with what to write instead.

    Raises:
        OptionsError: Pillow is not installed, or an argument that cannot work.
        InputError: As ``read_binary``; while running: a file is no image; the error names it.

    Cost: here, the headers of the 8 largest files.
    """
    refuse_arguments("read_images", others)
    if importlib.util.find_spec("PIL") is None:
        raise OptionsError(
            "read_images needs Pillow, and it is not installed; install it (pip install pillow), or write "
            "read_binary(paths).map(decode), where decode opens row['bytes'] with a library of yours"
        )
    if mode not in CHANNELS:
        raise OptionsError(f"mode is {shown(mode)}; write one of {', '.join(CHANNELS)}")
    pixels = Pixels(_checked_size(size), mode)
    skips = check_on_error(on_error)
    files = read_binary(paths, hive=hive)
    _check_names(files, pixels)
    declared = (
        _bytes_of_largest(files.node, pixels)
        if memory is None
        else option_bytes("memory", memory, 0)
    )
    step = DecodeImages(pixels, memory_bytes=declared, on_error=skips)
    if skips == "skip":
        return Dataset(StageNode(files.node, step, Needs()))
    return Dataset(MapNode(files.node, step))


def _checked_size(size: object) -> tuple[int, int] | None:
    if size is None:
        return None
    both = (size, size) if is_whole(size) else size
    if (
        not isinstance(both, tuple | list)
        or len(both) != 2
        or not all(is_whole(length) and 1 <= length < 2**16 for length in both)
    ):
        raise OptionsError(
            f"size is {shown(size)}; give (height, width), two whole numbers from 1 to 65535, or one for both"
        )
    return int(both[0]), int(both[1])


def _check_names(files: Dataset, pixels: Pixels) -> None:
    """Raises ``SchemaError`` if a folder ``key=value`` has the name of a column of images."""
    own = [name for name, _ in pixels.fields]
    twice = [name for name in files.columns if name in own]
    if twice:
        raise SchemaError(
            f"folders give a column {twice[0]!r}, and images have one of that name; rename the folders, or write "
            "hive=False"
        )


def _bytes_of_largest(node: Node, pixels: Pixels) -> int:
    """Returns the memory that the largest images may take, as far as headers of the largest files tell."""
    module = importlib.import_module("PIL.Image")
    pieces = [piece for source in sources(node) for piece in FileInput(source).pieces(_ANY_BYTES)]
    largest = sorted(pieces, key=lambda piece: piece.size, reverse=True)[:_LOOKED_AT]
    most = 0
    for piece in largest:
        # A file that is no image is found, and named, when it is decoded.
        with contextlib.suppress(Exception), module.open(piece.file) as image:
            most = max(most, image.width * image.height)
    kept = _COPIES * CHANNELS[pixels.mode] if pixels.size is None else 0
    return _LIBRARY_BYTES + (_PIXEL_BYTES + kept) * most
