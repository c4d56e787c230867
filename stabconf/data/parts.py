"""Tables that come in parts: a design learned part by part, and its rows in files that are read in blocks.

`stabconf.fit` comes here with a dask frame, the command line with a pattern of files. One part is in memory
at a time, and later one block of rows.
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from ..errors import FormulaError, InputError
from . import formulas
from .design import Unseen, checked_frame
from .factors import Table, check_responses, depending, evaluate, learn, learning
from .frames import as_frame, check_finite, listed, refuse_missing
from .frozen_design import FrozenDesign
from .table_files import read_table
from .units import ColumnKinds, ColumnStatistics, ColumnUnits, units_from

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
    """The ``n`` rows of a design and their responses in a temporary folder, which goes with the object."""

    def __init__(self) -> None:
        self.n = 0
        folder = tempfile.mkdtemp(prefix="stabconf-")
        self._path = Path(folder) / "rows"
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def add(self, X: np.ndarray, y: np.ndarray) -> None:
        """Append rows (b, p) and responses (b,)."""
        with self._path.open("ab") as file:
            np.column_stack([X, y]).tofile(file)
        self.n += len(y)

    def blocks(self, columns: ColumnUnits) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Standardised rows (b, p) and responses (b,) in their own units, block by block."""
        table = np.memmap(self._path, dtype=float, mode="r").reshape(self.n, -1)
        step = max(1, _BLOCK // table.shape[1])
        for first in range(0, self.n, step):
            block = table[first : first + step]
            yield columns.apply(block[:, :-1]), np.array(block[:, -1])

    def constant(self) -> np.ndarray | None:
        """As `spans_constant`: coefficients (p,) with which the columns add up to 1, or None."""
        as_they_are = ColumnUnits(np.zeros(1), np.ones(1))
        gram: Any = 0.0
        total: Any = 0.0
        for X, _ in self.blocks(as_they_are):
            gram = gram + X.T @ X
            total = total + X.sum(axis=0)
        unit = np.sqrt(gram.diagonal())
        unit[unit == 0] = 1.0
        inverse = np.linalg.pinv(gram / unit[:, None] / unit, rcond=1e-12, hermitian=True)
        found = inverse @ (total / unit) / unit
        off = max(float(np.max(np.abs(X @ found - 1.0))) for X, _ in self.blocks(as_they_are))
        return found if off <= 1e-8 else None


def learn_design(
    formula: str,
    parts: TableParts,
    scope: Mapping[str, Any],
    missing: Literal["drop", "raise"],
    unseen: Unseen,
) -> tuple[FrozenDesign, StoredRows, ColumnUnits, np.ndarray]:
    """The design of a formula learned from parts, its rows, and what `column_units` gives for them all."""
    formulas.check_asked(formula, missing)
    sides = formulas.sides_of(formula)
    used = formulas.names_in(*(code for side in sides for code in formulas.codes_of(side)))
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
            if len(frame):
                yield checked_frame(frame, sides)

    first = next(frames(), None)
    if first is None:
        raise InputError("data has 0 rows: give a frame with training rows")
    with formulas.hints(formula, parts.columns), learning(formula):
        infos = learn(sides, lambda: map(Table, frames()), names)
        check_responses(formula, infos[0])
    responses = infos[0].column_names
    if len(responses) > 1:
        raise FormulaError(
            f"formula={formula!r} has {len(responses)} responses, and rows that come in parts are fitted "
            "one response at a time: call fit once for each"
        )
    design = object.__new__(FrozenDesign)
    design._take(formula, sides, names, infos, first.iloc[:0])
    rows, units = _stored(design, frames(), missing)
    return design.leaving_unseen(unseen), rows, *units


def _stored(
    design: FrozenDesign, frames: Iterator[pd.DataFrame], missing: str
) -> tuple[StoredRows, tuple[ColumnUnits, np.ndarray]]:
    """The rows of a design, in files, and their `column_units`; the design is told what they are like."""
    rows = StoredRows()
    infos = [design._left, design._info]
    statistics, ranges, count = [], [], 0
    for frame in frames:
        with formulas.formula_errors(f"data cannot be put through {design.formula!r}"):
            made = evaluate(infos, Table(frame), frame.index)
        Y, X = (made.matrix(info) for info in infos)
        if missing == "raise" and len(X) < len(frame):
            refuse_missing(design.formula, frame, frame.index.delete(made.kept))
        if odd := depending(design._info, X, frame, made.kept):
            raise FormulaError(
                f"formula={design.formula!r} has {listed(odd, 'column')} whose values depend on what other "
                "rows are there, so that each part would have its own: write center(x) or standardize(x), "
                "or make it a column"
            )
        index = frame.index[made.kept]
        check_finite(Y, design.responses_named, index, "data")
        check_finite(X, design.names, index, "data")
        count += len(frame)
        if len(X):
            kinds = made.kinds(design._info)
            rows.add(X, Y[:, 0])
            others = np.column_stack([Y, *kinds.parts.values()])
            statistics.append((ColumnStatistics.of(X, ~kinds.categorical), ColumnStatistics.of(others)))
            ranges.append(frame[design.predictors].iloc[made.kept].select_dtypes("number"))
            ranges = [pd.concat(ranges).agg(["min", "max"])] if len(ranges[0].columns) else ranges[:1]
    if rows.n < 2:
        raise InputError(f"data has {rows.n} complete rows (of {count}): at least 2 are needed")
    known, beside = map(ColumnStatistics.joined, zip(*statistics, strict=True))
    plain = ColumnKinds(kinds.intercept, kinds.categorical)
    design.hold(design._frame, ranges[0], count, plain)
    design._Y = np.array([beside.low[:1], beside.high[:1]])
    design._choose(0)
    design.dropped = pd.RangeIndex(count - rows.n)
    spread = dict(zip(kinds.parts, beside.sd[1:].tolist(), strict=True))
    return rows, units_from(known, spread, plain)
