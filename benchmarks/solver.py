"""The solver against general ones, and its growth with the number of rows.

Least absolute deviations with a ridge penalty, ``sum |v - X theta| + n penalty / 2 |theta|^2``, on
standardised columns with a column of ones. Each rival solves the same problem from the same arrays;
objectives are evaluated by one function at the coefficients returned, so that a faster and sloppier
answer shows.
"""

import math
import warnings
from dataclasses import replace

import clarabel
import numpy as np
from common import TARGET, Report, best_time, california_housing, parse_arguments, peak_memory
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import QuantileRegressor
from sklearn.svm import LinearSVR

from stabconf.data.units import location_scale
from stabconf.losses import LAD, Huber, Quantile
from stabconf.solvers import Problem, minimise, smallest_norm

PENALTIES = (0.1, 0.01)
SAME_OBJECTIVE = 1e-6
GROWTH_COLUMNS = 20
ROUTES = [(0.0, 0.0), (0.01, 0.0), (0.01, 0.5), (0.01, 1.0), (1.0, 0.0)]  # penalty and l1_ratio


def lad_problem(features, response, penalty):
    """The standardised LAD problem of a table."""
    spread = features.std(axis=0)
    X = np.column_stack([np.ones(len(features)), (features - features.mean(axis=0)) / spread])
    centre, scale = location_scale(response)
    p = X.shape[1]
    ridge = np.full(p, len(X) * penalty)
    return Problem(X, (response - centre) / scale, LAD(), ridge, np.zeros(p))


def clarabel_solver(problem):
    """A call that solves the quadratic programme in theta and the parts of the residuals."""
    n, p = problem.X.shape
    quadratic = sparse.diags(np.concatenate([problem.ridge, np.zeros(2 * n)]), format="csc")
    linear = np.concatenate([np.zeros(p), np.ones(2 * n)])
    identity = sparse.identity(n, format="csc")
    equal = sparse.hstack([sparse.csc_matrix(problem.X), identity, -identity])
    positive = sparse.hstack([sparse.csc_matrix((2 * n, p)), -sparse.identity(2 * n)])
    constraints = sparse.vstack([equal, positive], format="csc")
    limits = np.concatenate([problem.v, np.zeros(2 * n)])
    cones = [clarabel.ZeroConeT(n), clarabel.NonnegativeConeT(2 * n)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False

    def solve():
        solver = clarabel.DefaultSolver(quadratic, linear, constraints, limits, cones, settings)
        return np.array(solver.solve().x[:p])

    return solve


def support_vector_solver(problem, seed):
    """LinearSVR with an epsilon of 0: its objective is ours divided by n times the penalty.

    The ones column stays in the design, so that the intercept is shrunk as ours is.
    """
    model = LinearSVR(
        epsilon=0.0,
        C=1.0 / problem.ridge[0],
        loss="epsilon_insensitive",
        fit_intercept=False,
        dual=True,
        tol=1e-8,
        max_iter=10_000,
        random_state=seed,
    )

    def solve():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(problem.X, problem.v).coef_

    return solve


def quantile_solver(problem):
    """QuantileRegressor without its L1 penalty, as a linear programme."""
    model = QuantileRegressor(quantile=0.5, alpha=0.0, fit_intercept=False, solver="highs")
    return lambda: model.fit(problem.X, problem.v).coef_


def compare(problem, rivals, repeats):
    """Cells ``solver, objective, time``: against the best objective found, and stabconf's time."""
    unit, solution = best_time(lambda: minimise(problem), 3 * repeats)
    name = "stabconf" if solution.success else "stabconf (not converged)"
    found = [(name, unit, solution.fun)]
    for name, solve in rivals.items():
        seconds, theta = best_time(solve, repeats)
        found.append((name, seconds, problem.value(theta)))
    best = min(value for _, _, value in found)
    if found[0][2] / best - 1.0 > SAME_OBJECTIVE:
        warnings.warn(f"stabconf's objective is {found[0][2]:g}, another's {best:g}", stacklevel=2)
    rows = []
    for name, seconds, value in found:
        rows.append([name, f"{value / best - 1.0:.1e}", f"{seconds / unit:.1f}"])
    return rows


def rivals_table(report, table, label, repeats, seed):
    """The solvers on the housing table, with a penalty and without."""
    features = table.drop(columns=TARGET).to_numpy()
    response = table[TARGET].to_numpy()
    rows = []
    for penalty in (*PENALTIES, 0.0):
        problem = lad_problem(features, response, penalty)
        rivals = {"clarabel": clarabel_solver(problem)}
        if penalty:
            rivals["LinearSVR"] = support_vector_solver(problem, seed)
        else:
            rivals["QuantileRegressor (HiGHS)"] = quantile_solver(problem)
        rows += [[f"{penalty:g}", *row] for row in compare(problem, rivals, repeats)]
    n, p = problem.X.shape
    report.table(
        f"LAD + ridge, {label}, n = {n}, p = {p}",
        "Objective: relative excess over the best that any of them found. Time: relative to "
        "stabconf's. Default tolerances of clarabel, whose matrices are made outside the clock; "
        "LinearSVR with tol 1e-8 and at most 10,000 passes.",
        ["penalty", "solver", "objective", "time"],
        rows,
    )


def routes_table(report, table, label, repeats):
    """``solver="newton"``, ``"scipy"`` and ``"statsmodels"`` on the same problems, and their gaps."""
    features = table.drop(columns=TARGET).to_numpy()
    response = table[TARGET].to_numpy()
    rows = []
    for loss in (LAD(), Quantile(0.9), Huber()):
        for penalty, l1_ratio in ROUTES:
            problem = lad_problem(features, response, penalty)
            n, p = problem.X.shape
            lasso = np.where(np.arange(p) > 0, n * penalty * l1_ratio, 0.0)
            problem = replace(problem, loss=loss, ridge=problem.ridge * (1.0 - l1_ratio), lasso=lasso)
            problem = smallest_norm(problem).apply(problem)
            names = ["newton", "scipy"]
            if not penalty and loss.kind == "step":
                names.append("statsmodels")
            unit, usual = best_time(lambda problem=problem: minimise(problem), repeats)
            for name in names:
                seconds, found = best_time(
                    lambda problem=problem, name=name: minimise(problem, solver=name), repeats
                )
                gap = f"{found.gap / max(1.0, abs(found.fun)):.0e}" if math.isfinite(found.gap) else ""
                away = np.max(np.abs(found.x - usual.x))
                cells = [f"{seconds / unit:.1f}", f"{found.nit}", gap, f"{away:.0e}"]
                converged = "yes" if found.success else "no"
                rows.append([loss.describe(), f"{penalty:g}", f"{l1_ratio:g}", name, *cells, converged])
    report.table(
        f"The same problems by each `solver`, {label}, n = {n}, p = {p}",
        "Time: relative to newton's. Gap: certified duality gap relative to the objective (none without a "
        "ridge part, where the stationarity residual decides). Away: largest difference of a coefficient "
        "from newton's.",
        ["loss", "penalty", "l1_ratio", "solver", "time", "steps", "gap", "away", "converged"],
        rows,
    )


def growth_table(report, sizes, repeats, seed):
    """Time and memory as the rows grow: heavy-tailed noise, 20 columns and the ones."""
    rows, first = [], None
    for n in sizes:
        random = np.random.default_rng([seed, n])
        features = random.standard_normal((n, GROWTH_COLUMNS - 1))
        response = features @ random.standard_normal(GROWTH_COLUMNS - 1)
        response += random.standard_t(3, size=n)
        problem = lad_problem(features, response, 0.1)
        seconds, solution = best_time(lambda problem=problem: minimise(problem), repeats)
        extra = peak_memory(lambda problem=problem: minimise(problem))
        first = first or (n, seconds)
        rows.append(
            [
                f"{n:,}",
                f"{n / first[0]:g}",
                f"{seconds / first[1]:.1f}",
                f"{extra / problem.X.nbytes:.2f}",
                "yes" if solution.success and math.isfinite(solution.radius) else "no",
            ]
        )
    report.table(
        f"Growth with n, LAD + ridge 0.1, p = {GROWTH_COLUMNS}, t3 noise",
        "Rows and time relative to the first line; memory is the peak beyond what was held before, "
        "in units of the design matrix.",
        ["n", "rows", "time", "memory", "certified"],
        rows,
    )


def main():
    """Run the comparisons and write the tables."""
    arguments = parse_arguments("solver", __doc__.splitlines()[0])
    repeats, seed = 1 if arguments.quick else 5, arguments.seed
    table, label = california_housing(arguments.data_dir)
    report = Report("Solver")
    rivals_table(report, table, label, repeats, seed)
    routes_table(report, table, label, repeats)
    sizes = [10_000, 100_000] if arguments.quick else [10_000, 100_000, 1_000_000]
    growth_table(report, sizes, repeats, seed)
    report.write(arguments.output, arguments.quick)


if __name__ == "__main__":
    main()
