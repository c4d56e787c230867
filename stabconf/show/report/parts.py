"""The records of a report: what it is told about the fit, and the parts that it is put together from."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...data.design import Design
from ..tables import Table

__all__ = ["Background", "Content", "Picture", "Verdict"]


@dataclass(frozen=True)
class Background:
    """What a report is told about the fit, beside the intervals at m rows.

    ``predictors`` are the columns that the formula's right-hand side uses, ``trained`` the n training rows
    that were used, ``dropped`` the labels of those that were not; ``X`` (n, p) and ``rows`` (m, p) are the
    training and new rows as the fit sees them, NaN where incomplete, None where there are no new ones.
    """

    formula: str
    predictors: list[str]
    trained: pd.DataFrame
    dropped: pd.Index
    X: np.ndarray
    rows: np.ndarray | None

    @classmethod
    def of(cls, formula: str, design: Design, X: np.ndarray, rows: np.ndarray | None) -> "Background":
        """Of the design that results have."""
        return cls(formula, design.predictors, design.frame_of(None), design.dropped, X, rows)


@dataclass(frozen=True)
class Picture:
    """A figure: a file name without its suffix, what it shows, and SVG as bytes."""

    name: str
    caption: str
    svg: bytes


@dataclass(frozen=True)
class Verdict:
    """Whether exchangeability is plausible: the answer in words, and the evidence."""

    sentence: str
    picture: Picture


@dataclass(frozen=True)
class Content:
    """A whole report: strings and pictures, no numbers; what a reader came for first."""

    title: str
    lead: str  # how wide the intervals are, and how many responses they hold
    about: str  # what was fitted, and what the intervals promise
    facts: list[tuple[str, str]]  # a few numbers, with what they are
    cautions: list[str]  # where coverage falls short
    intervals: Table | None  # None for the training rows
    csv: str  # all rows of that table; "" where there is none, or too many
    scatter: Picture  # of the intervals
    widths: list[Table]
    pictures: list[Picture]
    exchangeable: Verdict | None  # None where responses are not known
    summary: list[Table]
    notes: list[str]  # of the summary
    text: str  # the summary as text
    checks: list[Table]
    cite: list[str]
    versions: list[list[str]]  # pairs of name and version
