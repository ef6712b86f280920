"""Where the parts of a small graph are drawn: layers from left to right, edges as curves that avoid the nodes.

The usual four steps (Sugiyama): edges that lead back are set aside, each node's layer is its longest way from the
start, a layer is ordered so that few edges cross, and the places in it follow the neighbours. An edge over several
layers holds a place in each of them, so that it never runs through a node. All lengths are in pixels.
"""

import unicodedata
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from agentkit.lab.graph_shape import NAMES, name_of

Point = tuple[float, float]
Curve = tuple[Point, Point, Point, Point]  # a cubic Bézier

CHARACTER = 7.9  # width of one in the nodes' font, 13 px monospace
SMALL = 6.8  # width of one in a label, 11 px
LONGEST = 22  # characters of a name that are shown
HEIGHT, TERMINAL, ROW = 36, 26, 22  # of a node, of START and END, and the least space between two in a layer
GAP, LOOP = 52, 30  # between layers, and above a node with an edge to itself
MARGIN, TITLE = 18, 24
PORTS = 15  # between two edges on one side of a node


@dataclass
class Box:
    """A node: the centre and the size of its rectangle; `inner` is the picture in it, from its upper left corner."""

    id: str
    width: float
    height: float
    inner: "Layout | None" = None
    x: float = 0
    y: float = 0
    above: float = 0  # room for an edge to itself

    @property
    def corner(self) -> Point:
        """Upper left."""
        return self.x - self.width / 2, self.y - self.height / 2


@dataclass
class Wire:
    """An edge as curves, one behind the other; the last ends at the arrow's tip. `label_at` is the label's centre."""

    edge: dict
    curves: list[Curve]
    label_at: Point | None = None


@dataclass
class Layout:
    """A picture: its size, and its boxes and wires in its own coordinates."""

    width: float = 0
    height: float = 0
    boxes: list[Box] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)


def layout(shape: dict) -> Layout:
    """The picture of a shape."""
    boxes = {node["id"]: _box(node) for node in shape["nodes"]}
    for edge in shape["edges"]:
        if edge["from"] == edge["to"]:
            boxes[edge["from"]].above = LOOP + 14 * bool(edge["label"])
    chains = _chains(shape, _ranks(shape))
    layers = _ordered(_layers(shape, _ranks(shape), chains), chains)
    places = _places(layers, chains, boxes)
    picture = Layout(boxes=list(boxes.values()))
    left, gaps, starts = MARGIN, _gaps(chains, len(layers)), []
    for layer, gap in zip(layers, gaps):
        width = max([boxes[item].width for item in layer if item in boxes], default=0)
        starts.append((left, left + width))
        for item in layer:
            if item in boxes:
                boxes[item].x, boxes[item].y = left + width / 2, places[item]
        left += width + gap
    picture.wires = _wires(chains, boxes, places, starts)
    picture.wires += [_loop(edge, boxes[edge["from"]]) for edge in shape["edges"] if edge["from"] == edge["to"]]
    _label(picture.wires)
    _fit(picture)
    return picture


def shown(name: str) -> str:
    """A name as it fits into a node."""
    name = " ".join(name_of(name).split()) or name
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def measure(text: str, character: float = CHARACTER) -> float:
    """The width of a text, about: Chinese, Japanese and Korean characters take two, combining marks none."""
    return character * sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def _box(node: dict) -> Box:
    width = measure(shown(node["id"]))
    if node["inner"]:
        inner = layout(node["inner"])
        return Box(node["id"], max(inner.width, width + 2 * MARGIN), inner.height + TITLE, inner)
    end = node["id"] in NAMES
    return Box(node["id"], max(width + 26, 0 if end else 64), TERMINAL if end else HEIGHT)


def _ranks(shape: dict) -> dict[str, int]:
    """The layer of each node: the longest way to it, edges back not counted."""
    after: dict[str, list[str]] = {node["id"]: [] for node in shape["nodes"]}
    for edge in shape["edges"]:
        after[edge["from"]].append(edge["to"])
    done: list[str] = []
    back: set[tuple[str, str]] = set()

    def visit(node: str, above: tuple[str, ...]) -> None:
        for other in after[node]:
            if other in (*above, node):
                back.add((node, other))
            elif other not in done:
                visit(other, (*above, node))
        done.append(node)

    for node in after:
        if node not in done:
            visit(node, ())
    ranks = dict.fromkeys(after, 0)
    for node in reversed(done):
        for other in after[node]:
            if (node, other) not in back:
                ranks[other] = max(ranks[other], ranks[node] + 1)
    if "__end__" in ranks:
        ranks["__end__"] = max(ranks.values())
    return ranks


@dataclass
class _Chain:
    """An edge from left to right through the layers: node, places between, node. `back`: it is drawn the other way."""

    edge: dict
    items: list
    rank: int
    back: bool


def _chains(shape: dict, ranks: dict[str, int]) -> list[_Chain]:
    chains = []
    for number, edge in enumerate(shape["edges"]):
        first, last = edge["from"], edge["to"]
        if back := ranks[first] > ranks[last]:
            first, last = last, first
        if first != last:
            between = [(number, rank) for rank in range(ranks[first] + 1, ranks[last])]
            chains.append(_Chain(edge, [first, *between, last], ranks[first], back))
    return chains


def _layers(shape: dict, ranks: dict[str, int], chains: list[_Chain]) -> list[list]:
    layers: list[list] = [[] for _ in range(max(ranks.values(), default=0) + 1)]
    for node in shape["nodes"]:
        layers[ranks[node["id"]]].append(node["id"])
    for chain in chains:
        for rank, item in enumerate(chain.items[1:-1], chain.rank + 1):
            layers[rank].append(item)
    return layers


def _ordered(layers: list[list], chains: list[_Chain]) -> list[list]:
    """The layers in an order with few crossings: each item goes to the mean place of its neighbours, to and fro."""
    best, fewest = layers, _crossings(layers, chains)
    for sweep in range(8):
        layers = [list(layer) for layer in layers]
        forward = sweep % 2 == 0
        for number in range(1, len(layers)) if forward else reversed(range(len(layers) - 1)):
            other = layers[number - 1 if forward else number + 1]
            near = _neighbours(chains, not forward)
            layer = layers[number]
            wish = {item: _mean([other.index(n) for n in near.get(item, [])], layer.index(item)) for item in layer}
            layer.sort(key=wish.get)
        if (crossings := _crossings(layers, chains)) < fewest:
            best, fewest = layers, crossings
    return best


def _crossings(layers: list[list], chains: list[_Chain]) -> int:
    place = {item: number for layer in layers for number, item in enumerate(layer)}
    count = 0
    for rank in range(len(layers) - 1):
        links = [
            (place[c.items[rank - c.rank]], place[c.items[rank - c.rank + 1]])
            for c in chains
            if 0 <= rank - c.rank < len(c.items) - 1
        ]
        count += sum((a - c) * (b - d) < 0 for n, (a, b) in enumerate(links) for c, d in links[:n])
    return count


def _neighbours(chains: list[_Chain], right: bool) -> dict:
    near: dict = {}
    for chain in chains:
        for a, b in pairwise(chain.items):
            near.setdefault(a if right else b, []).append(b if right else a)
    return near


def _mean(values: list[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _places(layers: list[list], chains: list[_Chain], boxes: dict[str, Box]) -> dict:
    """The height at which each item stands: near its neighbours, and clear of the others in its layer."""
    size = {
        item: boxes[item].height + 2 * boxes[item].above if item in boxes else 16 for layer in layers for item in layer
    }
    left, right = _neighbours(chains, False), _neighbours(chains, True)
    places: dict = {}

    def stack(layer: list, wishes: list[float]) -> None:
        at: list[float] = []
        for number, wish in enumerate(wishes):
            least = at[-1] + (size[layer[number - 1]] + size[layer[number]]) / 2 + ROW if at else wish
            at.append(max(wish, least))
        shift = _mean([wish - place for wish, place in zip(wishes, at)], 0)
        places.update({item: place + shift for item, place in zip(layer, at)})

    def wish(item: Any) -> float:
        # Edges between two nodes pull harder than those that only pass: what follows straight on is drawn straight on.
        near = [*left.get(item, []), *right.get(item, [])]
        pull = [4 if item in boxes and other in boxes else 1 for other in near]
        return sum(w * places[other] for w, other in zip(pull, near)) / sum(pull) if near else places[item]

    for layer in layers:
        stack(layer, [0.0] * len(layer))
    for sweep in range(10):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            stack(layer, [wish(item) for item in layer])
    return places


def _gaps(chains: list[_Chain], count: int) -> list[float]:
    """The space behind each layer: enough for the labels in it, none behind the last."""
    gaps = [float(GAP)] * (count - 1) + [0.0]
    for chain in chains:
        rank = chain.rank + len(chain.items) - 2 if chain.back else chain.rank
        if chain.edge["label"]:
            gaps[rank] = max(gaps[rank], measure(chain.edge["label"], SMALL) + 64)
    return gaps


def _wires(chains: list[_Chain], boxes: dict[str, Box], places: dict, columns: list[tuple[float, float]]) -> list[Wire]:
    sides: dict[tuple, list[tuple[float, int]]] = {}
    for number, chain in enumerate(chains):
        sides.setdefault((chain.items[0], "right"), []).append((places[chain.items[1]], number))
        sides.setdefault((chain.items[-1], "left"), []).append((places[chain.items[-2]], number))

    def port(item: str, side: str, number: int) -> Point:
        others, box = sorted(sides[item, side]), boxes[item]
        step = min(PORTS, (box.height - 8) / len(others))
        place = [n for _, n in others].index(number) - (len(others) - 1) / 2
        return box.x + box.width / 2 * (1 if side == "right" else -1), box.y + step * place

    wires = []
    for number, chain in enumerate(chains):
        points = [port(chain.items[0], "right", number)]
        for rank, item in enumerate(chain.items[1:-1], chain.rank + 1):
            points += [(columns[rank][0], places[item]), (columns[rank][1], places[item])]
        points.append(port(chain.items[-1], "left", number))
        curves = [_bow(a, b) for a, b in pairwise(points)]
        wires.append(Wire(chain.edge, [curve[::-1] for curve in reversed(curves)] if chain.back else curves))
    return wires


def _bow(a: Point, b: Point) -> Curve:
    middle = (a[0] + b[0]) / 2
    return a, (middle, a[1]), (middle, b[1]), b


def _loop(edge: dict, box: Box) -> Wire:
    top, half = box.y - box.height / 2, min(16.0, box.width / 4)
    right, left = (box.x + half, top), (box.x - half, top)
    curve = (right, (box.x + half + 10, top - LOOP), (box.x - half - 10, top - LOOP), left)
    return Wire(edge, [curve], (box.x, top - LOOP - 2) if edge["label"] else None)


def at(curve: Curve, t: float) -> Point:
    """The point of a curve at t, 0 to 1."""
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
    return sum(w * p[0] for w, p in zip(weights, curve)), sum(w * p[1] for w, p in zip(weights, curve))


def label_size(text: str) -> tuple[float, float]:
    """Width and height of a label."""
    return measure(text, SMALL) + 8, 15.0


def _label(wires: list[Wire]) -> None:
    """Put each label on its edge in the first gap, where no other label and as little as may be of other edges is."""
    taken = [(wire.label_at, label_size(wire.edge["label"])) for wire in wires if wire.label_at]
    drawn = {id(wire): [at(curve, n / 30) for curve in wire.curves for n in range(31)] for wire in wires}
    for wire in wires:
        if not wire.edge["label"] or wire.label_at:
            continue
        size = label_size(wire.edge["label"])
        others = [point for key, points in drawn.items() if key != id(wire) for point in points]

        def crowd(spot: Point, size: tuple = size, others: list = others) -> int:
            return 1000 * sum(_meet(spot, size, *o) for o in taken) + sum(_meet(spot, size, p, (0, 0)) for p in others)

        wire.label_at = min((at(wire.curves[0], t) for t in (0.6, 0.68, 0.52, 0.76, 0.44, 0.36)), key=crowd)
        taken.append((wire.label_at, size))


def _meet(a: Point, size_a: tuple[float, float], b: Point, size_b: tuple[float, float]) -> bool:
    return all(abs(a[n] - b[n]) < (size_a[n] + size_b[n]) / 2 for n in (0, 1))


def _fit(picture: Layout) -> None:
    """Move everything so that it begins at the margin, and set the picture's size."""
    edges = [
        (b.x - b.width / 2, b.y - b.height / 2 - b.above, b.x + b.width / 2, b.y + b.height / 2) for b in picture.boxes
    ]
    for wire in picture.wires:
        points = [point for curve in wire.curves for point in curve]
        if wire.label_at:
            width, height = label_size(wire.edge["label"])
            points += [(wire.label_at[0] + s * width / 2, wire.label_at[1] + s * height / 2) for s in (-1, 1)]
        edges += [(x, y, x, y) for x, y in points]
    if not edges:
        return
    left, top = min(e[0] for e in edges) - MARGIN, min(e[1] for e in edges) - MARGIN
    picture.width, picture.height = max(e[2] for e in edges) + MARGIN - left, max(e[3] for e in edges) + MARGIN - top

    def moved(point: Point) -> Point:
        return point[0] - left, point[1] - top

    for box in picture.boxes:
        box.x, box.y = moved((box.x, box.y))
    for wire in picture.wires:
        wire.curves = [tuple(map(moved, curve)) for curve in wire.curves]
        wire.label_at = wire.label_at and moved(wire.label_at)
