"""The code of documentation pages: it is run, and its output is compared with what the page shows.

A ``python`` block goes on from the blocks above it. The ``text`` block after it is its output: what it
prints, and the value of its last line, as in a notebook.
"""

import ast
import contextlib
import doctest
import io
import re
import sys

BLOCK = re.compile(r"^(?P<fence>`{3,})(?P<kind>\w*)[^\n]*\n(?P<code>.*?)^(?P=fence)$", re.DOTALL | re.M)
SHOWN = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(text):
    """``(kind, code, line)`` of every fenced block."""
    found = BLOCK.finditer(text)
    return [(each["kind"], each["code"], text.count("\n", 0, each.start()) + 2) for each in found]


def sections(text, level=2):
    """The text below each heading of a level, by heading."""
    parts = re.split(rf"^{'#' * level} (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def run(text, name, names=None):
    """Run a page's code; lines of ``(line, wanted, got)`` for every output that the page shows."""
    names = {"__name__": name} if names is None else names
    out, got = [], ""
    for kind, code, line in blocks(text):
        if kind == "python":
            got = run_block(code, f"{name}, line {line}", names)
        elif kind == "text":
            out.append((line, code, got))
    return out


def run_block(code, name, names):
    """What a block prints, and the value of its last line."""
    tree = ast.parse(code, name)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, name, "exec"), names)
        value = None if last is None else eval(compile(last, name, "eval"), names)
        if value is not None:
            sys.stdout.write(f"{value!r}\n")
    return printed.getvalue()


def agree(wanted, got):
    """Whether an output is what the page shows; ``...`` stands for anything, blanks do not count."""
    return doctest.OutputChecker().check_output(wanted, got, SHOWN)
