"""Tables that come in parts: a design learned part by part, and its rows in files that are read in blocks.

`stabconf.fit` comes here with a dask frame, the command line with a pattern of files. One part is in memory
at a time, and later one block of rows.
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from ..errors import FormulaError, InputError
from . import formulas
from .design import Unseen
from .factors import both_sides_of_parts, evaluate
from .formulas import formula_errors
from .frames import as_frame, check_column, check_finite, listed, plain_columns
from .frozen_design import FrozenDesign
from .table_files import read_table
from .units import ColumnKinds, ColumnStatistics, ColumnUnits

_BLOCK = 2**20  # numbers that are read at a time


@dataclass(frozen=True)
class TableParts:
    """A table in parts, each loaded when it is its turn.

    ``columns`` are its columns; ``loaders``, of those that are needed, gives functions without arguments,
    one for each part, that return a frame.
    """

    columns: Sequence[Any]
    loaders: Callable[[list[Any]], Sequence[Callable[[], pd.DataFrame]]]

    @classmethod
    def of_dask(cls, frame: Any) -> "TableParts":
        """The partitions of a dask frame."""
        return cls(frame.columns, lambda needed: [part.compute for part in frame[needed].to_delayed()])

    @classmethod
    def of_files(cls, paths: Sequence[Path]) -> "TableParts":
        """Files, each a table with the same columns."""
        return cls(read_table(paths[0]).columns, lambda _: [partial(read_table, path) for path in paths])


class StoredRows:
    """Rows of a design, and what goes with them, in a temporary folder, which goes when the object does.

    Attributes
    ----------
    n : int
        Number of rows.
    columns : int
        Number of design columns, which are the first ones stored; the last one is the response.
    """

    def __init__(self, columns: int) -> None:
        self.n, self.columns = 0, columns
        self._files: list[Path] = []
        self._folder = tempfile.mkdtemp(prefix="stabconf-")
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def add(self, table: np.ndarray) -> None:
        """Append rows (b, q)."""
        path = Path(self._folder) / f"{len(self._files)}.npy"
        np.save(path, table)
        self._files.append(path)
        self.n += len(table)

    def tables(self) -> Iterator[np.ndarray]:
        """The rows (b, q), block by block."""
        for path in self._files:
            table = np.load(path, mmap_mode="r")
            step = max(1, _BLOCK // table.shape[1])
            for first in range(0, len(table), step):
                yield table[first : first + step]

    def blocks(self, units: ColumnUnits) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Standardised rows (b, p) and responses (b,) in their own units, block by block."""
        for table in self.tables():
            yield units.apply(table[:, : self.columns]), np.array(table[:, -1])

    def statistics(self, parts: Iterable[int]) -> tuple[ColumnStatistics, tuple[float, float]]:
        """The `ColumnStatistics` of the design columns, and the range of the responses; columns between
        them are the numeric ``parts`` of design columns."""
        ends = [(table.sum(axis=0), table.min(axis=0), table.max(axis=0)) for table in self.tables()]
        totals, lows, highs = (np.array(each) for each in zip(*ends, strict=True))
        mean, low, high = totals.sum(axis=0) / self.n, lows.min(axis=0), highs.max(axis=0)
        squares, two_values = np.zeros(len(mean)), np.ones(len(mean), dtype=bool)
        for table in self.tables():
            squares += np.square(table - mean).sum(axis=0)
            two_values &= np.all((low == table) | (high == table), axis=0)
        sd, p = np.sqrt(squares / self.n), self.columns
        spread = dict(zip(parts, sd[p:-1].tolist(), strict=True))
        known = ColumnStatistics(mean[:p], sd[:p], low[:p], high[:p], two_values[:p], spread)
        return known, (low[-1], high[-1])

    def constant(self) -> np.ndarray | None:
        """As `spans_constant`: coefficients (p,) with which the columns add up to 1, or None."""
        p = self.columns
        gram, total = np.zeros((p, p)), np.zeros(p)
        for X in (table[:, :p] for table in self.tables()):
            gram += X.T @ X
            total += X.sum(axis=0)
        unit = np.sqrt(gram.diagonal())
        unit[unit == 0] = 1.0
        scaled = gram / unit[:, None] / unit
        found = np.linalg.pinv(scaled, rcond=1e-12, hermitian=True) @ (total / unit) / unit
        off = max(float(np.max(np.abs(table[:, :p] @ found - 1.0))) for table in self.tables())
        return found if off <= 1e-8 else None


class PartedDesign(FrozenDesign):
    """The map of a formula, learned from parts; see `learn_design`.

    Attributes
    ----------
    kinds : ColumnKinds
        Without numeric parts, which ``statistics`` has the spread of.
    statistics : ColumnStatistics
    count_dropped : int
        Rows left out because a value is missing.
    """

    kinds: ColumnKinds
    statistics: ColumnStatistics
    count_dropped: int


def learn_design(
    formula: str,
    parts: TableParts,
    scope: Mapping[str, Any],
    missing: Literal["drop", "raise"],
    unseen: Unseen,
) -> tuple[PartedDesign, StoredRows]:
    """The design of a formula learned from parts, and its rows."""
    sides = formulas.sides_of(formula)
    left, right = map(formulas.codes_of, sides)
    used = formulas.names_in(*left, *right)
    names, columns = formulas.taken_from(scope, used - set(parts.columns), pd.RangeIndex(0))
    if columns:
        raise FormulaError(
            f"formula={formula!r} takes {listed(sorted(columns), 'Series')} of the calling scope, which "
            "cannot be matched to rows that come in parts: make it a column"
        )

    loaders = parts.loaders([column for column in parts.columns if column in used])

    def frames() -> Iterator[pd.DataFrame]:
        for load in loaders:
            frame = as_frame(load(), "data")
            if not len(frame):
                continue
            plain = pd.DataFrame(plain_columns(frame, used, "data"), index=frame.index, copy=False)
            for code in left + right:
                name, category = formulas.column_of(code)
                if name in plain.columns:
                    check_column(plain[name], name, code in left, category)
            yield plain

    first = next(frames(), None)
    if first is None:
        raise InputError("data has 0 rows: give a frame with training rows")
    try:
        responses, info = both_sides_of_parts(formula, sides, frames, names)
    except FormulaError as error:
        hint = formulas.formula_hint(formula, pd.Index(parts.columns), str(error))
        if not hint:
            raise
        raise FormulaError(f"{error}\nHint: {hint}.") from error
    if len(responses.column_names) > 1:
        raise FormulaError(
            f"formula={formula!r} has {len(responses.column_names)} responses, and rows that come in parts "
            "are fitted one response at a time: call fit once for each"
        )
    design = object.__new__(PartedDesign)
    response = responses.column_names[0]
    known = {"formula": formula, "names": list(info.column_names), "response": response}
    known |= {"transformed": not formulas.is_column(response, first.columns), "unseen": "raise"}
    known |= {"_info": info, "_left": responses, "_outside": (), "_place": 0, "_scope": names}
    known |= {"predictors": formulas.columns_in(right, first.columns)}
    known |= {"_responding": formulas.columns_in(left, first.columns)}
    design.__dict__.update(known)
    rows = _stored(design, frames(), first.iloc[:0], missing)
    return design.leaving_unseen(unseen), rows


def _stored(
    design: PartedDesign, frames: Iterator[pd.DataFrame], empty: pd.DataFrame, missing: str
) -> StoredRows:
    """The rows of a design, in files; the design is told what can be said of them all."""
    rows = StoredRows(len(design.names))
    infos = [design._left, design._info]
    ranges, count = [], 0
    for frame in frames:
        with formula_errors(f"data cannot be put through {design.formula!r}"):
            made = evaluate(infos, frame, frame.index, "drop")
        Y, X = (made.matrix(info) for info in infos)
        if missing == "raise" and len(X) < len(frame):
            columns = [column for column in frame.columns if frame[column].isna().any()]
            raise InputError(
                f"data has missing values in {listed(columns, 'column')}: fill them, or use missing='drop'"
            )
        index = frame.index[made.kept]
        check_finite(Y, [design.response], index, "data")
        check_finite(X, design.names, index, "data")
        count += len(frame)
        if len(X):
            kinds = made.kinds(design._info)
            rows.add(np.column_stack([X, *kinds.parts.values(), Y]))
            ranges.append(frame[design.predictors].iloc[made.kept].select_dtypes("number"))
            ranges = [pd.concat(ranges).agg(["min", "max"])] if len(ranges[0].columns) else ranges[:1]
    if rows.n < 2:
        raise InputError(f"data has {rows.n} complete rows (of {count}): at least 2 are needed")
    design.statistics, ends = rows.statistics(kinds.parts)
    plain = ColumnKinds(kinds.intercept, kinds.categorical)
    numeric = ranges[0] if len(ranges[0].columns) else None
    design.hold(empty, numeric, count, plain, ends)
    design.count_dropped = count - rows.n
    return rows
