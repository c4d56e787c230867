"""Tables in files: CSV, TSV and Parquet, by the ending of the name; for the command line."""

import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from lzma import LZMAError
from os import PathLike
from pathlib import Path
from zipfile import BadZipFile

import pandas as pd

from ..errors import InputError
from ..files import check_folder, write_whole

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_PACKED = (".gz", ".bz2", ".xz", ".zip")

FilePath = str | PathLike[str]


def table_kind(path: FilePath) -> str:
    """The ending ".csv", ".tsv" or ".parquet"; text may be packed (``.csv.gz``) for reading."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    kind = suffixes[-2] if len(suffixes) > 1 and suffixes[-1] in _PACKED else (suffixes or [""])[-1]
    if kind not in (*_SEPARATORS, ".parquet"):
        raise InputError(f"{str(path)!r}: give a file that ends in .csv, .tsv or .parquet")
    return kind


def read_table(path: FilePath) -> pd.DataFrame:
    """A table from a file."""
    kind = table_kind(path)
    if not Path(path).is_file():
        raise InputError(f"there is no file {str(path)!r}")
    try:
        if kind == ".parquet":
            with _pyarrow():
                return pd.read_parquet(path, engine="pyarrow")
        frame = pd.read_csv(path, sep=_SEPARATORS[kind])
    except InputError:
        raise
    except (ValueError, OSError, EOFError, BadZipFile, LZMAError, zlib.error) as error:
        reason = str(error).strip().split("\n")[0]
        fix = ": save it as UTF-8" if isinstance(error, UnicodeDecodeError) else ""
        raise InputError(f"{str(path)!r} cannot be read as {kind[1:].upper()}: {reason}{fix}") from error
    name = str(frame.columns[0])
    if frame.shape[1] == 1 and any(sign in name for sign in {";", ",", "\t"} - {_SEPARATORS[kind]}):
        raise InputError(
            f"{str(path)!r} has one column, {name!r}: separate columns by commas (.csv) or tabs (.tsv)"
        )
    return frame


def check_table_path(path: FilePath, argument: str) -> str:
    """The kind of a table to write, once it is known that it can be; errors name ``argument``."""
    kind = table_kind(check_folder(path, argument))
    if Path(path).suffix.lower() != kind:
        raise InputError(
            f"{argument}={str(path)!r}: tables are written as .csv, .tsv or .parquet, not packed"
        )
    return kind


def write_table(path: FilePath, frame: pd.DataFrame) -> Path:
    """Write a table, index included, whole or not at all."""
    kind = check_table_path(path, "path")
    if kind == ".parquet":
        out = io.BytesIO()
        plain = frame.copy()
        plain.attrs = {}  # records of the intervals, which Parquet cannot hold
        with _pyarrow():
            plain.to_parquet(out, engine="pyarrow")
        return write_whole(path, out.getvalue())
    return write_whole(path, frame.to_csv(sep=_SEPARATORS[kind]).encode("utf-8"))


@contextmanager
def _pyarrow() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise InputError(
            "Parquet needs pyarrow: pip install pyarrow (or 'stabconf[parquet]'), or use .csv"
        ) from error
