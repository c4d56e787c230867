"""Reports: the summary and a table of intervals as one Markdown file."""

from .files import write_whole

__all__ = ["write_report"]


def write_report(results, path, new, alpha=0.05):
    """Write a Markdown report; the file appears whole or not at all.

    Parameters
    ----------
    results : Results
    path : path-like
    new : DataFrame
        New rows.
    alpha : float

    Returns
    -------
    pathlib.Path
    """
    frame = results.get_prediction(new).summary_frame(alpha=alpha)
    frame = new.join(frame, rsuffix="_predicted") if new.index.is_unique else frame
    text = "\n".join(
        [
            f"# {results.model.formula}",
            "",
            "```text",
            str(results.summary(alpha=alpha)),
            "```",
            "",
            f"## Prediction intervals, {1 - alpha:.0%}",
            "",
            _markdown_table(frame),
            "",
        ]
    )
    return write_whole(path, text.encode("utf-8"))


def _markdown_table(frame):
    header = ["", *map(str, frame.columns)]
    rows = [[str(label), *(_cell(value) for value in row)] for label, *row in frame.itertuples()]
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value):
    return f"{value:.6g}" if isinstance(value, float) else str(value).replace("|", "\\|")
