"""Whether exact sets and p-values are right: random problems, judged by refits at candidate responses.

Each problem is a table, a model and a question, drawn from one seed. The package gives sets and p-values;
a referee of its own (`soundness_model.py`, `soundness_fits.py`) refits the model with the new row at
candidate responses: just inside and outside every end, far away, in holes, at training responses, at
random. Its fits have verified optimality conditions. A set is wrong where it leaves out a candidate whose
p-value is above alpha (*misses*), or keeps one beyond what its `tol` admits (*loose*). Candidates whose
verdict hangs on a near-tie are *undecidable*; those whose refit could not be verified are *unverified*;
neither is judged. A set is *vague* where its `tol` is unknown or above a thousandth of the scale.
"""

import multiprocessing
import os
import signal
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from common import Report, parse_arguments
from soundness_model import LOOSE, Referee
from soundness_problems import LOSSES, draw_problem

import stabconf

OFFSETS = (1e-6, 1e-4, 1e-2)  # of the width, inside and outside each end
FAR = (1e3, 1e6, 1e9)  # in scales of the response
SLACK = 1e-7  # ends may be wrong by so much of the width or the scale, for rounding
SLOW = 5.0  # seconds for one row
PATIENCE = 30.0  # seconds after which a call is given up
BEYOND = 1e12  # scales of the response beyond which p-values are not judged, only sets
PIECES = 4  # of a set that are probed
WRONG = ("misses", "loose", "wrong p", "wrong bounds", "set and p disagree", "stable wrong", "NaN")
JUDGED = (*WRONG, "crash", "hang", "slow")
UNJUDGED = ("undecidable", "unverified", "vague sets", "refused", "set aside")
COLUMNS = ("problems", "sets", "probes", *JUDGED, *UNJUDGED)
ANNOUNCED = (stabconf.errors.AssumptionError, stabconf.errors.InputError, stabconf.errors.InputTypeError)


class Hang(Exception):
    """A call took longer than the patience."""


@dataclass
class Found:
    """What was counted for one problem, and a line for everything that is wrong."""

    seed: int
    loss: str
    words: str
    counts: Counter = field(default_factory=Counter)
    lines: list = field(default_factory=list)
    longest: float = 0.0
    package: float = 0.0
    whole: float = 0.0

    def note(self, kind, words):
        """Count one thing and say what it is."""
        self.counts[kind] += 1
        self.lines.append((kind, words))


def timed(found, name, function):
    """What a call of the package returns; None where it refuses, crashes or hangs."""

    def give_up(*_):
        raise Hang

    previous = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function()
    except Hang:
        found.note("hang", f"{name} took more than {PATIENCE:g} s")
    except ANNOUNCED as error:
        found.counts["refused"] += 1
        found.lines.append(("refused", f"{name}: {error}"))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(place.filename)}:{place.lineno}"
        found.note("crash", f"{name}: {type(error).__name__}: {error} at {where}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)
        spent = time.perf_counter() - start
        found.longest = max(found.longest, spent)
        found.package += spent
        if SLOW < spent < PATIENCE:
            found.note("slow", f"{name} took {spent:.1f} s")
    return None


# What the package says ------------------------------------------------------------------------------


def make_loss(problem):
    """The package's loss object."""
    classes = {
        "squared": stabconf.Squared,
        "lad": stabconf.LAD,
        "quantile": stabconf.Quantile,
        "huber": stabconf.Huber,
        "pseudo_huber": stabconf.PseudoHuber,
        "logcosh": stabconf.LogCosh,
        "linex": stabconf.Linex,
        "power": stabconf.Power,
    }
    made = classes[problem.loss]
    return made() if problem.parameter is None else made(problem.parameter)


def fit(problem):
    """The package's results."""
    shared = {name: getattr(problem, name) for name in ("penalty", "l1_ratio", "standardize")}
    if problem.quantiles is not None:
        return stabconf.fit_quantiles(problem.formula, problem.frame, quantiles=problem.quantiles, **shared)
    return stabconf.fit(problem.formula, problem.frame, loss=make_loss(problem), **shared)


@dataclass(frozen=True)
class Set:
    """A set that the package gives for one row: its pieces, ascending, and how loose it may be."""

    pieces: tuple
    tol: float | None
    side: str

    @classmethod
    def of(cls, frame, label, side):
        """From the frame of one row."""
        tol = row_value(frame.attrs.get("tol"), label)
        if label in frame.attrs.get("empty", []):
            return cls((), tol, side)
        known = frame.attrs.get("pieces", {}).get(label)
        ends = (float(frame["lower"].iloc[0]), float(frame["upper"].iloc[0]))
        return cls(tuple(known) if known else (ends,), tol, side)

    def holds(self, z):
        """Whether a candidate is in the set."""
        return any(low <= z <= high for low, high in self.pieces)

    def distance(self, z):
        """Distance of a candidate to the nearest end."""
        ends = [abs(z - end) for piece in self.pieces for end in piece if np.isfinite(end)]
        return min(ends, default=np.inf)

    @property
    def hull(self):
        """Ends; NaN where the set is empty."""
        return (self.pieces[0][0], self.pieces[-1][1]) if self.pieces else (np.nan, np.nan)


def row_value(value, label):
    """One row's number of an attribute that is one number, or one for each row."""
    if value is None or np.isscalar(value):
        return value
    if hasattr(value, "get"):
        return value.get(label)
    return float(np.max(value))


# Candidates -----------------------------------------------------------------------------------------


def candidates(made, referee, prediction, random):
    """Pairs of a name and a candidate response, by what is tried there."""
    scale = referee.scale
    tried = [("prediction", prediction), ("zero", 0.0)]
    for low, high in made.pieces[:PIECES]:
        width = high - low if np.isfinite(high - low) and high > low else scale
        for end, outward in ((low, -1.0), (high, 1.0)):
            if not np.isfinite(end):
                continue
            for share in OFFSETS:
                tried.append((f"outside by {share:g}", end + outward * share * width))
                tried.append((f"inside by {share:g}", end - outward * share * width))
    for before, after in zip(made.pieces[:PIECES], made.pieces[1 : PIECES + 1], strict=False):
        tried.append(("hole", 0.5 * (before[1] + after[0])))
    for factor in FAR:
        tried += [(f"far {way * factor:g}", prediction + way * factor * scale) for way in (-1.0, 1.0)]
    tried += [("training response", float(z)) for z in random.choice(referee.y, size=3)]
    low, high = made.hull
    low = low if np.isfinite(low) else prediction - 5 * scale
    high = high if np.isfinite(high) else prediction + 5 * scale
    low, high = sorted((low, high))
    reach = max(high - low, scale)
    tried += [("random", float(z)) for z in random.uniform(low - 0.3 * reach, high + 0.3 * reach, size=4)]
    return [(name, z) for name, z in tried if np.isfinite(z)]


# Judging --------------------------------------------------------------------------------------------


@dataclass
class Judge:
    """Brute-force verdicts on candidates of one row, each made once."""

    referee: Referee
    row: int
    alpha: float
    made: dict = field(default_factory=dict)

    def scores(self, z):
        """The scores of a candidate."""
        if z not in self.made:
            with np.errstate(all="ignore"):
                self.made[z] = self.referee.scores(self.row, z)
        return self.made[z]

    def verdict(self, z):
        """True if z belongs to the set, False if not, else why nobody can say."""
        scores = self.scores(z)
        if not scores.sound:
            return "unverified"
        low, high = scores.p()
        if (low > self.alpha + 1e-9) != (high > self.alpha + 1e-9):
            return "undecidable"
        return bool(low > self.alpha + 1e-9)


def slack_at(made, z, scale):
    """How far from the truth rounding may put an end near z."""
    low, high = made.hull
    width = high - low if np.isfinite(high - low) else abs(z - (low if np.isfinite(low) else high))
    width = width if np.isfinite(width) else 0.0
    return SLACK * max(scale, width) + 1e-12 * abs(z)


def check_member(found, judge, made, name, z):
    """Compare a set with brute force at one candidate."""
    verdict = judge.verdict(z)
    found.counts["probes"] += 1
    if isinstance(verdict, str):
        found.counts[verdict] += 1
        return
    slack = slack_at(made, z, judge.referee.size)
    holds = made.holds(z)
    if verdict and not holds and made.distance(z) > slack:
        found.note(
            "misses", f"row {judge.row}, {name}: {z!r} has {p_words(judge, z)} but is not in {made.pieces}"
        )
    if holds and not verdict and is_loose(judge, made, name, z, slack):
        words = f"row {judge.row}, {name}: {z!r} has {p_words(judge, z)} but is in {made.pieces}"
        found.note("loose", f"{words}, tol {made.tol}")


def p_words(judge, z):
    """The brute-force p-value of a candidate, in words."""
    low, high = judge.scores(z).p()
    return f"p {low:.4g}" if low == high else f"p {low:.4g} to {high:.4g}"


def is_loose(judge, made, name, z, slack):
    """Whether a candidate in the set is farther from what belongs there than the set's ``tol`` admits.

    One-sided sets reach to infinity on their other side, whatever happens there: only their end is judged.
    """
    if made.tol is None or (made.side != "two-sided" and not name.startswith("inside")):
        return False
    reach = made.tol + slack
    if made.distance(z) <= reach:
        return False
    return all(judge.verdict(there) is False for there in (z - reach, z + reach))


def check_p(found, judge, frame, made, tried):
    """Compare the package's p-values with brute force, with their bounds and with the set."""
    table = frame.to_numpy(dtype=float)
    for (name, z), values in zip(tried, table, strict=True):
        where = f"row {judge.row}, {name}: z {z!r}"
        if np.isnan(values).any():
            found.note("NaN", f"{where} has p, p_lo, p_up {values}")
            continue
        p = values[0]
        scores = judge.scores(z)
        low, high = p_range(judge, z, p)
        near = abs(z) < BEYOND * judge.referee.size
        if scores.sound and near and not low - 1e-9 <= p <= high + 1e-9:
            found.note("wrong p", f"{where} has p {p:.4g}, brute force {low:.4g} to {high:.4g}")
        bounds = values[1:3]  # bands have none
        apart = len(bounds) and (bounds[0] > high + 1e-9 or bounds[1] < low - 1e-9)
        if scores.sound and near and apart:
            told = f"outside {bounds[0]:.4g} to {bounds[1]:.4g}"
            found.note("wrong bounds", f"{where} has brute force p {low:.4g} to {high:.4g} {told}")
        check_agreement(found, judge, made, name, z, p)


def p_range(judge, z, p):
    """p-values that rounding of z and the tolerance of a solver allow."""
    size = judge.referee.size
    low, high = judge.scores(z).p(LOOSE, 1e-9 * size)
    if low - 1e-9 <= p <= high + 1e-9:
        return low, high
    move = 1e-9 * size + 1e-14 * abs(z)
    for there in (z - move, z + move):
        nearby = judge.scores(there).p(LOOSE, 1e-9 * size)
        low, high = min(low, nearby[0]), max(high, nearby[1])
    return low, high


def check_agreement(found, judge, made, name, z, p):
    """A candidate is in the set if and only if its p-value is above alpha."""
    slack = slack_at(made, z, judge.referee.size)
    inside = p > judge.alpha + 1e-9
    holds = made.holds(z)
    if inside == holds or made.distance(z) <= slack + (made.tol or 0.0):
        return
    if judge.verdict(z) == "undecidable":
        return
    if holds and not is_loose(judge, made, name, z, slack):
        return
    found.note("set and p disagree", f"row {judge.row}, {name}: z {z!r}, p {p:.4g}, set {made.pieces}")


def check_stable(found, results, problem, row, made):
    """The stable set holds the exact one, which holds the inner one."""
    new = problem.new.iloc[[row]]
    options = {} if problem.quantiles is not None else {"inner": True}
    frame = timed(
        found,
        "stable",
        lambda: results.conf_int_conformal(
            new, alpha=problem.alpha, method="stable", side=problem.side, **options
        ),
    )
    if frame is None or not made.pieces:
        return
    low, high = made.hull
    sizes = [size for size in (high - low, abs(low), abs(high)) if np.isfinite(size)]
    slack = 1e-6 * min(sizes, default=0.0) + 1e-9 * max(sizes, default=0.0)
    slack = slack + (made.tol if made.tol is not None and np.isfinite(made.tol) else 0.0)
    ends = frame.iloc[0]
    unknown = made.tol is None or not np.isfinite(made.tol)
    if not unknown and not (ends["lower"] <= low + slack and ends["upper"] >= high - slack):
        found.note("stable wrong", f"row {row}: stable {ends.tolist()} does not hold exact {made.pieces}")
    if "inner_lower" not in ends or np.isnan(ends["inner_lower"]):
        return
    inner = ends["inner_lower"] + slack, ends["inner_upper"] - slack
    if inner[0] <= inner[1] and not any(a <= inner[0] and inner[1] <= b for a, b in made.pieces):
        found.note(
            "stable wrong", f"row {row}: inner {ends.tolist()[2:]} is not within exact {made.pieces}"
        )


def examine(seed, verbose=False):
    """Everything about the problem of one seed: a `Found`."""
    problem = draw_problem(seed)
    found = Found(seed, problem.loss, problem.describe())
    found.counts["problems"] += 1
    if verbose:
        print(problem.describe(), flush=True)
    referee = Referee(problem)
    _ = referee.losses
    if referee.doubts:
        found.counts["set aside"] += 1
        found.lines.append(("set aside", "; ".join(referee.doubts)))
        return found
    results = timed(found, "fit", lambda: fit(problem))
    if results is None:
        return found
    for row in range(len(problem.new)):
        examine_row(found, problem, referee, results, row, verbose)
    return found


def examine_row(found, problem, referee, results, row, verbose):
    """The set, the p-values and the stable set of one new row."""
    new = problem.new.iloc[[row]]
    label = new.index[0]
    options = {"alpha": problem.alpha, "side": problem.side, "method": "exact"}
    frame = timed(found, "set", lambda: results.conf_int_conformal(new, **options, progress=False))
    if frame is None:
        return
    made = Set.of(frame, label, problem.side)
    found.counts["sets"] += 1
    found.counts["vague sets"] += made.tol is None or made.tol > 1e-3 * referee.size
    if made.pieces and np.isnan(made.hull).any():
        found.note("NaN", f"row {row}: ends {made.hull}")
        return
    prediction = float(np.ravel(results.predict(new).to_numpy())[0])
    random = np.random.default_rng([found.seed, row, 7])
    tried = candidates(made, referee, prediction, random)
    judge = Judge(referee, row, problem.alpha)
    if verbose:
        print(f"\nrow {row}: {new.iloc[0].to_dict() if new.shape[1] < 8 else ''} set {made}", flush=True)
    for name, z in tried:
        check_member(found, judge, made, name, z)
        if verbose:
            print(f"  {name:20s} {z!r:25} {p_words(judge, z)}, {judge.verdict(z)}, in {made.holds(z)}")
    zs = [z for _, z in tried]
    frame = timed(found, "conformity", lambda: results.conformity(new, zs, side=problem.side))
    if frame is not None:
        check_p(found, judge, frame, made, tried)
    check_stable(found, results, problem, row, made)


def safely(seed):
    """`examine`, with a failure of the referee itself told apart."""
    start = time.perf_counter()
    try:
        found = examine(seed)
        found.whole = time.perf_counter() - start
        return found
    except Exception as error:
        found = Found(seed, draw_problem(seed).loss, draw_problem(seed).describe())
        found.counts["problems"] += 1
        found.counts["set aside"] += 1
        words = traceback.format_exc().strip().splitlines()[-3:]
        found.lines.append(("set aside", f"the referee failed: {type(error).__name__} {' '.join(words)}"))
        return found


# Reporting ------------------------------------------------------------------------------------------


def chosen_seeds(arguments):
    """Seeds of problems that pass the filters, as many as asked for."""
    seed, seeds = arguments.seed, []
    while len(seeds) < arguments.problems:
        problem = draw_problem(seed)
        plain = arguments.standardize is None or problem.standardize == (arguments.standardize == "yes")
        if plain and (not arguments.loss or problem.loss in arguments.loss):
            seeds.append(seed)
        seed += 1
    return seeds


def run(seeds, jobs):
    """A list of `Found`, with progress in between."""
    founds = []
    context = multiprocessing.get_context("fork")
    with context.Pool(jobs, maxtasksperchild=50) as pool:
        for found in pool.imap_unordered(safely, seeds):
            founds.append(found)
            for kind, words in found.lines:
                if kind in JUDGED:
                    print(f"{found.words}\n  {kind}: {words}", flush=True)
            if found.whole > 20:
                print(
                    f"seed {found.seed} took {found.whole:.0f} s, the package {found.package:.0f} s",
                    flush=True,
                )
            if len(founds) % 100 == 0:
                print(f"{len(founds)} of {len(seeds)} problems", flush=True)
    return sorted(founds, key=lambda found: found.seed)


def tables(report, founds):
    """Counts by loss, and the seeds of everything that is wrong."""
    lines = []
    for loss in (*LOSSES, "all"):
        some = [found for found in founds if loss in ("all", found.loss)]
        total = sum((found.counts for found in some), Counter())
        if some:
            lines.append([loss, *(f"{total[name]:,}" for name in COLUMNS)])
    report.table("Verdicts by loss", "", ["loss", *COLUMNS], lines)
    lines = []
    for found in founds:
        for kind in JUDGED:
            same = [words for name, words in found.lines if name == kind]
            if same:
                words = same[0].replace("|", "/")
                lines.append(
                    [str(found.seed), kind, str(len(same)), found.words.split(": ", 1)[1], words[:300]]
                )
    if lines:
        report.table("What is wrong", "", ["seed", "what", "times", "problem", "the first"], lines)


def main():
    """Draw problems, judge the package's answers and write the tables."""
    more = {
        "--problems": {"type": int, "help": "how many (default 1000, with --quick 60)"},
        "--one": {
            "type": int,
            "metavar": "SEED",
            "help": "the problem of one seed, candidate by candidate",
        },
        "--jobs": {"type": int, "default": 1, "help": "processes (default 1)"},
        "--loss": {"nargs": "+", "choices": LOSSES, "help": "only problems of these losses"},
        "--standardize": {"choices": ["yes", "no"], "help": "only problems with, or without, units"},
    }
    arguments = parse_arguments("soundness", __doc__.splitlines()[0], more)
    print(f"stabconf is {os.path.dirname(stabconf.__file__)}", flush=True)
    if arguments.one is not None:
        found = examine(arguments.one, verbose=True)
        print(f"\n{dict(found.counts)}, longest call {found.longest:.2f} s")
        print("\n".join(f"{kind}: {words}" for kind, words in found.lines))
        return
    arguments.problems = arguments.problems or (60 if arguments.quick else 1000)
    start = time.perf_counter()
    founds = run(chosen_seeds(arguments), arguments.jobs)
    report = Report("Soundness")
    report.text(__doc__.split("\n\n", 1)[1].strip())
    rate = 60 * len(founds) / (time.perf_counter() - start)
    asked, whole = sum(found.package for found in founds), sum(found.whole for found in founds)
    report.text(
        f"{len(founds)} problems from seed {arguments.seed} on, {rate:.0f} a minute; the package took "
        f"{100 * asked / max(whole, 1e-9):.0f} % of the time."
    )
    tables(report, founds)
    report.write(arguments.output, arguments.quick)


if __name__ == "__main__":
    main()
