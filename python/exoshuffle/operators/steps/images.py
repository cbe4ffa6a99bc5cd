"""The step that decodes images: of rows with the bytes of files it makes rows with their pixels.

Guarantee: each row comes from the file that its ``path`` names, and no other. A file that is no image is an error that
names it, or is skipped and counted. Pixels are those that Pillow gives, row by row from the top left, a byte for each
channel.
"""

from __future__ import annotations

import importlib
import io
import itertools
from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from exoshuffle.errors import InputError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.steps.rows import FlatMap
from exoshuffle.operators.steps.skipping import PATH

if TYPE_CHECKING:
    import pyarrow as pa

#: The columns of images, and that of their files.
IMAGE, HEIGHT, WIDTH, BYTES = "image", "height", "width", "bytes"
#: Bytes of a pixel by mode.
CHANNELS = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4, "YCbCr": 3, "HSV": 3}
#: JPEG files are decoded at a fraction of their size, as long as that is so many times the size that is wanted.
_REDUCING_GAP = 2


@dataclass(frozen=True)
class Pixels:
    """The size and the form of decoded images.

    Attributes:
        size: Height and width that all of them get; None for their own.
        mode: Pillow's name of the channels.
    """

    size: tuple[int, int] | None
    mode: str

    def __call__(self, row: Mapping[str, Any]) -> list[dict[str, object]]:
        """Returns the row of an image.

        Raises:
            InputError: The file is no image; names it.
        """
        others = {name: value for name, value in row.items() if name != BYTES}
        try:
            return [{**self.decoded(row[BYTES]), **others}]
        except (MemoryError, InputError):
            raise
        except Exception as error:
            raise InputError(
                f"file {row[PATH]!r} is no image that Pillow can decode: {_reason(error)}; leave it out, name images "
                'by a pattern such as "in/*.jpg", or write read_images(..., on_error="skip")'
            ) from error

    def decoded(self, data: bytes) -> dict[str, object]:
        """Returns the columns of an image."""
        module = importlib.import_module("PIL.Image")
        with module.open(io.BytesIO(data)) as image:
            if self.size is None:
                made = image if image.mode == self.mode else image.convert(self.mode)
                return {IMAGE: made.tobytes(), HEIGHT: made.height, WIDTH: made.width}
            height, width = self.size
            image.draft(None, (_REDUCING_GAP * width, _REDUCING_GAP * height))
            made = image.convert(self.mode)
            if made.size != (width, height):
                made = made.resize((width, height), module.Resampling.BILINEAR)
            return {IMAGE: made.tobytes()}

    @property
    def fields(self) -> list[tuple[str, pa.DataType]]:
        """The columns of an image, and their types."""
        import pyarrow as pa

        if self.size is None:
            return [(IMAGE, pa.binary()), (HEIGHT, pa.int32()), (WIDTH, pa.int32())]
        channels = CHANNELS[self.mode]
        shape = self.size if channels == 1 else (*self.size, channels)
        return [(IMAGE, pa.fixed_shape_tensor(pa.uint8(), shape))]


def _reason(error: Exception) -> str:
    # Its own words name the buffer that it was given, at an address.
    is_unknown = isinstance(error, importlib.import_module("PIL").UnidentifiedImageError)
    return "it has none of the formats that it knows" if is_unknown else str(error)


@dataclass(frozen=True)
class DecodeImages(FlatMap):
    """Decodes the bytes of files; ``function`` is a ``Pixels``. Where no pixels are wanted, it decodes none."""

    call: str = "read_images"

    @property
    def keeps_each(self) -> bool:
        """See ``Step``."""
        return True

    @property
    def name(self) -> str:
        """See ``MapBatches``."""
        return self.call

    @property
    def makes_rows(self) -> bool:
        """See ``Step``: a row is that of its file, unless some may be skipped."""
        return self.on_error == "skip"

    @property
    def first_rows(self) -> int:
        """See ``FlatMap``: an image may be large."""
        return 1

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        import pyarrow as pa

        others = [field for field in schema if field.name != BYTES]
        return pa.schema([*(self._fields if BYTES in schema.names else ()), *others])

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``: pixels need the bytes of the file, and its path for errors."""
        del schema
        made = {name for name, _ in self._fields}
        if needed & made or self.on_error == "skip":
            return frozenset({*needed - made, BYTES, PATH})
        return needed or frozenset({PATH})

    def names_before(self, names: Mapping[str, str]) -> dict[str, str]:
        """See ``Step``."""
        made = {name for name, _ in self._fields}
        return {name: own for name, own in names.items() if own not in made}

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        if BYTES not in batches.schema.names:
            return batches
        return super().apply(batches)

    @property
    def _fields(self) -> list[tuple[str, pa.DataType]]:
        assert isinstance(self.function, Pixels)
        return self.function.fields

    def _column(self, values: list[Any], field: pa.Field) -> pa.Array:
        import pyarrow as pa

        if field.name != IMAGE:
            return super()._column(values, field)
        # Arrow appends the bytes of each image to a buffer that it moves as it grows: 16 us for an image of 58 kB. One
        # copy of all takes 4 us of each.
        joined = pa.py_buffer(b"".join(values))
        if not isinstance(field.type, pa.FixedShapeTensorType):
            ends = pa.py_buffer(array("i", itertools.accumulate(map(len, values), initial=0)))
            return pa.Array.from_buffers(field.type, len(values), [None, ends, joined])
        flat = pa.UInt8Array.from_buffers(pa.uint8(), joined.size, [None, joined])
        lists = pa.FixedSizeListArray.from_arrays(flat, type=field.type.storage_type)
        return pa.ExtensionArray.from_storage(field.type, lists)
