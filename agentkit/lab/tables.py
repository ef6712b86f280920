"""A small table that reads as HTML in a notebook and as aligned text elsewhere."""

import html
from collections.abc import Sequence


class table:  # noqa: N801 - reads as a function in a lesson: table(columns, rows)
    """Rows under named columns; cells are shown with `str`."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence]):
        self.columns, self.rows = list(columns), [[str(cell) for cell in row] for row in rows]

    def __repr__(self) -> str:
        wide = [max(len(row[n]) for row in [self.columns, *self.rows]) for n in range(len(self.columns))]
        lines = [" | ".join(cell.ljust(size) for cell, size in zip(row, wide)).rstrip()
                 for row in [self.columns, *self.rows]]
        return "\n".join([lines[0], "-+-".join("-" * size for size in wide), *lines[1:]])

    def _repr_html_(self) -> str:
        style = "text-align:left;vertical-align:top;padding:4px 12px;white-space:pre-wrap;overflow-wrap:anywhere"

        def cells(tag: str, row: list[str]) -> str:
            return "<tr>" + "".join(f'<{tag} style="{style}">{html.escape(cell)}</{tag}>' for cell in row) + "</tr>"

        body = "".join(cells("td", row) for row in self.rows)
        return (f'<table style="font-size:13px;max-width:980px"><thead>{cells("th", self.columns)}</thead>'
                f"<tbody>{body}</tbody></table>")
