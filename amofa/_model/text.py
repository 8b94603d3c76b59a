"""Tables as text and as HTML, and numbers in their cells."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence


def counted(n: int, noun: str) -> str:
    """Return a number with a noun, "1 step" or "3 steps"."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def number_text(value: float) -> str:
    """Return a number with four digits, whole from 1000 on."""
    if not math.isfinite(value):
        return str(value)
    if 1e3 <= abs(value) < 1e7:
        return f"{value:.0f}"
    return f"{value:.4g}"


def with_deviation(mean: float, deviation: float) -> str:
    """Return a mean and a standard deviation with as many digits as the deviation has two of.

    Examples
    --------
    >>> with_deviation(1115.71, 221.5), with_deviation(0.0123456, 0.00134), with_deviation(5.0, 0.0)
    ('1116 ± 222', '0.0123 ± 0.0013', '5 ± 0')
    """
    if not (math.isfinite(mean) and math.isfinite(deviation)) or deviation == 0:
        return f"{number_text(mean)} ± {number_text(deviation)}"
    digits = 1 - math.floor(math.log10(deviation))
    if digits > 6 or max(abs(mean), deviation) >= 1e7:
        return f"{mean:.4g} ± {deviation:.2g}"
    digits = max(digits, 0)
    # Adding 0 makes -0.0 positive.
    return f"{round(mean, digits) + 0.0:.{digits}f} ± {deviation:.{digits}f}"


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = ()) -> str:
    """Return a table as text; columns are aligned to the right, or those in `left` to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if j in left else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def html_table(rows: Sequence[Sequence[str]], caption: str = "", bold: int | None = None) -> str:
    """Return a table as HTML; the first row is its header, and one row may be bold."""
    # Imported late, since its table of entities is large.
    from html import escape

    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
    lines = []
    for i, row in enumerate(rows[1:]):
        tag = "th" if i == bold else "td"
        lines.append("<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>")
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
