"""What a scene shows, as the words in an image's rows. An image is ROWS rows of embeddings. In the first of them, the
vision encoder names what it sees, each property at a fixed position, as embeddings of the language model's tokens.
The model reads an image like a line of words, and needs to learn nothing else about images."""

COUNTS = ("one", "two", "three", "four", "five")
PIECES = {"circle": ("cir", "cle"), "square": ("squ", "are"), "triangle": ("tri", "ang", "le"), "star": ("star",), "heart": ("hear", "t"),
          "cross": ("c", "ross"), "diamond": ("di", "am", "ond"), "ring": ("r", "ing")}
RELATIONS = {"left": " left", "above": " top"}
NOTHING = "<|image|>"   # in rows that express nothing
ROWS = 36
USED = 13


def rows(scene):
    """The ROWS tokens for a scene's image. Each is one vocabulary entry."""
    out = [NOTHING] * ROWS
    first = scene.marks[0]
    out[1] = " " + first.colour
    if scene.kind == "number":
        out[0], digits = " number", first.what
        out[12 - len(digits):12] = digits
    elif scene.kind == "word":
        out[0], out[12] = " word", " " + first.what.lower()
    else:
        out[0] = " both" if scene.kind == "places" else " " + COUNTS[len(scene.marks) - 1]
        _shape(out, 2, first)
    if scene.kind == "places":
        second = scene.marks[1]
        out[5], out[6] = RELATIONS[scene.relation], " " + second.colour
        _shape(out, 7, second)
    return out


def _shape(out, at, mark):
    parts = PIECES[mark.what]
    out[at:at + len(parts)] = [" " + parts[0], *parts[1:]]


def inside(nothing):
    """Which tokens in rows [n][length] are part of an image, given which of them are NOTHING (bool). An image ends
    where a run of NOTHING ends that is longer than any run elsewhere, and starts ROWS tokens before that end."""
    import torch
    from torch.nn.functional import pad

    empty, length = ROWS - USED, nothing.shape[1]
    ends = torch.zeros_like(nothing)
    if length < ROWS:
        return ends
    before = pad(nothing.cumsum(1), (1, 0))                      # the number before each position
    ends[:, empty - 1:] = before[:, empty:] - before[:, :-empty] == empty
    ends[:, :-1] &= ~nothing[:, 1:]
    ended = pad(ends.cumsum(1), (1, 0))
    upto = ended[:, -1:].repeat(1, length)
    upto[:, :length - ROWS + 1] = ended[:, ROWS:]                # images that end up to ROWS - 1 positions later
    return upto > ended[:, :length]
