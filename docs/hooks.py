"""What MkDocs does not do by itself: the notebooks as pages, the figures, mathematics without scripts.

Notebooks are shown with the output that they are stored with; nothing of them is run. Figures are drawn
while the site is built, so that they show what the package does now. Formulas become MathML, which browsers
draw themselves: a page fetches nothing.
"""

import base64
import html
import io
import json
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
FIGURES = (
    "intervals",
    "bands",
    "losses",
    "methods",
    "conformity",
    "widths",
    "coverage",
    "stability",
    "predictive",
    "drift",
    "conditional",
)


def on_files(files, config):
    """Add the notebooks and the figures to the files of the site."""
    for path in sorted((ROOT / "vignettes").glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        files.append(File.generated(config, f"gallery/{path.stem}.md", content=notebook_page(notebook)))
    for name, svg in figures().items():
        files.append(File.generated(config, f"figures/{name}.svg", content=svg))
    return files


def on_page_content(content, **_):
    """Draw formulas as MathML."""
    from latex2mathml.converter import convert

    def inline(found):
        return convert(html.unescape(found[1]))

    def display(found):
        return f'<div class="formula">{convert(html.unescape(found[1]), display="block")}</div>'

    content = re.sub(r'<span class="arithmatex">\\\((.*?)\\\)</span>', inline, content, flags=re.DOTALL)
    return re.sub(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', display, content, flags=re.DOTALL)


# Notebooks -------------------------------------------------------------------------------------------


def notebook_page(notebook):
    """A notebook as Markdown, its stored output included."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code" and source.strip():
            parts.append(f"````python\n{source}\n````")
            parts += [output_part(output) for output in cell["outputs"]]
    return "\n\n".join(parts) + "\n"


def output_part(output):
    """One output of a cell: a figure, a table or text, the richest that there is."""
    data = {kind: "".join(value) for kind, value in output.get("data", {}).items()}
    if "image/svg+xml" in data:
        return picture("svg+xml", base64.b64encode(data["image/svg+xml"].encode()).decode())
    if "image/png" in data:
        return picture("png", data["image/png"].replace("\n", ""))
    if "text/html" in data:
        table = re.sub(r"<style.*?</style>", "", data["text/html"], flags=re.DOTALL)
        lines = "\n".join(line.strip() for line in table.splitlines() if line.strip())
        return f'<div class="output">\n{lines}\n</div>'
    text = data.get("text/plain") or "".join(output.get("text", ""))
    return f"````{{.text .output}}\n{text.rstrip()}\n````"


def picture(kind, code):
    """A figure that is part of the page."""
    return f'<img class="figure" alt="" src="data:image/{kind};base64,{code}">'


# Figures ---------------------------------------------------------------------------------------------


def figures():
    """The figures of the guide as SVG, by name."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from statsmodels.datasets import engel

    import stabconf

    data = engel.load_pandas().data.sample(frac=1.0, random_state=0)
    train, test = data.iloc[:150], data.iloc[150:]
    huber = stabconf.fit("foodexp ~ income", train, loss="huber")
    bands = stabconf.fit_quantiles("foodexp ~ income", train)
    draw = {
        "intervals": lambda ax: huber.plot_intervals(test, x="income", alpha=0.1, ax=ax),
        "bands": lambda ax: bands.plot_intervals(test, x="income", alpha=0.1, ax=ax),
        "losses": draw_losses,
        "methods": lambda ax: draw_methods(huber, ax),
        "conformity": lambda ax: huber.plot_conformity({"income": [1000.0]}, alpha=0.1, ax=ax),
        "widths": lambda ax: bands.plot_widths(test, by={"income": 3}, alpha=0.1, ax=ax),
        "coverage": lambda ax: huber.plot_coverage(test, ax=ax),
        "stability": lambda ax: stabconf.fit("foodexp ~ income", train).plot_stability(
            test, penalties=[0.001, 0.01, 0.1, 1.0], alpha=0.1, ax=ax
        ),
        "predictive": lambda ax: huber.predictive({"income": [1000.0]}).plot(ax=ax),
        "drift": lambda ax: draw_dearer(huber, test, ax),
        "conditional": lambda ax: stabconf.fit("foodexp ~ income", train).plot_coverage(
            test, by={"income": 3}, alpha=0.1, conditional="~ income", ax=ax
        ),
    }
    assert tuple(draw) == FIGURES
    made = {}
    for name, onto in draw.items():
        figure = Figure(figsize=(6.4, 3.8), layout="constrained", facecolor="white")
        onto(figure.add_subplot())
        out = io.BytesIO()
        with mpl.rc_context({"svg.hashsalt": "stabconf"}):
            figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        made[name] = out.getvalue()
    return made


def draw_dearer(results, new, ax):
    """Evidence against exchangeability where food becomes dearer after 40 rows."""
    import numpy as np

    new = new.assign(foodexp=new["foodexp"] + 100.0 * (np.arange(len(new)) >= 40))
    new.index = range(150, 150 + len(new))
    results.check_exchangeability(new).plot(ax)


def draw_losses(ax):
    """The losses side by side."""
    import numpy as np

    import stabconf

    r = np.linspace(-3.5, 3.5, 301)
    drawn = {
        "squared": (stabconf.Squared(), "-"),
        "lad": (stabconf.LAD(), "--"),
        "huber": (stabconf.Huber(), "-."),
        "quantile, 0.9": (stabconf.Quantile(0.9), ":"),
        "linex": (stabconf.Linex(), (0, (5, 1, 1, 1, 1, 1))),
    }
    for label, (loss, style) in drawn.items():
        ax.plot(r, loss.value(r), linestyle=style, label=label)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set(xlabel="residual, in units of the residual scale", ylabel="loss", ylim=(0, 4))
    ax.legend(frameon=False)


def draw_methods(results, ax):
    """Intervals of several methods for one row."""
    methods = ("exact", "stable", "replace_one", "batch", "split", "cv+")
    for place, method in enumerate(reversed(methods)):
        options = {"z_hat": ["prediction", 500.0, 800.0]} if method == "batch" else {}
        ends = results.conf_int_conformal({"income": [1000.0]}, alpha=0.1, method=method, **options)
        lower, upper = ends.to_numpy()[0]
        ax.plot([lower, upper], [place, place], color="#0072b2", marker="|", markersize=12)
        ax.annotate(f"{upper - lower:.0f}", (upper, place), (8, 0), textcoords="offset points", va="center")
    ax.margins(x=0.12, y=0.12)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_yticks(range(len(methods)), reversed(methods))
    ax.set_xlabel("90 % interval of foodexp at an income of 1000, and its width")
