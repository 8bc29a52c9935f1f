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
