"""Predictions and intervals side by side, as statsmodels' ``get_prediction`` gives them."""

import numpy as np
import pandas as pd

from ..data.frames import copied
from ..errors import InputTypeError

__all__ = ["Prediction"]


class Prediction:
    """Predictions at some rows, with intervals on request; made by `Results.get_prediction`."""

    def __init__(self, results, exog, options):
        self._results, self._exog, self._options = results, copied(exog), copied(options)

    @property
    def predicted_mean(self):
        """Predictions (Series)."""
        return self._results.predict(self._exog)

    def conf_int(self, alpha=None):
        """Conformal intervals for new responses (DataFrame)."""
        return self._results.conf_int_conformal(self._exog, alpha=alpha, **self._options)

    def summary_frame(self, alpha=None):
        """Prediction and interval side by side.

        Returns
        -------
        DataFrame
            ``mean`` (and the fitted quantiles, where several are), ``obs_ci_lower``, ``obs_ci_upper`` (and
            the inner ends where asked for); with groups,
            weights or a fixed scale also ``group`` (or a column for each of several), ``weight`` and
            ``scale``. Rows with missing values are kept, as NaN.
        """
        alpha = self._results._level(alpha)
        if not np.isscalar(alpha):
            raise InputTypeError(f"alpha={alpha!r}: summary_frame takes one number; loop, or use conf_int")
        ends = self.conf_int(alpha).add_prefix("obs_ci_")
        attrs = ends.attrs
        frame = pd.concat([self._results._prediction_columns(self._exog), ends], axis=1)
        frame.columns.name = ends.columns.name
        for name, values in self._results._beside(self._exog, self._options, [*frame.columns]).items():
            frame[name] = values
        frame.attrs = attrs
        return frame
