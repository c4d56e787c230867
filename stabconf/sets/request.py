"""What was asked of a method: rows, levels, side, score and options, checked once and then frozen.

`Method` says which options a method takes and what it needs of fits and request, and refuses without.
`make_intervals` is what results call.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from ..checks import is_count, is_number
from ..errors import AssumptionError, InputError, InputTypeError
from ..rank import Peers, Rank
from ..threads import one_thread
from .clusters import Clusters
from .intervals import Intervals, join, opened
from .parallel import CHUNK, in_chunks
from .score import SIDES, FixedScale, LearnedScale, Score, Side, as_score
from .thresholds import Along
from .user_score import PairScore

# Options whatever the method, where the results can honour them.
ALWAYS = ("side", "groups", "weights", "transductive", "unseen", "in_range", "units")
Part = tuple[np.ndarray, Peers]  # some of the new rows, and the training rows that they are ranked among
_FEW = 0.01  # of a chunk: work that is done sooner than workers are found


@dataclass(frozen=True)
class Request:
    """What was asked, with the options of `conf_int_conformal`; slices are of the new rows."""

    rows: np.ndarray  # (m, p): new design rows, without missing values
    alphas: tuple[float, ...]
    peers: Peers  # the training rows that new rows are ranked among
    parts: tuple[Part, ...]  # groups of new rows, for methods that make their fits once for all of them
    side: Side = "two-sided"
    score: Score = field(default_factory=Score)  # with side and fixed scale
    scale: FixedScale | LearnedScale | None = None
    conditional: Along | None = None  # the design that coverage is asked for along
    bound: str | None = None  # None for the default, as of z_hat
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
    more: dict[str, Any] = field(default_factory=dict)  # options of a method of somebody else's

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
        among = tuple(parts or ((np.arange(len(rows)), peers),))
        known = {each.name for each in fields(cls)}
        given = {name: value for name, value in options.items() if name in known and value is not None}
        more = {name: value for name, value in options.items() if name not in known}
        return cls(rows, tuple(alphas), peers, among, side, made, scale, more=more, **given)

    def __post_init__(self) -> None:
        for name, allowed, fix in (
            ("tol", _is_share(self.tol), "a share of the response's scale such as 1e-6"),
            ("budget", is_count(self.budget), "a whole number of fits a row, such as 50"),
            ("points", is_count(self.points, 3), "a whole number of candidates, 3 or more"),
            ("calibration", _is_share(self.calibration), "a share between 0 and 1"),
        ):
            if not allowed:
                raise InputError(f"{name}={getattr(self, name)!r} is not allowed: give {fix}")

    @property
    def own(self) -> np.ndarray:
        """Scales of the new rows (m,), where they are known beforehand."""
        return np.ones(len(self.rows)) if self.scale is None else self.scale.new

    @property
    def plain(self) -> bool:
        """Whether new rows are ranked among all training rows, each of which counts once."""
        return all(peers.which is None and peers.weights is None for _, peers in self.parts)

    @property
    def ranks(self) -> list[Rank]:
        """The `Rank` of each level, with no more mass than all rows have."""
        return [self.peers.rank(alpha).within() for alpha in self.alphas]

    def in_chunks(
        self,
        function: Callable[[Any], Any],
        rows: "Request | list[np.ndarray]",
        size: int = CHUNK,
        unit: str = "row",
    ) -> list[Any]:
        """As the function of that name, with workers and bar as asked for; a few rows are done at once."""
        if self.n_jobs is None and not self.progress and len(rows) <= max(1.0, _FEW * size):
            return [function(rows)]
        return in_chunks(function, rows, self.n_jobs, self.progress, size, unit)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: slice) -> "Request":
        return self.take(np.arange(len(self))[part], self.peers.take(part))

    def __iter__(self) -> Iterator["Request"]:
        return (self[i : i + 1] for i in range(len(self)))

    def take(self, which: np.ndarray, peers: Peers) -> "Request":
        """The same for a group of the new rows."""
        return replace(
            self,
            rows=self.rows[which],
            peers=peers,
            parts=((np.arange(len(which)), peers),),
            scale=None if self.scale is None else self.scale.take(which),
            conditional=None if self.conditional is None else self.conditional.take(which),
            z_hat=None if self.z_hat is None else self.z_hat[which],
        )


def _is_share(value: Any) -> bool:
    return is_number(value) and 0 < value < 1


# What methods need of fits and of what was asked, and what is said where it is missing.
_NEEDS: dict[str, tuple[Callable[[Any, Request], Any], str]] = {
    "sizes": (
        lambda fits, asked: asked.score.ranks_sizes,
        "method={name!r} ranks residuals by their size: with this score use method='stable', 'root', "
        "'split' or 'cv+'",
    ),
    "steady score": (
        lambda fits, asked: not isinstance(asked.score, PairScore) or math.isfinite(asked.score.lipschitz),
        "method={name!r} bounds how far scores move, and score {score!r} does not say how fast it changes "
        "with the prediction: give its lipschitz=, or use method='root' or 'split'",
    ),
    "score of any fit": (
        lambda fits, asked: asked.score.ranks_sizes or asked.score.name != "dual",
        "score='dual' belongs to a fit of all rows, which method={name!r} does not make: use "
        "method='stable', 'root' or 'grid', or score='absolute'",
    ),
    "fixed scale": (
        lambda fits, asked: not isinstance(asked.scale, LearnedScale),
        "method={name!r} takes a scale that is known beforehand; a formula is learned from the responses: "
        "give a column or a callable as scale, or use method='split', 'cv+' or 'jackknife+', which learn "
        "it from rows that they do not rank; for widths that follow the data with all rows use "
        "stabconf.fit_quantiles",
    ),
    "no ball": (
        lambda fits, asked: asked.bound != "ball",
        "bound='ball' needs to know to which side the fit moves, which it does from the fit without the "
        "new row alone: use bound='norm' or 'curvature', or method='stable'",
    ),
    "no dual": (
        lambda fits, asked: asked.bound != "dual",
        "bound='dual' says something near a response that the new row was fitted with: use "
        "method='replace_one' or 'batch', or another bound",
    ),
    "ridge if dual": (
        lambda fits, asked: asked.bound != "dual" or np.all(fits.ridge > 0),
        "bound='dual' needs penalty > 0 with l1_ratio < 1; or use another bound",
    ),
    "smooth if dual": (
        lambda fits, asked: (
            asked.bound != "dual"
            or (math.isfinite(fits.loss.smoothness) and (fits.loss.symmetric or asked.score.sign))
        ),
        "bound='dual' needs a loss that is smooth and symmetric, such as 'huber' (not {loss}); or use "
        "another bound",
    ),
    "plain if dual": (
        lambda fits, asked: (
            asked.bound != "dual" or (asked.score.ranks_sizes and asked.scale is None and not asked.inner)
        ),
        "bound='dual' needs score='absolute', without scale= and inner=; or use another bound",
    ),
    "alone if conditional": (
        lambda fits, asked: asked.conditional is None or asked.plain,
        "conditional= takes the place of groups and weights: give the groups as terms of its formula, such "
        "as '~ C(g)', and drop groups= and weights=",
    ),
    "no weights": (
        lambda fits, asked: all(peers.weights is None for _, peers in asked.parts),
        "method={name!r} has no guarantee with weights: use method='exact', 'stable', 'split' or "
        "'jackknife+', or drop weights",
    ),
    "bends once": (
        lambda fits, asked: fits.loss.bends_once,
        "method={name!r} needs a loss whose slope bends once on each side of 0 (bends_once), which {loss} "
        "does not declare: use method='stable', which encloses the exact set",
    ),
    "lipschitz": (
        lambda fits, asked: math.isfinite(fits.loss.lipschitz),
        "method={name!r} needs one tau for all responses, which loss {loss} does not have (it is not "
        "Lipschitz): use method='exact' or 'stable'",
    ),
    "lipschitz or sizes": (
        lambda fits, asked: asked.score.ranks_sizes or math.isfinite(fits.loss.lipschitz),
        "method={name!r} with a score of one's own needs one tau for all responses, which loss {loss} does "
        "not have (it is not Lipschitz): use 'huber', or method='root' or 'split'",
    ),
    "clipped where conditional": (
        lambda fits, asked: (
            asked.conditional is None
            or (math.isfinite(fits.loss.lipschitz) and fits.loss.kind != "bending")
        ),
        "conditional= with method={name!r} needs scores that no longer follow a far response, which loss "
        "{loss} does not give: use loss 'lad', 'quantile' or 'huber', or method='split', which takes every "
        "loss",
    ),
}


@dataclass(frozen=True)
class Method:
    """How a method is run, the options that it takes, and what it needs.

    ``run`` gets the fits and a `Request`, once per group of new rows; if it is ``together``, once for all
    groups. ``along`` takes its place for coverage along a design, if ``run`` does not see to that.
    """

    run: Callable[[Any, Request], list[Intervals]]
    options: tuple[str, ...]
    needs: tuple[str, ...] = ()
    together: bool = False
    along: Callable[[Any, Request], list[Intervals]] | None = None

    def check_options(self, name: str, options: Mapping[str, Any]) -> None:
        """Refuse options that the method does not take."""
        for option in options:
            if option not in self.options:
                *others, last = *ALWAYS, *self.options
                raise InputTypeError(
                    f"option {option!r} is unknown to method {name!r}: its options are "
                    f"{', '.join(others)} and {last}"
                )

    def check(self, name: str, fits: Any, asked: Request) -> None:
        """Refuse a request whose needs are not met."""
        for need in self.needs:
            met, message = _NEEDS[need]
            if not met(fits, asked):
                loss = "" if fits.loss is None else fits.loss.describe()
                raise AssumptionError(message.format(name=name, score=asked.score.name, loss=loss))


# The tables of methods, by name, for results of each kind; the package fills them in.
METHODS: dict[str, Method] = {}
ESTIMATOR_METHODS: dict[str, Method] = {}
BAND_METHODS: dict[str, Method] = {}
SEVERAL_METHODS: dict[str, Method] = {}


def make_intervals(
    fits: Any,
    rows: np.ndarray,
    alphas: Sequence[float],
    method: str,
    side: Side,
    options: Mapping[str, Any],
    parts: Sequence[Part] | None = None,
    methods: Mapping[str, Method] = METHODS,
) -> list[Intervals]:
    """`Intervals` by a method's name, one record per alpha; ``parts`` are groups of new rows with the
    `Peers` that each is ranked among, None for all among all."""
    given = {name: value for name, value in options.items() if value is not None}
    name, chosen = _chosen(fits, method, side, given, methods)
    threads = nullcontext() if methods is ESTIMATOR_METHODS else one_thread  # an estimator's are its own
    with threads:
        free = np.zeros(len(rows), dtype=bool)
        if not chosen.together:
            rows, free = fits.coordinates(rows)
        asked = Request.of(fits, rows, alphas, side=side, parts=parts, **given)
        chosen.check(name, fits, asked)
        if chosen.together:
            return chosen.run(fits, asked)
        run = chosen.run if asked.conditional is None else chosen.along or chosen.run
        each = [run(fits, asked.take(which, peers)) for which, peers in asked.parts]
        made = [join(one, [which for which, _ in asked.parts]) for one in zip(*each, strict=True)]
        made = [replace(one, guarantee=f"{one.guarantee}{fits.given}") for one in made]
        return [opened(one, free) for one in made] if free.any() else made


def _chosen(
    fits: Any, method: str, side: Side, given: Mapping[str, Any], methods: Mapping[str, Method]
) -> tuple[str, Method]:
    """The method by its name, or with "auto" the tightest certified one that has the options given."""
    check_side(side)
    name = method
    if method == "auto" and "exact" not in methods:
        name = "split"
    elif method == "auto":
        only = set(methods["stable"].options) - set(methods["exact"].options)
        sizes = as_score(given.get("score"), fits.loss, side).ranks_sizes
        name = "exact" if sizes and fits.loss.bends_once and not set(given) & only else "stable"
    if name not in methods:
        reason = "is unknown" if name not in METHODS else "is not for these results"
        if name in METHODS and methods is BAND_METHODS:
            reason = "is not for bands of quantiles"
        if name == "stable" and methods is ESTIMATOR_METHODS:
            reason = "leaves the new row out of the fit, and tau bounds what replacing its response does"
        raise InputError(f"method={method!r} {reason}: give 'auto' or one of {', '.join(methods)}")
    methods[name].check_options(name, given)
    return name, methods[name]


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
