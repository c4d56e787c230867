"""Tables of strings as Markdown, LaTeX and HTML; labels from a user's data are escaped.

Summaries, width reports and written reports are put together from these.
"""

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile

_NAMED = {"\\": "backslash", "~": "asciitilde", "^": "asciicircum", "<": "less", ">": "greater", "|": "bar"}
_LATEX = str.maketrans(
    {sign: rf"\text{name}{{}}" for sign, name in _NAMED.items()} | {sign: rf"\{sign}" for sign in "#$%&_{}"}
)
_LEFT, _RIGHT = "text-align: left", "text-align: right"  # notebooks centre what says nothing
_CAPTION = f"{_LEFT}; font-weight: bold; white-space: nowrap"
_MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\`*_|~$"} | {"<": "&lt;", "&": "&amp;", "\n": " "})


def cell(value: object) -> str:
    """A value for a table: numbers to four digits, nothing for what is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"
    return str(value)


def shortened(text: object, width: int) -> str:
    """Text cut in its middle, where a long name says least: 'Department...omics'."""
    text = str(text)
    tail = (width - 3) // 3
    return text if len(text) <= width else f"{text[: width - 3 - tail]}...{text[-tail:]}"


def told_apart(labels: Iterable[object], width: int) -> list[str]:
    """Labels that are cut to a width and still differ where they did before.

    >>> told_apart(["Economics, first year, day", "Economics, third year, day", "Law"], 18)
    ['...first year, day', '...third year, day', 'Law']
    """
    texts = list(map(str, labels))
    made = [shortened(text, width) for text in texts]
    for cut in set(made):
        pairs = list(zip(texts, made, strict=True))
        alike = {text for text, each in pairs if each == cut}
        if len(alike) > 1:
            shared = takewhile(lambda signs: len(set(signs)) == 1, zip(*alike, strict=False))
            start = len(list(shared))  # the part that they share says nothing
            made = [_from(text, start, width) if text in alike else each for text, each in pairs]
    if len(set(made)) < len(set(texts)):  # they differ here and there: a number tells them apart
        places = {text: place for place, text in enumerate(dict.fromkeys(texts), 1)}
        made = [f"{shortened(text, width - 5)} #{places[text]}" for text in texts]
    return made


def _from(text: str, start: int, width: int) -> str:
    """So much of a text from where it starts to say something, or all of its end."""
    begin = max(0, min(start, len(text) - (width - 3)))
    end = begin + width - 3
    return f"...{text[begin:end]}" if end >= len(text) else f"...{text[begin : end - 3]}..."


def percent(share: float) -> str:
    """A share in per cent, to one digit."""
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def promised(share: float) -> str:
    """The coverage that intervals promise, in words; NaN where nothing is certified."""
    return f"at least {percent(share)}" if not math.isnan(share) else "not certified"


def markdown_escaped(text: object) -> str:
    """Text that Markdown shows as it is."""
    return str(text).translate(_MARKDOWN).replace("](", "]\\(")


def latex_escaped(text: object) -> str:
    """Text with LaTeX's special characters escaped."""
    return str(text).translate(_LATEX)


@dataclass(frozen=True)
class Table:
    """A table of strings whose first column names the lines, and a note below it."""

    title: str
    header: list[str] | None
    lines: list[list[str]]
    note: str = ""

    def markdown(self) -> str:
        """A pipe table; the first column is left-aligned, the others are right-aligned."""
        head, *rows = [map(markdown_escaped, row) for row in (self.header or [], *self.lines)]
        ruler = [":--", *["--:"] * (len(self.header or []) - 1)]
        return "\n".join("| " + " | ".join(row) + " |" for row in (head, ruler, *rows))

    def latex(self) -> str:
        """A ``tabular`` with booktabs' rules; in a ``table`` where it has a title."""
        columns = "l" + "r" * (len(self.header or self.lines[0]) - 1)
        parts = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
        if self.header:
            parts += [" & ".join(map(latex_escaped, self.header)) + r" \\", r"\midrule"]
        for line in self.lines:
            # Braces before what the rule above would take for its option, ``[0, 1]`` or ``*`` say.
            start = "{}" if line[0].startswith(("[", "*")) else ""
            parts.append(start + " & ".join(map(latex_escaped, line)) + r" \\")
        parts += [r"\bottomrule", r"\end{tabular}"]
        if self.title:
            caption = rf"\caption{{{latex_escaped(self.title)}}}"
            parts = [r"\begin{table}", caption, r"\centering", *parts, r"\end{table}"]
        return "\n".join(parts)

    def html(self, css: str = "stabconf") -> str:
        """A ``table`` of the class ``css``, with the title as its caption."""
        parts = [f'<table class="{css}">']
        if self.title:
            parts.append(f'<caption style="{_CAPTION}">{html.escape(self.title)}</caption>')
        if self.header:
            cells = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in self.header)
            parts.append(f"<thead><tr>{cells}</tr></thead>")
        parts.append("<tbody>")
        for first, *others in self.lines:
            cells = "".join(f'<td style="{_RIGHT}">{html.escape(text)}</td>' for text in others)
            parts.append(f'<tr><th scope="row" style="{_LEFT}">{html.escape(first)}</th>{cells}</tr>')
        return "\n".join([*parts, "</tbody>", "</table>"])
