"""The answer to "Is exchangeability plausible?": a sentence, a table and a figure (theory, section 1).

`check_exchangeability` of the results makes the record, and written reports show it.
"""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_params

from .plots.curve_plots import draw_drift
from .plots.style import Axes
from .summary import FitSummary
from .tables import shortened

_LEVEL = 0.05
_LIMIT = -np.log10(_LEVEL)  # log10 of the evidence
_TESTS = 6  # which share the level: a bet and a test of uniformity for each of three scores
_FEW = 30  # new rows below which only a gross departure shows
_WORDS = {  # what small and large p-values mean
    "level": ("responses lie above their predictions", "responses lie below their predictions"),
    "spread": ("residuals are larger", "residuals are smaller"),
    "covariates": ("covariates lie farther out", "covariates lie nearer to the centre"),
}


@dataclass(frozen=True, eq=False)
class ExchangeabilityCheck:
    """Whether new rows look exchangeable with the training rows; made by ``check_exchangeability``.

    Under exchangeability each kind of p-value, "level", "spread" and "covariates", is uniform and
    independent from row to row. A bet against that, a test martingale, starts with a capital of 1/6 for
    each kind: that any of the three ever reaches 20 has a probability of at most 0.025. Kolmogorov-Smirnov
    tests have the other half of the 0.05.

    Attributes
    ----------
    p_values : DataFrame
        Smoothed p-values on the index of the new rows, columns "level", "spread" and "covariates"; NaN
        where a row is incomplete or has no response.
    paths : DataFrame
        log10 of the evidence, the capital of each bet, after each row; rows without a p-value leave it as
        it was.
    table : DataFrame
        For each kind ``mean_p``, ``ks_p`` (Kolmogorov-Smirnov), ``largest`` (of its path), and the labels
        of the rows ``since``, where the rise most likely began, and ``peak``; ``since_row`` and
        ``peak_row`` are their positions from 0.
    p_value : float
        Of all tests together: exchangeability is not plausible at 5 % where it is at most 0.05.
    fitted, reference : int
        Training rows that were fitted, and that new rows are ranked among.

    Examples
    --------
    >>> import textwrap
    >>> import stabconf
    >>> from statsmodels.datasets import engel
    >>> data = engel.load_pandas().data.sample(frac=1.0, random_state=0)
    >>> res = stabconf.fit("foodexp ~ income", data.iloc[:150], loss="huber")
    >>> check = res.check_exchangeability(data.iloc[150:])
    >>> print(textwrap.fill(check.sentence, 90))
    No evidence against exchangeability: over 85 new rows the evidence reached 0.47 (20 is the
    limit at 5 %) and p-values look uniform (Kolmogorov-Smirnov, p = 0.14).
    """

    p_values: pd.DataFrame
    paths: pd.DataFrame
    table: pd.DataFrame
    p_value: float
    fitted: int
    reference: int

    uniformity_test = "Kolmogorov-Smirnov, times 3 for level, spread and covariates"

    @property
    def p(self) -> pd.Series:
        """Smoothed conformal p-values of the observed responses: small where a residual is large."""
        return self.p_values["spread"].rename("p")

    @property
    def uniformity(self) -> float:
        """p-value of `uniformity_test`."""
        return min(1.0, 3.0 * float(self.table["ks_p"].min()))

    @property
    def martingale(self) -> pd.Series:
        """log10 of the largest capital of the three bets after each row."""
        return self.paths.max(axis=1).rename("martingale")

    @property
    def largest(self) -> float:
        """The largest value of `martingale`."""
        return float(self.table["largest"].max())

    @property
    def peak(self) -> Hashable:
        """Label of the row at which `martingale` is largest."""
        return self.table.at[self._best, "peak"]

    @property
    def since(self) -> Hashable:
        """Label of the row with which the rise to the peak most likely began."""
        return self.table.at[self._best, "since"]

    @property
    def plausible(self) -> bool:
        """Whether there is no evidence against exchangeability, at 5 %."""
        return self.p_value > _LEVEL

    @property
    def departures(self) -> list[str]:
        """Which of "level", "spread" and "covariates" depart, the clearest first."""
        tests = -np.log10((_TESTS * self.table["ks_p"]).clip(lower=1e-300))
        clear = np.maximum(self.table["largest"], tests).sort_values(ascending=False, kind="stable")
        return [str(name) for name in clear.index[clear >= _LIMIT]]

    @property
    def count(self) -> int:
        """Number of new rows that have p-values."""
        return int(self.p.notna().sum())

    @property
    def sentence(self) -> str:
        """The answer in words."""
        uniform = f"(Kolmogorov-Smirnov, p = {self.uniformity:.2g})"
        if self.plausible:
            few = "; so few rows show only gross departures" if self.count < _FEW else ""
            return (
                f"No evidence against exchangeability: over {self.count} new rows the evidence reached "
                f"{_in_digits(self.largest)} (20 is the limit at 5 %) and p-values look uniform {uniform}"
                f"{few}."
            )
        name, *others = self.departures
        p, where = self.p_values[name], f"over all rows {uniform}, not from a certain row on"
        if self.table.at[name, "largest"] >= _LIMIT:
            (line,) = self.table.loc[[name]].itertuples()
            where = (
                f"from about row {line.since} on (number {line.since_row + 1} of {len(self.p)}); the "
                f"evidence reached {_in_digits(line.largest)} at row {line.peak} (20 is the limit at 5 %)"
            )
            p = p.iloc[line.since_row : line.peak_row + 1]
        small, large = _WORDS[name]
        verb = "departs" if len(others) == 1 else "depart"
        more = f"; {' and '.join(others)} {verb} too" if others else ""
        return (
            "The new rows do not look exchangeable with the training rows: "
            f"{small if p.mean() < 0.5 else large} ({name}) {where}{more}."
        )

    def summary(self) -> FitSummary:
        """The table, and the answer below it: text, ``as_html()``, ``as_latex()``, ``as_csv()``."""
        heads = ["mean p", "uniform, p", "evidence", "at row", "rises from"]
        cells = []
        for line in self.table.itertuples():
            labels = [shortened(label, 16) for label in (line.peak, line.since)]
            cells.append([f"{line.mean_p:.2f}", f"{line.ks_p:.2g}", _in_digits(line.largest), *labels])
        names = [str(name) for name in self.table.index]
        title = "Is exchangeability plausible?"
        table = SimpleTable(cells, heads, names, title=title, txt_fmt=fmt_params)
        note = (
            f"{self.count} new rows, each ranked among {self.reference} training rows that took no part in "
            f"the fit to the other {self.fitted}, and the new rows before it: by residual (level), size of "
            "the residual (spread), and distance of the covariates from their centre. 'evidence' is the "
            "largest value of a test martingale that starts at 1/6, 'uniform' a Kolmogorov-Smirnov test. "
            f"All six together: p = {self.p_value:.2g}."
        )
        return FitSummary([table], [self.sentence, note])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Evidence over the new rows with its limits at 1/20 and 1/100, and the running mean of p; ``ax``
        is as in `plot_intervals`."""
        name = (self.departures or [self._best])[0]
        since = None
        if self.table.at[name, "largest"] >= _LIMIT:
            since = int(self.table.at[name, "since_row"]), self.table.at[name, "since"]
        return draw_drift(self.paths, self.p_values[name], since, ax)

    def __str__(self) -> str:
        return str(self.summary())

    def __repr__(self) -> str:
        return f"<ExchangeabilityCheck of {self.count} new rows: p = {self.p_value:.2g}>"

    def _repr_html_(self) -> str:
        return str(self.summary().as_html())

    @property
    def _best(self) -> str:
        """The kind whose bet won most."""
        return str(self.table["largest"].idxmax())


def _in_digits(power: float) -> str:
    """10 to a power, in a few digits."""
    if power >= 6:
        return f"1e{power:.0f}"
    return f"{10**power:,.0f}" if power >= 1 else f"{10**power:.2g}"
