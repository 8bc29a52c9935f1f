"""Generated images and what they show: coloured shapes, up to five of them, two next to or above one another, numbers,
and short words in capital letters. A scene describes the image, with positions and sizes as fractions of the
image's side; `draw` renders it at any size."""
import dataclasses
import math

import numpy as np

from . import font

COLOURS = {
    "red": (220, 40, 40), "green": (40, 160, 60), "blue": (40, 80, 220), "yellow": (245, 220, 50), "orange": (245, 140, 30), "purple": (130, 50, 170),
    "pink": (250, 150, 190), "brown": (120, 75, 40), "black": (20, 20, 20), "white": (250, 250, 250),
}
SHAPES = ("circle", "square", "triangle", "star", "heart", "cross", "diamond", "ring")
WORDS = ("stop", "go", "open", "red", "green", "blue", "star", "tree", "dog", "cat", "bus", "car", "box", "key", "milk", "book", "home", "door", "hand", "sun")
KINDS = ("shape", "count", "places", "number", "word")
GROUNDS = ((255, 255, 255), (255, 255, 255), (240, 240, 240), (205, 205, 205), (0, 0, 0), (30, 30, 40), (250, 240, 215), (210, 230, 250))
CONTRAST = 110   # minimum difference between a colour and the ground, summed over red, green and blue


@dataclasses.dataclass
class Mark:
    """One shape, or one line of text."""
    what: str          # one of SHAPES, or the text
    colour: str
    x: float           # of the centre
    y: float
    size: float        # half the width; for text half the height
    turn: float = 0.0  # radians
    text: bool = False
    shade: tuple = (0, 0, 0)   # added to the colour


@dataclasses.dataclass
class Scene:
    kind: str
    ground: tuple
    marks: list        # for "places": the left or the upper one first
    relation: str = "" # for "places": "left" or "above"


def scene(r, kind=None):
    """A scene chosen at random by `r` (random.Random)."""
    kind = kind or r.choice(KINDS)
    ground = r.choice(GROUNDS)
    seen = [name for name, value in COLOURS.items() if sum(abs(a - b) for a, b in zip(value, ground)) >= CONTRAST]
    shade = lambda: tuple(r.randint(-18, 18) for _ in range(3))
    turn = lambda: r.uniform(-0.15, 0.15)
    if kind == "shape":
        size = r.uniform(0.14, 0.42)
        at = lambda: r.uniform(size, 1 - size) if size < 0.45 else 0.5
        marks = [Mark(r.choice(SHAPES), r.choice(seen), at(), at(), size, turn(), shade=shade())]
    elif kind == "count":
        count, size, what, colour, tone = r.randint(1, 5), r.uniform(0.1, 0.15), r.choice(SHAPES), r.choice(seen), shade()
        marks = [Mark(what, colour, x, y, size * r.uniform(0.9, 1.1), turn(), shade=tone) for x, y in apart(r, count, size)]
    elif kind == "places":
        across = r.random() < 0.5
        gap, size = r.uniform(0.24, 0.3), [r.uniform(0.12, 0.2) for _ in range(2)]
        along, beside = [0.5 - gap + r.uniform(-0.03, 0.03), 0.5 + gap + r.uniform(-0.03, 0.03)], [0.5 + r.uniform(-0.12, 0.12) for _ in range(2)]
        first, second = ((r.choice(SHAPES), r.choice(seen)) for _ in range(2))
        while second[0] == first[0] or second[1] == first[1]:
            second = r.choice(SHAPES), r.choice(seen)
        marks = [Mark(what, colour, *((along[i], beside[i]) if across else (beside[i], along[i])), size[i], turn(), shade=shade())
                 for i, (what, colour) in enumerate((first, second))]
        return Scene(kind, ground, marks, "left" if across else "above")
    else:
        text = (str(r.randint(10, 99)) if r.random() < 0.9 else str(r.randint(0, 9))) if kind == "number" else r.choice(WORDS).upper()
        cells = font.ADVANCE * len(text) - 1
        size = min(r.uniform(0.24, 0.36), 0.46 * font.HEIGHT / cells * r.uniform(0.9, 1))   # so that the width fits
        half = size * cells / font.HEIGHT
        aside = lambda room: 0.5 + r.uniform(-1, 1) * min(0.1, max(0, room))
        marks = [Mark(text, r.choice(seen), aside(0.48 - half), aside(0.46 - size), size, r.uniform(-0.05, 0.05), True, shade())]
    return Scene(kind, ground, marks)


def apart(r, count, size):
    """Positions of `count` objects that do not touch."""
    while True:
        found = []
        for _ in range(60):
            place = r.uniform(size * 1.1, 1 - size * 1.1), r.uniform(size * 1.1, 1 - size * 1.1)
            if all(math.dist(place, other) > 2.5 * size for other in found):
                found.append(place)
            if len(found) == count:
                return found


def draw(scene, size):
    """Pixels [size][size][3] as bytes; edges are smoothed over one pixel."""
    at = (np.arange(size, dtype=np.float32) + 0.5) / size
    return paint(scene, at, 1 / size)


def sample(scene, size, source):
    """Approximately what the server passes on: the pixels that resizing to `size` selects from an image drawn with
    `source` pixels per side."""
    at = (np.arange(size, dtype=np.float32) * (source / size) + 0.5) / source
    return paint(scene, at, 1 / source)


def paint(scene, at, edge):
    """`at`: the coordinates, on either axis, at which pixels are computed. `edge`: the length over which edges are
    smoothed."""
    out = np.empty((len(at), len(at), 3), np.float32)
    out[:] = scene.ground
    for mark in scene.marks:
        high = 1.1 * mark.size + 2 * edge
        wide = high * (len(mark.what) * font.ADVANCE / font.HEIGHT if mark.text else 1)
        reach = math.hypot(wide, high) if mark.turn else max(wide, high)
        columns, rows = (slice(*np.searchsorted(at, (middle - reach, middle + reach))) for middle in (mark.x, mark.y))
        x, y = np.meshgrid(at[columns] - mark.x, at[rows] - mark.y)
        c, s = math.cos(mark.turn) / mark.size, math.sin(mark.turn) / mark.size
        x, y = x * c + y * s, y * c - x * s
        outside = lettering(mark.what, x, y) if mark.text else _SHAPE[mark.what](x, y)
        cover = np.clip(0.5 - outside * (mark.size / edge), 0, 1)
        colour = np.clip(np.add(COLOURS[mark.colour], mark.shade), 0, 255)
        out[rows, columns] += (colour - out[rows, columns]) * cover[..., None]
    return np.rint(out).astype(np.uint8)


# Each shape as the distance from its border: negative inside, within -1 .. 1 on both axes, y down. Approximate where
# precision does not matter.

def _polygon(points):
    points = np.array(points, np.float32)
    after = np.roll(points, -1, 0)

    def distance(x, y):
        nearest, inside = np.full(x.shape, 9, np.float32), np.zeros(x.shape, bool)
        for (ax, ay), (bx, by) in zip(points, after):
            ex, ey = bx - ax, by - ay
            t = np.clip(((x - ax) * ex + (y - ay) * ey) / (ex * ex + ey * ey), 0, 1)
            nearest = np.minimum(nearest, (x - ax - t * ex) ** 2 + (y - ay - t * ey) ** 2)
            if ey:
                inside ^= ((y >= min(ay, by)) & (y < max(ay, by))) & (x < ax + (y - ay) * ex / ey)
        return np.where(inside, -1, 1) * np.sqrt(nearest)
    return distance


def _heart(x, y):
    lobes = np.minimum(np.hypot(x - 0.47, y + 0.35), np.hypot(x + 0.47, y + 0.35)) - 0.5
    return np.minimum(lobes, _POINT(x, y))


_POINT = _polygon([(0, -0.3), (0.47, -0.5), (0.88, -0.08), (0, 0.95), (-0.88, -0.08), (-0.47, -0.5)])
_TIPS = [(math.sin(i * math.pi / 5) * (1, 0.42)[i % 2], -math.cos(i * math.pi / 5) * (1, 0.42)[i % 2]) for i in range(10)]
_SHAPE = {
    "circle": lambda x, y: np.hypot(x, y) - 0.92,
    "ring": lambda x, y: np.abs(np.hypot(x, y) - 0.72) - 0.22,
    "square": lambda x, y: np.maximum(np.abs(x), np.abs(y)) - 0.82,
    "diamond": lambda x, y: (np.abs(x) * 1.3 + np.abs(y) - 1) / 1.64,
    "cross": lambda x, y: np.minimum(np.maximum(np.abs(x) - 0.92, np.abs(y) - 0.3), np.maximum(np.abs(x) - 0.3, np.abs(y) - 0.92)),
    "triangle": _polygon([(0, -0.9), (0.95, 0.8), (-0.95, 0.8)]),
    "star": _polygon(_TIPS),
    "heart": _heart,
}


def lettering(text, x, y):
    """The same for letters two units high: their cells, with rounded corners."""
    cells = np.pad(font.cells(text), 1)
    cell = 2 / font.HEIGHT
    column, row = x / cell + cells.shape[1] / 2 - 0.5, y / cell + cells.shape[0] / 2 - 0.5
    column, row = np.clip(column, 0, cells.shape[1] - 1.001), np.clip(row, 0, cells.shape[0] - 1.001)
    left, top = column.astype(int), row.astype(int)
    u, v = column - left, row - top
    filled = (cells[top, left] * (1 - u) + cells[top, left + 1] * u) * (1 - v) + (cells[top + 1, left] * (1 - u) + cells[top + 1, left + 1] * u) * v
    return (0.42 - filled) * cell
