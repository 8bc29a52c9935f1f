"""Plain questions with a short and a full answer, and the forms that a user can ask for: one word, yes or no, JSON, a
number of items."""
import json

from .facts import CAPITALS, COLORED, DAYS, MONEY, MONTHS, NUMBERS, OPPOSITES, PAST, PLURALS, SOUNDS, SPOKEN, SYMBOLS
from .frames import frame
from .phrases import noisy, sentence
from .requests import POOLS, shown_list, worked
from .words import article


def _each(table):
    return [(thing, value) for value, things in table.items() for thing in (things.split(",") if isinstance(things, str) else things)]


_COLORS = {thing: color for thing, color in _each(COLORED)}
RELATIONS = {   # name: (values, questions, full answer, key in JSON)
    "capital": (CAPITALS, ["What is the capital of {x}?", "capital of {x}", "which city is the capital of {x}", "What's the capital city of {x}?", "tell me the capital of {x}"], "The capital of {x} is {y}.", "capital"),
    "money": (MONEY, ["What is the currency of {x}?", "currency of {x}", "which money do they use in {x}", "what do people pay with in {x}?"], "The currency of {x} is the {y}.", "currency"),
    "spoken": (SPOKEN, ["What language do they speak in {x}?", "language of {x}", "which language is spoken in {x}?"], "People in {x} speak {y}.", "language"),
    "opposite": (OPPOSITES, ["What is the opposite of {x}?", "opposite of {x}", "whats the opposite of {x}"], "The opposite of {x} is {y}.", "opposite"),
    "plural": (PLURALS, ["What is the plural of {x}?", "plural of {x}"], "The plural of {x} is {y}.", "plural"),
    "past": (PAST, ["What is the past tense of {x}?", "past tense of {x}"], "The past tense of {x} is {y}.", "past"),
    "color": (_COLORS, ["What color is {x}?", "which color is {x}", "the color of {x}?", "what is the color of {x}"], "{X} is {y}.", "color"),
    "sound": (SOUNDS, ["What does {ax} say?", "what sound does {ax} make", "sound of {ax}?"], "{Ax} says {y}.", "sound"),
    "symbol": (SYMBOLS, ["What is the chemical symbol for {x}?", "symbol for {x}"], "The chemical symbol for {x} is {y}.", "symbol"),
    "after": (dict(zip(DAYS + MONTHS, DAYS[1:] + DAYS[:1] + MONTHS[1:] + MONTHS[:1])), ["What comes after {x}?", "what follows {x}"], "After {x} comes {y}.", "next"),
}
_WEIGHTS = [5 if name == "capital" else 3 if name == "opposite" else 1.2 for name in RELATIONS]


def related(r, name, x):
    """(question, short answer, full answer, key)"""
    values, asks, full, key = RELATIONS[name]
    given = {"x": x, "X": sentence(x), "y": values[x]} | ({"ax": article(x), "Ax": sentence(article(x))} if name == "sound" else {})
    return r.choice(asks).format(**given), values[x], full.format(**given), key


def relation(r):
    return r.choices(list(RELATIONS), _WEIGHTS)[0]


def subject(r, name, others=()):
    known = list(RELATIONS[name][0])
    if name == "capital" and r.random() < 0.5:
        known = known[:25]
    return r.choice([x for x in known if x not in others])


def arithmetic(r):
    """(question, short, full, key, result)"""
    sign = r.choice("++-x")
    x, y = (r.randint(1, 10), r.randint(1, 10)) if sign == "x" else (r.randint(1, 20), r.randint(1, 20)) if r.random() < 0.7 else (r.randint(10, 80), r.randint(1, 19))
    if sign == "-" and x < y:
        x, y = y, x
    z = x + y if sign == "+" else x - y if sign == "-" else x * y
    text, _ = frame(r, {"+": "number.sum", "-": "number.difference", "x": "number.product_small"}[sign], a=x, b=y)
    return text, str(z), worked(x, sign, y), "result", z


def question(r):
    if r.random() < 0.25:
        return arithmetic(r)[:4]
    name = relation(r)
    return related(r, name, subject(r, name))


# what belongs to what; a thing is in one category only
CATEGORIES = {
    "fruit": "apple banana cherry grape lemon lime mango orange peach pear plum strawberry kiwi melon apricot fig raspberry blueberry".split(), "vegetable": "carrot onion potato cabbage cucumber leek turnip radish beet pea".split(),
    "animal": "dog cat horse cow lion tiger bear fox mouse sheep pig goat rabbit wolf deer camel monkey elephant giraffe zebra kangaroo squirrel hedgehog frog snake".split(), "bird": "eagle owl crow swan parrot penguin duck pigeon sparrow robin hen ostrich".split(),
    "tool": "hammer saw drill wrench screwdriver shovel rake axe".split(), "vehicle": "car bus truck bicycle motorcycle tractor van taxi scooter".split(), "color": "red blue green yellow purple orange pink brown".split(),
    "country": "France Germany Italy Spain Japan Egypt Brazil Canada India Norway Peru Kenya".split(), "city": "Paris London Rome Berlin Madrid Tokyo Lisbon Oslo Vienna Dublin".split(), "planet": "Mercury Venus Mars Jupiter Saturn Neptune".split(),
    "piece of furniture": "table chair bed sofa desk wardrobe bench shelf".split(), "piece of clothing": "shirt hat jacket dress coat scarf sock skirt sweater".split(), "musical instrument": "piano guitar violin flute trumpet cello drum harp".split(),
    "drink": "water milk juice tea coffee lemonade".split(), "flower": "rose tulip daisy lily sunflower violet".split(), "sport": "football tennis hockey golf boxing swimming".split(), "tree": "oak pine birch maple willow".split(), "insect": "ant bee fly beetle butterfly mosquito wasp".split(),
    "metal": "iron gold silver copper tin lead".split(), "number": "one two three four five seven".split(), "day of the week": DAYS,
}
_ALSO = {("bird", "animal"), ("insect", "animal"), ("fruit", "color"), ("color", "fruit"), ("color", "flower"), ("flower", "color"), ("flower", "plant"), ("metal", "color"), ("color", "metal")}
_BARE = {"color", "country", "city", "planet", "drink", "sport", "metal", "number", "day of the week"}


def _an(category, thing):
    return thing if category in _BARE else article(thing)


def yes_or_no(r):
    """(question, "Yes." or "No.", full answer)"""
    style = r.random()
    if style < 0.45:
        category = r.choice(list(CATEGORIES))
        thing = r.choice(CATEGORIES[category])
        yes = r.random() < 0.5
        other = category if yes else r.choice([c for c in CATEGORIES if c != category and (category, c) not in _ALSO and (c, category) not in _ALSO])
        a_thing = _an(category, thing)
        ask, _ = frame(r, "yesno.category", "!{thing}s" if category in _BARE or r.random() < 0.6 or other in ("country", "city", "piece of furniture", "piece of clothing", "day of the week") else None, thing=thing, category=other, a_thing=a_thing, a_category=article(other))
        if yes:
            return ask, "Yes.", f"Yes, {a_thing} is {article(category)}."
        return ask, "No.", f"No, {a_thing} is {article(category)}."
    if style < 0.65:
        a, b = r.sample(range(1, 100) if r.random() < 0.7 else range(1, 2000), 2)
        ask, wording = frame(r, "yesno.number_compare", "!same|between", a=a, b=b)
        less = any(word in wording.lower() for word in ("<", "less", "smaller", "below", "under", "before", "lower", "fewer"))
        yes = a < b if less else a > b
        return ask, "Yes." if yes else "No.", f"{'Yes' if yes else 'No'}, {a} is {'less' if a < b else 'more'} than {b}."
    if style < 0.8:
        thing, color = r.choice(list(_COLORS.items()))
        yes = r.random() < 0.5
        shown = color if yes else r.choice([c for c in "red blue green yellow white black purple pink".split() if c != color])
        return frame(r, "yesno.color", thing=thing, color=shown)[0], "Yes." if yes else "No.", f"{'Yes' if yes else 'No'}, {thing} is {color}."
    words = r.sample(POOLS[r.choice(["fruits", "animals", "colors", "vegetables", "sports", "instruments", "cities"])], r.randint(3, 6))
    word, *rest = words
    inside = r.random() < 0.5
    shown = rest + [word] if inside else rest
    r.shuffle(shown)
    return frame(r, "yesno.contains", text=", ".join(shown) + ".", word=word)[0], "Yes." if inside else "No.", f"{'Yes' if inside else 'No'}, {word} is {'' if inside else 'not '}in the text."


def listed_items(items, style):
    if style == "numbered":
        return "\n".join(f"{i}. {item}" for i, item in enumerate(items, 1))
    return ", ".join(items)


def usual(r, kind, items):
    """A list as in requests.py: more than three items are numbered, after a first line that says how many."""
    return shown_list(r, items, "counted" if len(items) > 3 else "sentence", kind)


def some(r):
    """A list: (question, items, the answer). Items come from anywhere in the pool, in its order."""
    kind = r.choice(list(POOLS))
    pool = POOLS[kind]
    n = r.choice([2, 3, 3, 3, 4, 5, 5, 6])
    n = min(n, len(pool))
    shown = NUMBERS[n] if r.random() < 0.5 else str(n)
    at = sorted(r.sample(range(len(pool)), n)) if r.random() < 0.3 and kind not in ("months", "days of the week", "planets") else range(n)
    items = [pool[i] for i in at]
    return frame(r, "list.kind", n=shown, category_plural=kind)[0], kind, items


def listing(r):
    """A list with a required form."""
    ask, kind, items = some(r)
    style = r.random()
    if style < 0.35:
        return frame(r, "form.numbered", question=ask)[0], listed_items(items, "numbered")
    if style < 0.7:
        return frame(r, "form.comma_separated", question=ask)[0], listed_items(items, "commas")
    if style < 0.85:
        return ask, usual(r, kind, items)
    return frame(r, "form.uppercase", question=ask)[0], listed_items(items, "commas").upper()


_OPENERS = ["Sure", "Well", "Ahoy", "Hello", "Yes", "Of course", "Indeed", "Banana", "Beep", "OK", "Listen", "Hm"]
_CLOSERS = ["Over", "Bye", "Amen", "Done", "Thanks", "Sir", "Stop", "Friend", "End", "Cheers"]


def formed(r):
    """A question with a form: (question, answer)"""
    style = r.random()
    if style < 0.28:
        ask, short, _ = yes_or_no(r)
        return frame(r, "form.yes_or_no", question=ask)[0], short
    ask, short, full, key = question(r)
    if style < 0.48:
        return frame(r, "form.one_word", question=ask)[0], short
    if style < 0.56:
        return frame(r, "form.no_explanation", question=ask)[0], short
    if style < 0.64:
        return frame(r, "form.one_sentence", question=ask)[0], full if full[-1] == "." else full + "."
    if style < 0.72:
        return frame(r, "form.uppercase", question=ask)[0], short.upper()
    if style < 0.77:
        return frame(r, "form.lowercase", question=ask)[0], short.lower()
    if style < 0.87:
        key = key if r.random() < 0.4 else "answer" if r.random() < 0.6 else r.choice(["value", "reply", "text", "out", "response", "word"])
        return frame(r, "form.json", question=ask, key=key)[0], json.dumps({key: int(short) if short.isdigit() else short})
    if style < 0.94:
        word = r.choice(_OPENERS)
        return frame(r, "form.start_with_word", question=ask, word=word)[0], f"{word}, {full[0].lower() + full[1:] if full.split()[0] in ('The', 'A', 'An', 'People', 'After') else full}"
    word = r.choice(_CLOSERS)
    return frame(r, "form.end_with_word", question=ask, word=word)[0], f"{full.rstrip('.')}. {word}"


def short_or_full(r):
    """A yes-or-no question without a required form."""
    ask, _, full = yes_or_no(r)
    return noisy(r, ask, prefix=False) if r.random() < 0.2 else ask, full
