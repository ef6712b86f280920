"""`draw`: a graph as a still picture, SVG made here and text beside it, for light and dark pages.

The picture needs no script, no style sheet and no ids: all that matters stands in attributes, and lines and letters
take the colour of the page's own text. The live panel shows the same SVG and changes the classes of its parts.
"""

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentkit.lab.graph_layout import TITLE, Curve, Layout, Point, at, label_size, layout, shown
from agentkit.lab.graph_shape import NAMES, as_lines, edges_of, name_of, path_to, shape_of
from agentkit.models.errors import BadField

COLOURS = {"running": "#2f7fd1", "done": "#3d9a50", "error": "#d1463b"}  # readable on white and on black
MONO, SANS = "ui-monospace,Menlo,Consolas,monospace", "system-ui,sans-serif"


class draw:  # noqa: N801 - reads as a function in a lesson: draw(agent)
    """A still picture of an agent or a StateGraph (compiled or not); nodes named in `lit` are filled.

    Shows as SVG in a notebook and as lines of text elsewhere. Raises BadField for a lit node that the graph has not.
    """

    def __init__(self, graph: Any, lit: Sequence[str] = (), title: str | None = None):
        self.shape, self.title = shape_of(graph), title
        self.lit = (lit,) if isinstance(lit, str) else tuple(lit)
        for name in self.lit:
            if not path_to(self.shape, name):
                raise BadField(f"lit names {name!r}; the graph has {', '.join(map(name_of, _ids(self.shape)))}")

    def __repr__(self) -> str:
        return "\n".join([*filter(None, [self.title]), *as_lines(self.shape, self.lit)])

    def _repr_html_(self) -> str:
        picture = svg(self.shape, dict.fromkeys(self.lit, ("running", 0)), title=self.title)
        head = f'<div style="font-weight:600;margin:2px 0 4px">{html.escape(self.title)}</div>' if self.title else ""
        return f'<div style="overflow-x:auto">{head}{picture}</div>'


def svg(
    shape: dict, states: Mapping[str, tuple[str, int]] = {}, taken: Sequence[int] = (), title: str | None = None
) -> str:  # noqa: B006
    """The shape as an SVG element. `states`: name of a node: (state, visits); `taken`: numbers of the edges to colour.

    A state is a key of COLOURS or empty. Nodes and edges carry data-node and data-edge, so that a script finds them.
    """
    picture = layout(shape)
    numbers = {id(edge): number for number, edge in edges_of(shape)}
    words = html.escape(title or _summary(shape))
    parts = "".join(_parts(picture, states, numbers, set(taken)))
    width, height = round(picture.width), round(picture.height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{words}" width="{width}" height="{height}" '
        # A wide one shrinks a little with the page, then scrolls.
        f'style="max-width:100%;min-width:{width * 3 // 4}px;height:auto" viewBox="0 0 {width} {height}" '
        f'font-family="{MONO}" font-size="13" fill="none" stroke-width="1.5">'
        f"<title>{words}</title>{parts}</svg>"
    )


def _summary(shape: dict) -> str:
    return "Graph: " + "; ".join(line.strip() for line in as_lines(shape))


def _ids(shape: dict) -> Iterator[str]:
    for node in shape["nodes"]:
        yield node["id"]
        yield from _ids(node["inner"]) if node["inner"] else ()


def _parts(picture: Layout, states: Mapping, numbers: dict[int, int], taken: set[int]) -> Iterator[str]:
    for wire in picture.wires:
        number = numbers[id(wire.edge)]
        yield _edge(wire, number, number in taken)
    for box in picture.boxes:
        state, visits = states.get(box.id, ("", 0))
        yield _node(box, state, visits)
        if box.inner:
            x, y = box.corner
            inner = "".join(_parts(box.inner, states, numbers, taken))
            yield f'<g transform="translate({_n(x + (box.width - box.inner.width) / 2)} {_n(y + TITLE)})">{inner}</g>'


def _node(box: Any, state: str, visits: int) -> str:
    x, y = box.corner
    name, colour = html.escape(box.id), COLOURS.get(state)
    paint = f'stroke="{colour}" fill="{colour}"' if colour else 'stroke="currentColor" fill="currentColor"'
    terminal = box.id in NAMES
    strength = (0.03 if box.inner else 0.2) if colour else 0.0 if box.inner else 0.05
    line = 0.9 if colour else 0.3 if box.inner else 0.5
    at_y = y + 17 if box.inner else box.y + 4.5
    count = (x + box.width - 10, y + 17) if box.inner else (x + box.width - 2, y + box.height + 12)
    small = ' fill-opacity="0.75" font-size="11"' if terminal else ""
    kind = "terminal" if terminal else "group" if box.inner else "plain"
    return (
        f'<g class="ak-node ak-{kind}{f" ak-{state}" if state else ""}" data-node="{name}">'
        f"<title>{html.escape(name_of(box.id))}</title>"
        f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(box.width)}" height="{_n(box.height)}" '
        f'rx="{_n(box.height / 2 if terminal else 8)}" {paint} fill-opacity="{strength}" stroke-opacity="{line}"/>'
        f'<text x="{_n(box.x)}" y="{_n(at_y)}" text-anchor="middle" fill="currentColor"'
        f"{small}>{html.escape(shown(box.id))}</text>"
        f'<text class="ak-visits" x="{_n(count[0])}" y="{_n(count[1])}" text-anchor="end" '
        f'fill="currentColor" fill-opacity="0.75" font-size="10.5">{counted(visits)}</text></g>'
    )


def counted(visits: int) -> str:
    """How often a node ran, as the picture says it: nothing for never."""
    return f"×{visits}" if visits else ""


def _edge(wire: Any, number: int, taken: bool) -> str:
    label, gone = wire.edge["label"], []
    for curve in wire.curves:
        gone += _around(curve, wire.label_at, label_size(label)) if wire.label_at else [curve]
    dashes = ' stroke-dasharray="5 4"' if wire.edge["conditional"] else ""
    paint = (
        f'stroke="{COLOURS["done"]}" stroke-opacity="0.95"' if taken else 'stroke="currentColor" stroke-opacity="0.55"'
    )
    fill = f'fill="{COLOURS["done"]}"' if taken else 'fill="currentColor" fill-opacity="0.7"'
    names = f"{name_of(wire.edge['from'])} to {name_of(wire.edge['to'])}"
    said = f": {label}" if label else ""
    text = ""
    if wire.label_at:
        x, y = wire.label_at
        text = (
            f'<text x="{_n(x)}" y="{_n(y + 4)}" text-anchor="middle" font-size="11" font-family="{SANS}" '
            f'fill="currentColor" fill-opacity="0.85">{html.escape(label)}</text>'
        )
    return (
        f'<g class="ak-edge{" ak-taken" if taken else ""}" data-edge="{number}">'
        f"<title>{html.escape(names + said)}</title>"
        f'<path class="ak-line" d="{"".join(map(_path, gone))}" {paint}{dashes}/>'
        f'<path class="ak-tip" d="{_tip(wire.curves[-1])}" {fill}/>{text}</g>'
    )


def _path(curve: Curve) -> str:
    a, b, c, d = curve
    return f"M{_p(a)}C{_p(b)} {_p(c)} {_p(d)}"


def _around(curve: Curve, centre: Point, size: tuple[float, float]) -> list[Curve]:
    """The parts of a curve outside a label. So nothing has to be painted over, on a page of whatever colour."""
    steps = [n / 60 for n in range(61)]
    hidden = [t for t in steps if all(abs(at(curve, t)[n] - centre[n]) < size[n] / 2 for n in (0, 1))]
    if not hidden:
        return [curve]
    parts = [_split(curve, hidden[0])[0]] if hidden[0] > 0 else []
    return parts + ([_split(curve, hidden[-1])[1]] if hidden[-1] < 1 else [])


def _split(curve: Curve, t: float) -> tuple[Curve, Curve]:
    """A curve cut in two at t (de Casteljau)."""

    def between(a: Point, b: Point) -> Point:
        return a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1])

    a, b, c, d = curve
    ab, bc, cd = between(a, b), between(b, c), between(c, d)
    abc, bcd = between(ab, bc), between(bc, cd)
    middle = between(abc, bcd)
    return (a, ab, abc, middle), (middle, bcd, cd, d)


def _tip(curve: Curve) -> str:
    """The arrowhead, a triangle in the direction in which the curve arrives."""
    (fx, fy), (x, y) = at(curve, 0.94), curve[3]
    length = ((x - fx) ** 2 + (y - fy) ** 2) ** 0.5 or 1
    dx, dy = (x - fx) / length, (y - fy) / length
    back = (x - 8 * dx, y - 8 * dy)
    return f"M{_p((x, y))}L{_p((back[0] - 4 * dy, back[1] + 4 * dx))}L{_p((back[0] + 4 * dy, back[1] - 4 * dx))}Z"


def _p(point: Point) -> str:
    return f"{_n(point[0])} {_n(point[1])}"


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
