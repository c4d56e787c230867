"""Work on many new rows in chunks: over processes if asked for, with a progress bar."""

import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from ..errors import InputError

__all__ = ["Work", "in_chunks", "progress_bar"]

_CHUNK = 1000  # rows; also the step of the progress bar
_PATIENCE = 3.0  # seconds before a bar appears unasked


@dataclass(frozen=True)
class Work:
    """New rows, their ranks (one an alpha) and columns beside them; slices are the same for some rows."""

    rows: np.ndarray
    ranks: list
    beside: np.ndarray | None = None

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, part):
        beside = None if self.beside is None else self.beside[part]
        return Work(self.rows[part], [rank.take(part) for rank in self.ranks], beside)


def progress_bar(total, unit, label, progress):
    """A bar for long work; with ``progress`` None it shows in a terminal only, once the work takes long."""
    return tqdm(
        total=total,
        unit=unit,
        desc=label,
        disable=None if progress is None else not progress,
        delay=_PATIENCE if progress is None else 0,
        leave=False,
    )


def in_chunks(function, rows, n_jobs=1, progress=None, size=_CHUNK):
    """``function`` of each chunk of rows, in order.

    Parameters
    ----------
    function : callable
        Must be picklable where ``n_jobs`` is not 1.
    rows : Work, or (m, p) array
    n_jobs : int
        Number of processes; -1 for one a core.
    progress : bool or None
        None shows a bar in a terminal, once the work takes long.
    size : int
        Rows of a chunk, at most.

    Returns
    -------
    list
    """
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs == 0 or n_jobs < -1:
        raise InputError(
            f"n_jobs={n_jobs!r} is not allowed: give a number of processes, or -1 for all cores"
        )
    jobs = (os.cpu_count() or 1) if n_jobs == -1 else n_jobs
    size = max(1, min(size, -(-len(rows) // jobs)))
    chunks = [rows[first : first + size] for first in range(0, max(len(rows), 1), size)]
    bar = progress_bar(len(rows), "row", "conformal sets", progress)
    alone = jobs == 1 or len(chunks) == 1
    out = []
    with bar, nullcontext() if alone else ProcessPoolExecutor(min(jobs, len(chunks))) as pool:
        made = map(function, chunks) if alone else pool.map(function, chunks)
        for chunk, result in zip(chunks, made, strict=True):
            out.append(result)
            bar.update(len(chunk))
    return out
