"""Questions about images, and answers computed from what they show. A user message with "picture" starts or ends with
an image's rows (vision/captions.py). With "scene", the image can be drawn."""
import re

from vision import captions, pictures

from .phrases import noisy, pick, sentence, weighted
from .record import answer, record, user

COUNTED = {"circle": "circles", "square": "squares", "triangle": "triangles", "star": "stars", "heart": "hearts", "cross": "crosses", "diamond": "diamonds", "ring": "rings"}
_OPEN = ["[What is|What's|Whats] in [this|the] [picture|image|photo]?", "What [do|can] you see[ in this picture| in the image| here|]?", "[Describe|Explain] [this|the] [picture|image|photo][ in one sentence| briefly|].",
         "What is this?", "What does [this|the] [picture|image] show?", "[Tell me what|What] is [on|in] [this|the] [image|picture].", "What is in [this|the] [image|picture]? [One sentence.|Answer in one sentence.|Be brief.]"]
_ASKED = {
    "shape": ["What [shape|figure] is [this|it|in the picture|shown]?", "Which shape [is it|do you see]?"],
    "colour": ["What [colour|color] is [it|this|the %s|the shape]?", "Which [colour|color] does the %s have?"],
    "count": ["How many %s are [there|in the picture|in this image|shown]?", "How many %s [can|do] you see?", "Count the %s[ in the picture|]."],
    "where": ["Where is the %s?", "Where [do you see|can you see] the %s?", "Tell me where the %s is."],
    "side": ["What is [on the|at the|on] %s?", "Which shape is [on the|at the] %s?", "What do you see [on the|at the] %s?"],
    "number": ["[What|Which] number is [this|it|in the picture|shown]?", "What number do you see?", "Read the number.", "What is the number[ in this image|]?"],
    "word": ["What does [it|the picture|this|the image] say?", "[What|Which] word is [this|it|in the picture|shown]?", "Read the word.", "What is written [here|there|in the picture]?", "What is the word?"],
}


def named(mark):
    return f"{mark.colour} {mark.what}"


def a(words):
    return ("an " if words[0] in "aeiou" else "a ") + words


def shows(scene):
    """What the image shows, in the form that follows "I see"."""
    first = scene.marks[0]
    if scene.kind == "number":
        return f"the number {first.what}"
    if scene.kind == "word":
        return f"the word {first.what.lower()}"
    if scene.kind == "places":
        second = scene.marks[1]
        return f"{a(named(first))} {'left of' if scene.relation == 'left' else 'above'} {a(named(second))}"
    if len(scene.marks) == 1:
        return a(named(first))
    return f"{captions.COUNTS[len(scene.marks) - 1]} {first.colour} {COUNTED[first.what]}"


def asked(r, scene):
    """(question, answer, the property of the scene that was asked for)"""
    first, kind = scene.marks[0], scene.kind
    if r.random() < 0.35:
        return weighted(r, _OPEN), f"I see {shows(scene)}.", "open"
    if kind in ("number", "word"):
        text = first.what.lower()
        if r.random() < 0.15:
            return pick(r, f"What [colour|color] is the {kind}?"), f"The {kind} is {first.colour}.", "colour"
        return weighted(r, _ASKED[kind]), f"The {kind} is {text}.", kind
    if kind == "places":
        return _places(r, scene)
    what = r.choice(["colour", "shape"] if kind == "shape" else ["count", "count", "colour"])
    if what == "shape":
        return weighted(r, _ASKED["shape"]), f"It is {a(first.what)}.", what
    count = len(scene.marks)
    if what == "count":
        things = r.choice([COUNTED[first.what], COUNTED[first.what], "shapes", f"{first.colour} {COUNTED[first.what]}"])
        return weighted(r, _ASKED["count"]).replace("%s", things), f"There {'are' if count > 1 else 'is'} {captions.COUNTS[count - 1]} {first.colour} {COUNTED[first.what] if count > 1 else first.what}.", what
    things = first.what if count == 1 else COUNTED[first.what]
    question = weighted(r, _ASKED["colour"]).replace("%s", things)
    if count > 1:
        question = pick(r, f"What [colour|color] are [they|the {things}|the shapes]?")
    return question, f"The {things} {'is' if count == 1 else 'are'} {first.colour}.", what


# For the first and the second object: the relation, the sides, and the wordings of a question that offers both
# relations.
SIDES = {"left": (("left of", "right of"), ("left", "right"), ("left or right of", "right or left of")),
         "above": (("above", "below"), ("top", "bottom"), ("above or below", "below or above"))}


def _places(r, scene):
    words, sides, either = SIDES[scene.relation]
    number = r.randint(0, 1)
    mark, other = scene.marks[number], scene.marks[1 - number]
    what = r.choice(["where", "where", "side", "which"])
    short = lambda one, two: one.what if one.what != two.what and r.random() < 0.4 else named(one)
    if what == "side":
        return weighted(r, _ASKED["side"]).replace("%s", sides[number]), sentence(f"{a(named(mark))}."), what
    if what == "where":
        ask, this, that = weighted(r, _ASKED["where"]), short(mark, other), named(other)
        return ask.replace("%s", this), f"The {this} is {words[number]} the {that}.", what
    this, ways, that = short(mark, other), r.choice(either), short(other, mark)
    return f"Is the {this} {ways} the {that}?", f"The {this} is {words[number]} the {that}.", what


# More ways to ask about one of the two objects. The answer starts with the object at the first {}. The evaluation
# (vision/measure.py) uses the wordings in `asked`.
_WHERE = ["Where is the {}?", "Where is the {}?", "[Where's|Wheres] the {}?", "Where [do you see|can you see|can I find] the {}?", "Tell me where the {} is[ in the picture|].", "What is the position of the {}?", "Where is the {} in [this|the] [picture|image]?", "The {}, where is it?"]
_OR = {"left": "[Is the {} {e} the {}?|Is the {} [on the|to the|] [left or right|right or left] of the {}?|On which side of the {o} is the {}?|The {}: {e} the {}?|Tell me if the {} is {e} the {}.]",
       "above": "[Is the {} {e} the {}?|Is the {} [above or below|below or above|over or under|under or over|higher or lower than] the {}?|The {}: {e} the {}?|Tell me if the {} is {e} the {}.]"}


def _turned_to(r, scene, number):
    """A question about the first or second of two objects, and the answer, which starts with that object. An image's
    rows start with the first object, so the second one is harder."""
    words, _, either = SIDES[scene.relation]
    mark, other = scene.marks[number], scene.marks[1 - number]
    short = lambda one, two: one.what if one.what != two.what and r.random() < 0.6 else named(one)
    this, that = short(mark, other), short(other, mark)
    if r.random() < 0.5:
        question = pick(r, r.choice(_WHERE)).replace("{}", this)
        that = named(other)
    else:
        question = pick(r, _OR[scene.relation]).replace("{e}", r.choice(either)).replace("{o}", that).replace("{}", this, 1).replace("{}", that, 1)
    return question, f"The {this} is {words[number]} the {that}."


# kinds that are recognized less often occur more often
KINDS = {"shape": 1, "count": 1.5, "places": 5.5, "number": 2, "word": 1}


def true_of(scene, said):
    """Whether a sentence states correctly where two objects are, whichever of them it starts with and however it names
    them."""
    found = re.fullmatch(r"The (.+) is (left of|right of|above|below) the (.+)\.", said)
    if not found or scene.kind != "places":
        return False
    words, alike = SIDES[scene.relation][0], scene.marks[0].what == scene.marks[1].what
    names = [{named(mark)} if alike else {named(mark), mark.what} for mark in scene.marks]
    return any(found[1] in names[i] and found[2] == words[i] and found[3] in names[1 - i] for i in (0, 1))


def make(r, kind=None):
    """A question about an image, sometimes with further turns."""
    scene = pictures.scene(r, kind or r.choices(list(KINDS), KINDS.values())[0])
    question, said, what = asked(r, scene)
    number = None
    if scene.kind == "places" and what != "side" and r.random() < 0.65:   # the question names the object that has to be found first: the harder question
        number = int(r.random() < 0.6)
        question, said = _turned_to(r, scene, number)
    first = user(noisy(r, question)) | {"picture": captions.rows(scene), "scene": scene, "picture_first": r.random() < 0.5}
    messages = [first, answer(said)]
    if number is not None and r.random() < 0.7:   # then about the other object: the same image, and another answer
        question, said = _turned_to(r, scene, 1 - number)
        messages += [user(noisy(r, question, prefix=False)), answer(said)]
    while len(messages) < 8 and r.random() < 0.4:   # an image's rows are processed once for all questions about it
        question, said, _ = asked(r, scene)
        messages += [user(noisy(r, question, prefix=False)), answer(said)]
    return record("picture", *messages, check="exact")
