"""The parts that a report is put together from; strings and pictures, no numbers."""

from dataclasses import dataclass

__all__ = ["Content", "Picture", "Table"]


@dataclass(frozen=True)
class Table:
    """A table of strings, and a note below it. ``header`` is None where it has none."""

    title: str
    header: list | None
    lines: list
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """A figure: a file name without its suffix, what it shows, and SVG as bytes."""

    name: str
    caption: str
    svg: bytes


@dataclass(frozen=True)
class Content:
    """A whole report.

    Attributes
    ----------
    title : str
    lead : str
        What the intervals promise, in a sentence.
    summary : list of Table
    notes : list of str
        Of the summary.
    text : str
        The summary as text.
    widths : list of Table
    pictures : list of Picture
    intervals : Table or None
    checks : list of Table
    cite : list of str
    versions : list of [name, version]
    """

    title: str
    lead: str
    summary: list
    notes: list
    text: str
    widths: list
    pictures: list
    intervals: Table | None
    checks: list
    cite: list
    versions: list
