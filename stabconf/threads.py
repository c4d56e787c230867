"""One BLAS thread while fits and sets are made.

Their products are small and many. Handing each to a pool of threads costs more than it saves, and numpy and
scipy carry a pool each: beside other work a fit takes many times as long. So the entries to `solvers` and
`sets` hold BLAS to one thread, and put the number back when the last of them is done.
"""

import threading
from contextlib import ContextDecorator
from typing import Any

from threadpoolctl import ThreadpoolController


class _OneThread(ContextDecorator):
    """A decorator and a context; entries may be nested, and come from several Python threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._controller: Any = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                # Looking for the libraries takes 200 times as long as telling them.
                self._controller = self._controller or ThreadpoolController()
                self._limit = self._controller.limit(limits=1, user_api="blas")
                self._release()
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()
                self._release()

    def _release(self) -> None:
        """Let any Python thread set the number: the last that leaves need not be the first that came."""
        for library in self._controller.lib_controllers:
            getattr(library, "clear_controlling_thread", bool)()  # threadpoolctl 3.8 and later


one_thread = _OneThread()
