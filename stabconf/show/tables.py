"""Tables of strings as Markdown, LaTeX and HTML; labels from a user's data are escaped.

Summaries, width reports and written reports are put together from these.
"""

import html
import math
from collections.abc import Sequence

__all__ = [
    "cell",
    "html_table",
    "latex_escaped",
    "latex_table",
    "markdown_escaped",
    "markdown_table",
    "percent",
    "shortened",
]

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{sign: rf"\{sign}" for sign in "#$%&_{}"},
}
_MARKDOWN = {ord(sign): f"\\{sign}" for sign in "\\`*_|~$"} | {
    ord("<"): "&lt;",
    ord("&"): "&amp;",
    ord("\n"): " ",
}


def cell(value: object) -> str:
    """A value for a table: numbers to four digits, nothing for what is missing.

    >>> [cell(value) for value in (235, 153.2871, float("nan"), "north")]
    ['235', '153.3', '', 'north']
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"
    return str(value)


def shortened(text: object, width: int) -> str:
    """Text cut in its middle, where a long name says least.

    >>> shortened("Department of Economics", 18)
    'Department...omics'
    """
    text = str(text)
    tail = (width - 3) // 3
    return text if len(text) <= width else f"{text[: width - 3 - tail]}...{text[-tail:]}"


def percent(share: float) -> str:
    """A share in per cent, to one digit.

    >>> percent(0.0512), percent(1.0), percent(0.0)
    ('5.1 %', '100 %', '0 %')
    """
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def markdown_escaped(text: object) -> str:
    """Text that Markdown shows as it is.

    >>> markdown_escaped("a|b <i>")
    'a\\\\|b &lt;i>'
    """
    return str(text).translate(_MARKDOWN).replace("](", "]\\(")


def markdown_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A pipe table; the first column is left-aligned, the others are right-aligned.

    >>> print(markdown_table(["", "width"], [["a|b", "1.5"]]))
    |  | width |
    | :-- | --: |
    | a\\|b | 1.5 |
    """
    ruler = [":--", *["--:"] * (len(header) - 1)]
    rows = [[markdown_escaped(text) for text in row] for row in (header, *lines)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (rows[0], ruler, *rows[1:]))


def latex_escaped(text: object) -> str:
    """Text with LaTeX's special characters escaped.

    >>> latex_escaped("50 % of x_1")
    '50 \\\\% of x\\\\_1'
    """
    return "".join(_LATEX.get(sign, sign) for sign in str(text))


def latex_table(
    header: Sequence[str] | None, lines: Sequence[Sequence[str]], caption: str | None = None
) -> str:
    """A ``tabular`` with booktabs' rules; in a ``table`` where it has a caption."""
    columns = "l" + "r" * (len(header or lines[0]) - 1)
    parts = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    if header:
        parts += [" & ".join(map(latex_escaped, header)) + r" \\", r"\midrule"]
    for line in lines:
        # Braces before what the rule above would take for its option, ``[0, 1]`` or ``*`` say.
        start = "{}" if line[0].startswith(("[", "*")) else ""
        parts.append(start + " & ".join(map(latex_escaped, line)) + r" \\")
    parts += [r"\bottomrule", r"\end{tabular}"]
    if caption:
        parts = [r"\begin{table}", rf"\caption{{{latex_escaped(caption)}}}", r"\centering", *parts]
        parts.append(r"\end{table}")
    return "\n".join(parts)


def html_table(
    header: Sequence[str] | None,
    lines: Sequence[Sequence[str]],
    caption: str | None = None,
    css: str = "stabconf",
) -> str:
    """A table; the first column of each line names it.

    >>> print(html_table(["", "width"], [["<b>", "1.5"]]))
    <table class="stabconf">
    <thead><tr><th scope="col"></th><th scope="col">width</th></tr></thead>
    <tbody>
    <tr><th scope="row">&lt;b&gt;</th><td>1.5</td></tr>
    </tbody>
    </table>
    """
    parts = [f'<table class="{css}">']
    if caption:
        parts.append(f"<caption>{html.escape(caption)}</caption>")
    if header:
        cells = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in header)
        parts.append(f"<thead><tr>{cells}</tr></thead>")
    parts.append("<tbody>")
    for first, *others in lines:
        cells = "".join(f"<td>{html.escape(text)}</td>" for text in others)
        parts.append(f'<tr><th scope="row">{html.escape(first)}</th>{cells}</tr>')
    return "\n".join([*parts, "</tbody>", "</table>"])
