"""What a scene shows, as the words that stand in the rows of a picture. A picture is ROWS rows of embeddings; in the first of them
the tower says what it sees, each thing at its own place, in embeddings of tokens of the language model: the model reads a picture
as a line of words, and nothing else needs to be learned of it."""

COUNTS = ("one", "two", "three", "four", "five")
PIECES = {"circle": ("cir", "cle"), "square": ("squ", "are"), "triangle": ("tri", "ang", "le"), "star": ("star",), "heart": ("hear", "t"),
          "cross": ("c", "ross"), "diamond": ("di", "am", "ond"), "ring": ("r", "ing")}
RELATIONS = {"left": " left", "above": " top"}
NOTHING = "<|image|>"   # in rows that say nothing
ROWS = 36
USED = 13


def rows(scene):
    """The ROWS tokens of a scene's picture, each one entry of the vocabulary."""
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
    """Which tokens of rows [n][length] are of a picture, given which are NOTHING (bool). A picture ends where more of them end than stand
    together anywhere else, and begins ROWS before."""
    import torch
    from torch.nn.functional import pad

    empty, length = ROWS - USED, nothing.shape[1]
    ends = torch.zeros_like(nothing)
    if length < ROWS:
        return ends
    before = pad(nothing.cumsum(1), (1, 0))                      # how many stand before each place
    ends[:, empty - 1:] = before[:, empty:] - before[:, :-empty] == empty
    ends[:, :-1] &= ~nothing[:, 1:]
    ended = pad(ends.cumsum(1), (1, 0))
    upto = ended[:, -1:].repeat(1, length)
    upto[:, :length - ROWS + 1] = ended[:, ROWS:]                # ends up to ROWS - 1 places on
    return upto > ended[:, :length]
