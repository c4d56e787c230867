"""Work on many new rows in chunks: over processes if asked for, with a progress bar."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

from ..errors import InputError
from ..rank import Rank
from ..threads import keep_one_thread

__all__ = ["Work", "in_chunks", "progress_bar"]

_CHUNK = 1000  # rows; also the step of the progress bar
_PATIENCE = 3.0  # seconds before a bar appears unasked


@dataclass(frozen=True)
class Work:
    """New rows, their ranks (one an alpha) and columns beside them; slices are the same for some rows."""

    rows: np.ndarray
    ranks: Sequence[Rank]
    beside: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: slice) -> "Work":
        beside = None if self.beside is None else self.beside[part]
        return Work(self.rows[part], [rank.take(part) for rank in self.ranks], beside)


def progress_bar(total: int, unit: str, label: str, progress: bool | None) -> Any:
    """A bar for long work; with ``progress`` None it shows in a terminal only, once the work takes long."""
    return tqdm(
        total=total,
        unit=unit,
        desc=label,
        disable=None if progress is None else not progress,
        delay=_PATIENCE if progress is None else 0,
        leave=False,
    )


def in_chunks(
    function: Callable[[Any], Any],
    rows: Work | np.ndarray,
    n_jobs: int = 1,
    progress: bool | None = None,
    size: int = _CHUNK,
    unit: str = "row",
) -> list[Any]:
    """``function`` of each chunk of rows, in order; it must be picklable where ``n_jobs`` is not 1.

    ``n_jobs`` is a number of processes, -1 for one per core; ``size`` that of a chunk, at
    most; ``unit`` what the bar counts.
    """
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs == 0 or n_jobs < -1:
        raise InputError(
            f"n_jobs={n_jobs!r} is not allowed: give a number of processes, or -1 for all cores"
        )
    jobs = (os.cpu_count() or 1) if n_jobs == -1 else n_jobs
    size = max(1, min(size, -(-len(rows) // jobs)))
    chunks = [rows[first : first + size] for first in range(0, max(len(rows), 1), size)]
    out = []
    with ExitStack() as stack:
        bar = stack.enter_context(progress_bar(len(rows), unit, "conformal sets", progress))
        each: Callable[..., Any] = map
        if jobs > 1 and len(chunks) > 1:
            pool = ProcessPoolExecutor(min(jobs, len(chunks)), initializer=keep_one_thread)
            each = stack.enter_context(pool).map
        for chunk, result in zip(chunks, each(function, chunks), strict=True):
            out.append(result)
            bar.update(len(chunk))
    return out
