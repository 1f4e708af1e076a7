"""NumPy's .npz: the arrays of a tensor, and its axes, in one compressed file without pickle."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import listing
from tallyfold.data.formats.writing import Targets, axes_from_bytes, axes_to_bytes
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, FormatError, ParameterError

VERSION = 1
_KEYS = {"tallyfold", "axes", "indices", "counts"}


class Npz:
    """Read and write .npz files of our own making."""

    has_axes_file = False

    def read(self, file: str, axes: Sequence[str] | None, repeated: str = "sum") -> CountTensor:
        """Read a tensor back; its cells are distinct, so ``repeated`` is not used."""
        if axes is not None:
            raise ParameterError("an .npz file holds its axes: leave `axes` out.")
        try:
            with open(file, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
                if not set(archive.files) >= _KEYS:
                    raise FormatError(
                        f"{file!r} is no tensor written by tallyfold: it must hold "
                        f"{listing(sorted(_KEYS))}; it holds {listing(list(archive.files))}. For "
                        "arrays of other kinds use CountTensor.from_array."
                    )
                self._check_version(file, archive["tallyfold"])
                recorded = axes_from_bytes(archive["axes"].tobytes(), file)
                return CountTensor(recorded, archive["indices"], archive["counts"])
        except (FileNotFoundError, PermissionError, IsADirectoryError):
            raise
        except (
            OSError, ValueError, EOFError, KeyError, TypeError, AttributeError, MemoryError,
            NotImplementedError, zipfile.BadZipFile, zlib.error, DataError,
        ) as error:  # fmt: skip
            raise FormatError(f"{file!r} is damaged or no .npz file: {str(error)[:400]}") from error

    def write(self, tensor: CountTensor, targets: Targets, value: str) -> None:
        """Write the arrays; an .npz file has no columns, so ``value`` is not used."""
        np.savez_compressed(
            targets.file,
            tallyfold=np.array(VERSION),
            axes=np.frombuffer(axes_to_bytes(tensor.axes), np.uint8),
            indices=tensor.indices,
            counts=tensor.counts,
        )

    def _check_version(self, file: str, version: npt.NDArray[np.int64]) -> None:
        if int(version) > VERSION:
            raise FormatError(
                f"{file!r} has version {int(version)} of the format; this tallyfold reads up to "
                f"{VERSION}. Upgrade tallyfold."
            )
