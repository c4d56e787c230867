"""What was asked of a method: rows, levels, side, score and options, checked once and then frozen.

`OPTIONS` says what each option is, `Method` which of them a method takes and what it needs; refusals are
made from both, here alone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from ..checks import is_count, is_number
from ..errors import AssumptionError, InputError, InputTypeError
from ..rank import Peers
from .clusters import Clusters
from .intervals import Intervals
from .score import SIDES, FixedScale, LearnedScale, Score, Side, as_score
from .thresholds import Along
from .user_score import PairScore

__all__ = ["Method", "Part", "Request", "check_side", "generator"]

# Options whatever the method, where the results can honour them.
ALWAYS = ("side", "groups", "weights", "transductive", "unseen", "in_range", "units")
Part = tuple[np.ndarray, Peers]  # some of the new rows, and the training rows that they are ranked among


@dataclass(frozen=True)
class Request:
    """What was asked.

    Attributes
    ----------
    rows : (m, p) array
        New design rows, without missing values.
    alphas : tuple of float
    peers : Peers
        The training rows that new rows are ranked among.
    parts : tuple of Part
        Groups of the new rows, for methods that make their fits once for all of them.
    score : Score
        Side and fixed scale included.
    scale : FixedScale, LearnedScale or None
    conditional : Along or None
        The design that coverage is asked for along.
    bound, inner, tol, budget, z_hat, queries, points, calibration, folds, random_state, n_jobs, progress
        Options; `conf_int_conformal` says what they mean. None for the default of ``bound`` and ``z_hat``.
    more : dict
        Options that only a method of somebody else's takes.
    """

    rows: np.ndarray
    alphas: tuple[float, ...]
    peers: Peers
    parts: tuple[Part, ...]
    side: Side = "two-sided"
    score: Score = field(default_factory=Score)
    scale: FixedScale | LearnedScale | None = None
    conditional: Along | None = None
    bound: str | None = None
    inner: bool = False
    tol: float = 1e-6
    budget: int = 50
    z_hat: np.ndarray | None = None
    queries: int | Sequence[float] = 8
    points: int = 200
    calibration: float = 0.5
    folds: int | Clusters = 10
    random_state: int | np.random.Generator = 0
    n_jobs: int | None = None
    progress: bool | None = None
    more: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        fits: Any,
        rows: np.ndarray,
        alphas: Sequence[float],
        *,
        side: Side = "two-sided",
        peers: Peers | None = None,
        parts: Sequence[Part] | None = None,
        score: str | Score | None = None,
        scale: FixedScale | None = None,
        **options: Any,
    ) -> "Request":
        """A request of fits; options that are None are not given."""
        check_side(side)
        peers = Peers(fits.n) if peers is None else peers
        trained = scale.trained if type(scale) is FixedScale else None
        made = as_score(score, fits.loss, side, trained, fits)
        if isinstance(made, PairScore) and scale is not None:
            raise InputError(
                f"scale= divides residuals, and score {made.name!r} is of response and prediction: divide "
                "by the scale in its function, or drop scale="
            )
        everyone = ((np.arange(len(rows)), peers),)
        known = {each.name for each in fields(cls)}
        given = {name: value for name, value in options.items() if name in known and value is not None}
        more = {name: value for name, value in options.items() if name not in known}
        return cls(
            rows, tuple(alphas), peers, tuple(parts or everyone), side, made, scale, more=more, **given
        )

    def __post_init__(self) -> None:
        if not (is_number(self.tol) and 0 < self.tol < 1):
            raise InputError(
                f"tol={self.tol!r} is not allowed: give a share of the response's scale such as 1e-6"
            )
        if not is_count(self.budget):
            raise InputError(
                f"budget={self.budget!r} is not allowed: give a whole number of fits a row, such as 50"
            )
        if not is_count(self.points, 3):
            raise InputError(
                f"points={self.points!r} is not allowed: give a whole number of candidates, 3 or more"
            )
        if not (is_number(self.calibration) and 0 < self.calibration < 1):
            raise InputError(
                f"calibration={self.calibration!r} is not allowed: give a share between 0 and 1"
            )

    @property
    def own(self) -> np.ndarray:
        """Scales of the new rows (m,), where they are known beforehand."""
        return np.ones(len(self.rows)) if self.scale is None else self.scale.new

    def take(self, which: np.ndarray, peers: Peers) -> "Request":
        """The same for a group of the new rows."""
        more: dict[str, Any] = {
            "rows": self.rows[which],
            "peers": peers,
            "parts": ((np.arange(len(which)), peers),),
        }
        if self.scale is not None:
            more["scale"] = self.scale.take(which)
        if self.conditional is not None:
            more["conditional"] = self.conditional.take(which)
        if self.z_hat is not None:
            more["z_hat"] = self.z_hat[which]
        return replace(self, **more)


def _not_lipschitz(fits: Any, what: str, fix: str) -> str:
    return (
        f"{what} needs one tau for all responses, which loss {fits.loss.describe()} does not have (it is "
        f"not Lipschitz): use {fix}"
    )


Need = tuple[bool, str]  # whether it is there, and what to say if not


def _needs(name: str, fits: Any, asked: Request) -> dict[str, Need]:
    """What methods need of what was asked."""
    score = asked.score
    return {
        "sizes": (
            score.ranks_sizes,
            f"method={name!r} ranks residuals by their size: with this score use method='stable', 'root', "
            "'split' or 'cv+'",
        ),
        "steady score": (
            not isinstance(score, PairScore) or math.isfinite(score.lipschitz),
            f"method={name!r} bounds how far scores move, and score {score.name!r} does not say how fast "
            "it changes with the prediction: give its lipschitz=, or use method='root' or 'split'",
        ),
        "score of any fit": (
            score.ranks_sizes or score.name != "dual",
            f"score='dual' belongs to a fit of all rows, which method={name!r} does not make: use "
            "method='stable', 'root' or 'grid', or score='absolute'",
        ),
        "fixed scale": (
            not isinstance(asked.scale, LearnedScale),
            f"method={name!r} takes a scale that is known beforehand; a formula is learned from the "
            "responses: give a column or a callable as scale, or use method='split', 'cv+' or "
            "'jackknife+', which learn it from rows that they do not rank; for widths that follow the data "
            "with all rows use stabconf.fit_quantiles",
        ),
        "no ball": (
            asked.bound != "ball",
            "bound='ball' needs to know to which side the fit moves, which it does from the fit without "
            "the new row alone: use bound='norm' or 'curvature', or method='stable'",
        ),
        "no dual": (
            asked.bound != "dual",
            "bound='dual' says something near a response that the new row was fitted with: use "
            "method='replace_one' or 'batch', or another bound",
        ),
        "alone if conditional": (
            asked.conditional is None
            or all(peers.which is None and peers.weights is None for _, peers in asked.parts),
            "conditional= takes the place of groups and weights: give the groups as terms of its formula, "
            "such as '~ C(g)', and drop groups= and weights=",
        ),
        "no weights": (
            all(peers.weights is None for _, peers in asked.parts),
            f"method={name!r} has no guarantee with weights: use method='exact', 'stable', 'split' or "
            "'jackknife+', or drop weights",
        ),
        **_loss_needs(name, fits, asked),
    }


def _dual_fix(fits: Any, asked: Request) -> str:
    """What must change for the duality gap to bound the scores; nothing where it does."""
    loss = fits.loss
    if asked.bound != "dual":
        return ""
    if not np.all(fits.ridge > 0):
        return "penalty > 0 with l1_ratio < 1"
    if math.isinf(loss.smoothness) or not (loss.symmetric or asked.score.sign):
        return f"a loss that is smooth and symmetric, such as 'huber' (not {loss.describe()})"
    if not asked.score.ranks_sizes or asked.scale is not None or asked.inner:
        return "score='absolute', without scale= and inner="
    return ""


def _loss_needs(name: str, fits: Any, asked: Request) -> dict[str, Need]:
    """What methods need of the loss."""
    loss = fits.loss
    curved = loss is not None and loss.kind == "bending"
    known = loss is None or math.isfinite(loss.lipschitz)
    dual = _dual_fix(fits, asked)
    return {
        "smooth if dual": (not dual, f"bound='dual' needs {dual}; or use another bound"),
        "bends once": (
            loss is None or loss.bends_once,
            f"method={name!r} needs a loss whose slope bends once on each side of 0 (bends_once), which "
            f"{'' if loss is None else loss.describe()} does not declare: use method='stable', which "
            "encloses the exact set",
        ),
        "lipschitz": (
            known,
            _not_lipschitz(fits, f"method={name!r}", "method='exact' or 'stable'") if not known else "",
        ),
        "lipschitz or sizes": (
            known or asked.score.ranks_sizes,
            ""
            if known
            else _not_lipschitz(
                fits, f"method={name!r} with a score of one's own", "'huber', or method='root' or 'split'"
            ),
        ),
        "clipped where conditional": (
            asked.conditional is None or (known and not curved),
            f"conditional= with method={name!r} needs scores that no longer follow a far response, which "
            f"loss {'' if loss is None else loss.describe()} does not give: use loss 'lad', 'quantile' or "
            "'huber', or method='split', which takes every loss",
        ),
    }


@dataclass(frozen=True)
class Method:
    """How a method is run, the options that it takes, and what it needs.

    ``run`` gets the fits and a `Request`, once per group of new rows; if it is ``together``, once for all
    groups, so that fits to parts of the rows are made once.
    """

    run: Callable[[Any, Request], list[Intervals]]
    options: tuple[str, ...]
    needs: tuple[str, ...] = ()
    together: bool = False

    def check_options(self, name: str, options: dict[str, Any]) -> None:
        """Refuse options that the method does not take."""
        for option in options:
            if option not in self.options:
                raise InputTypeError(
                    f"option {option!r} is unknown to method {name!r}: its options are "
                    f"{_listed((*ALWAYS, *self.options))}"
                )

    def check(self, name: str, fits: Any, asked: Request) -> None:
        """Refuse a request whose needs are not met."""
        table = _needs(name, fits, asked)
        for need in self.needs:
            met, message = table[need]
            if not met:
                raise AssumptionError(message)


def check_side(side: str) -> None:
    """Refuse a side that is none."""
    if side not in SIDES:
        raise InputError(f"side={side!r} is unknown: give one of {', '.join(SIDES)}")


def generator(random_state: int | np.random.Generator) -> np.random.Generator:
    """A random generator for a seed; one that is given goes on."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"random_state={random_state!r} is not allowed: give a whole number, 0 or larger, or a "
            "numpy Generator"
        ) from error


def _listed(options: Sequence[str]) -> str:
    """Options in words."""
    if not options:
        return "none"
    return " and ".join([", ".join(options[:-1]), options[-1]]) if len(options) > 1 else options[0]
