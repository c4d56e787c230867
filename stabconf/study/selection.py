"""Choosing the penalty honestly: on pilot rows, which then take no part in the intervals."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from ..checks import DEFAULT_ALPHA, check_one_alpha, is_count, is_number
from ..data.design import Design, build_design
from ..data.formulas import caller_scope
from ..errors import InputError, quietly
from ..losses import Loss
from ..rank import conformal_rank
from ..results.figures import Axes
from ..results.fitting import fit_in_scope
from ..results.regression import Results
from ..results.showing import as_penalties, mean_finite, shown_of
from ..sets import generator, progress_bar
from ..show.plots.curve_plots import draw_criterion

_PENALTIES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
Criterion = Literal["width", "loss"]
_CRITERIA: dict[Criterion, str] = {
    "width": "mean width of the exact intervals",
    "loss": "mean loss of held-out residuals",
}


@dataclass(frozen=True)
class Selection:
    """A penalty and how it was chosen; made by `select_penalty`.

    ``path`` has ``penalty``, ``criterion``, its standard error over the folds ``se``, ``coverage`` on
    held-out pilot rows (NaN for the criterion "loss"), and ``chosen``. ``results`` are of the chosen
    penalty, fitted to the rows that are not in ``pilot_index``: their intervals have the full guarantee.
    """

    penalty: float
    path: pd.DataFrame
    criterion: Criterion
    pilot_index: pd.Index
    results: Results

    def __repr__(self) -> str:
        pilot = len(self.pilot_index)
        at = self.path[self.path["chosen"]].iloc[0]
        judged = f"{_CRITERIA[self.criterion]} {at['criterion']:.4g} (se {at['se']:.2g})"
        return f"<Selection: penalty {self.penalty:g}, {judged}, from {pilot} pilot rows; {self.results!r}>"

    def plot(self, ax: Axes = None) -> Axes:
        """The criterion over penalties, the chosen one marked."""
        return draw_criterion(self.path, self.penalty, _CRITERIA[self.criterion], ax)


def select_penalty(
    formula: str,
    data: pd.DataFrame | Mapping[str, Any],
    *,
    penalties: Sequence[float] | None = None,
    pilot: float = 0.2,
    criterion: Criterion = "width",
    alpha: float = DEFAULT_ALPHA,
    folds: int = 5,
    loss: str | Loss = "lad",
    l1_ratio: float = 0.0,
    standardize: bool = True,
    random_state: int | np.random.Generator = 0,
    progress: bool | None = False,
) -> Selection:
    """Choose the penalty on pilot rows, and fit to the others.

    The pilot rows are drawn at random. Each penalty is judged on them by cross-validation, in folds that
    share out the levels of categories. The largest penalty whose criterion is within one standard error of
    the smallest is chosen, and the model is then fitted to the rows that are left.

    Why the guarantee holds: given the pilot rows the penalty is a constant, and the remaining rows are
    exchangeable with a new one, so that an exact interval of the returned results covers with probability
    at least 1 - alpha. A penalty chosen on the rows that the intervals rest on knows them and not the new
    one: there is no such guarantee.

    Parameters
    ----------
    formula, data, loss, l1_ratio, standardize
        As in `stabconf.fit`.
    penalties : sequence of float, optional
        Candidates for the final fit; by default from 0.001 to 3. A penalty is per row and the pilot has
        fewer rows, so there it is larger: what is best for ridge is the same in total, whatever n.
    pilot : float or int
        Share of the complete rows, or number of them, that choose.
    criterion : {"width", "loss"}
        What is made small on held-out pilot rows: the mean width of the exact intervals at ``alpha``, or
        the mean loss (for the quantile loss, the pinball loss) of their standardised residuals.
    alpha : float
        Level of the widths. 0.05 needs 19 rows outside each fold, a pilot of 24 rows with 5 folds.
    folds, random_state, progress
        Of the cross-validation; what decides which rows are the pilot, and their folds; a progress bar.

    Examples
    --------
    >>> import stabconf
    >>> from statsmodels.datasets import engel
    >>> data = engel.load_pandas().data
    >>> chosen = stabconf.select_penalty("foodexp ~ income", data, penalties=[0.01, 0.1, 1.0], pilot=0.3)
    >>> chosen.penalty, len(chosen.pilot_index), chosen.results.nobs
    (0.01, 70, 165)
    """
    scope = caller_scope(1)
    if not isinstance(criterion, str) or criterion not in _CRITERIA:
        raise InputError(f"criterion={criterion!r} is unknown: give one of {', '.join(_CRITERIA)}")
    alpha = check_one_alpha(alpha)
    penalties = as_penalties(penalties, _PENALTIES)
    design = build_design(formula, data, scope)
    frame = design.frame_of(None)
    count = _pilot_count(pilot, len(frame), folds)
    order = generator(random_state).permutation(len(frame))
    rest = np.sort(order[count:])
    parts = [frame.iloc[np.sort(part)] for part in _folds(design, order[:count], folds)]
    fit = partial(fit_in_scope, scope, formula, loss=loss, l1_ratio=l1_ratio, standardize=standardize)
    values, coverage = np.empty((2, folds, len(penalties)))
    with progress_bar(folds, "fold", "choosing", progress) as bar, quietly():
        for held in range(folds):
            training = pd.concat(parts[:held] + parts[held + 1 :])
            share = len(rest) / len(training)  # a penalty is per row: the same in total
            first = fit(training, penalty=share * penalties[0], unseen="nan")
            for place, penalty in enumerate(penalties):
                fitted = first._with_penalty(share * penalty)
                values[held, place], coverage[held, place] = _judged(fitted, parts[held], criterion, alpha)
            bar.update()
    with np.errstate(invalid="ignore"):  # NaN where a width is infinite
        se = np.std(values, axis=0, ddof=1) / np.sqrt(folds)
    path = pd.DataFrame({"penalty": penalties, "criterion": values.mean(axis=0), "se": se})
    path["coverage"] = coverage.mean(axis=0)
    best = _best(path, alpha, folds)
    path["chosen"] = path["penalty"] == best
    results = fit(frame.iloc[rest], penalty=best)
    return Selection(best, path, criterion, frame.index[np.sort(order[:count])], results)


def _pilot_count(pilot: float, n: int, folds: int) -> int:
    """Number of pilot rows."""
    if not is_count(folds, least=2):
        raise InputError(f"folds={folds!r} is not allowed: give a whole number, 2 or larger")
    if is_count(pilot):
        count = int(pilot)
    elif is_number(pilot) and 0 < pilot < 1:
        count = round(pilot * n)
    else:
        raise InputError(f"pilot={pilot!r} is not allowed: give a share between 0 and 1, or a row count")
    least = max(2 * folds, 4)
    if not least <= count <= n - 2:
        raise InputError(
            f"pilot={pilot!r} is {count} of {n} complete rows: give at least {least} (two a fold), and "
            "leave 2 or more for the fit"
        )
    return count


def _folds(design: Design, pilot: np.ndarray, folds: int) -> list[np.ndarray]:
    """Pilot rows in folds of nearly one size, with the levels of categories spread over them."""
    levels = design.X[pilot][:, design.kinds.categorical]
    sorted_by_level = pilot[np.lexsort(levels.T)] if levels.shape[1] else pilot
    return [sorted_by_level[fold::folds] for fold in range(folds)]


def _judged(fitted: Results, held: pd.DataFrame, criterion: str, alpha: float) -> tuple[float, float]:
    """Criterion and coverage (NaN where not measured) on held-out pilot rows."""
    if criterion == "width":
        shown = shown_of(fitted, held, alpha, None, {"method": "exact"})
        return mean_finite(shown.widths), float(np.nanmean(shown.hits))
    r = fitted._design.responses(held) - fitted.predict(held).to_numpy()
    return float(np.nanmean(fitted._fitted.loss.value(r / fitted._fitted.scale))), np.nan


def _best(path: pd.DataFrame, alpha: float, folds: int) -> float:
    """The largest penalty whose criterion is within one standard error of the smallest."""
    values = path["criterion"].to_numpy()
    if not np.isfinite(values).any():
        outside = next(n for n in itertools.count(1) if conformal_rank(alpha, n) <= n)
        needed = next(n for n in itertools.count(outside) if n - -(-n // folds) >= outside)
        raise InputError(
            f"the intervals of the pilot rows are infinite at every penalty: give pilot={needed} or more "
            "rows, a larger alpha, or criterion='loss'"
        )
    least = np.nanargmin(values)
    near = values <= values[least] + np.nan_to_num(path["se"].to_numpy()[least])
    return float(path["penalty"].to_numpy()[near].max())
