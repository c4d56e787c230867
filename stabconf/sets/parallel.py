"""Work on many new rows in chunks: shared among joblib's workers if asked for, with a progress bar.

Methods that follow paths or refit come here by `Request.in_chunks`. joblib starts fresh processes (loky),
so that other threads, and scripts without a guard of ``__main__``, do no harm; ``joblib.parallel_config``
chooses another backend, a cluster's say.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from typing import Any

from ..errors import InputError, WorkerError

CHUNK = 1000  # rows; also the step of the progress bar
_PATIENCE = 3.0  # seconds before a bar appears unasked
_ENTRIES = 2_000_000  # of an array


def parts_of(n: int, count: int) -> Iterator[slice]:
    """A few of ``count`` things at a time: arrays have n entries for each of them."""
    size = max(1, _ENTRIES // n)
    for first in range(0, count, size):
        yield slice(first, min(first + size, count))


def progress_bar(total: int, unit: str, label: str, progress: bool | None) -> Any:
    """A bar for long work, a notebook's own where there is one; with ``progress`` None it shows in a
    terminal only, once the work takes long."""
    from tqdm import tqdm

    more: dict[str, Any] = {"total": total, "unit": unit, "desc": label, "leave": False}
    if not progress:
        return tqdm(**more, disable=None if progress is None else True, delay=_PATIENCE)
    from tqdm.auto import tqdm as suitable  # it warns on import in notebooks that lack widgets

    return suitable(**more)


def in_chunks(
    function: Callable[[Any], Any],
    rows: Any,
    n_jobs: int | None = None,
    progress: bool | None = None,
    size: int = CHUNK,
    unit: str = "row",
) -> list[Any]:
    """``function`` of each chunk of rows, in order; it must be picklable where workers are processes.
    ``n_jobs`` are workers as joblib counts them (-1 for one per core, None for what
    ``joblib.parallel_config`` says, or 1); ``size`` is that of a chunk, ``unit`` what the bar counts."""
    from joblib import Parallel, delayed, effective_n_jobs  # it takes long to import

    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs == 0):
        raise InputError(f"n_jobs={n_jobs!r} is not allowed: give a number of processes, -1 for all cores")
    size = max(1, min(size, -(-len(rows) // effective_n_jobs(n_jobs))))
    chunks = [rows[first : first + size] for first in range(0, max(len(rows), 1), size)]
    jobs = n_jobs if len(chunks) > 1 else 1
    try:
        workers = Parallel(jobs, return_as="generator")
    except ValueError:  # a backend whose answers do not come one by one
        workers = Parallel(jobs)
    out = []
    try:
        with progress_bar(len(rows), unit, "conformal sets", progress) as bar:
            found = workers(delayed(function)(chunk) for chunk in chunks)
            for chunk, result in zip(chunks, found, strict=True):
                out.append(result)
                bar.update(len(chunk))
    except BrokenExecutor as error:
        raise WorkerError(
            "a worker process ended before its work was done, killed for want of memory perhaps: use a "
            f"smaller n_jobs (now {n_jobs}), or fewer new rows a call"
        ) from error
    return out
