"""Questions that lean on the previous answer: "And of Spain?", "Add 3 to it", "spell that", "the second one"."""
from . import plainly
from .frames import frame
from .requests import POOLS, backwards_of, shown_letters, worked
from .words import article

LONGEST = 300   # results above this are beyond the model


def again(r):
    """The same question about other things, and then something about the last answer."""
    name = plainly.relation(r)
    seen, turns = [], []
    for number in range(r.choice([2, 2, 2, 3, 3, 4])):
        x = plainly.subject(r, name, seen)
        ask, short, full, _ = plainly.related(r, name, x)
        seen.append(x)
        if number:
            of = name in ("capital", "money", "opposite", "plural", "past", "color") and r.random() < 0.5
            ask = frame(r, "followup.and_of" if of else "followup.what_about", x=article(x) if name == "sound" else x)[0]
        turns.append((ask, full))
    if r.random() < 0.55:
        turns.append(about(r, short, full))
    return turns[:5]


def about(r, short, full):
    """A request about an answer."""
    one = " " not in short and short.isalpha()
    return r.choice([
        lambda: (frame(r, "followup.spell_that")[0], shown_letters(short) + ".") if one else (frame(r, "followup.repeat_that")[0], full),
        lambda: (frame(r, "followup.uppercase_that")[0], short.upper()),
        lambda: (frame(r, "followup.repeat_that")[0], full),
        lambda: (frame(r, "followup.shorter")[0], short if len(short) < 3 or not short.islower() else short),
        lambda: (frame(r, "followup.reverse_that")[0], backwards_of(short.lower())) if one and len(short) < 7 else (frame(r, "followup.uppercase_that")[0], short.upper()),
        lambda: (frame(r, "followup.longer")[0], "That is all I know about it."),
        lambda: (frame(r, "followup.why")[0], "I do not know why. I am a small model."),
        lambda: (lambda language: (frame(r, "followup.translate_no", language=language)[0], f"I cannot translate that to {language}. I only know English well."))(r.choice(LANGUAGES)),
    ])()


LANGUAGES = "French German Spanish Italian Dutch Polish Turkish Russian Chinese Japanese Arabic Greek Portuguese Swedish Hindi Korean Danish Finnish Czech Latin".split()


def computing(r):
    """A number, changed step by step."""
    if r.random() < 0.75:
        ask, _, full, _, at = plainly.arithmetic(r)
        turns = [(ask, full)]
    else:
        at = r.randint(2, 60)
        turns = [(r.choice(["take the number {n}", "I have {n} apples", "start with {n}", "my number is {n}", "think of {n}", "let us start at {n}", "the number is {n}", "we begin with {n}"]).format(n=at), r.choice([f"OK, {at}.", f"OK, the number is {at}."]))]
    for _ in range(r.choice([1, 1, 2, 2, 3])):
        what = r.choice(["add", "add", "subtract", "subtract", "double", "halve"])
        if what == "halve" and at % 2 or what == "double" and at > 60 or what == "subtract" and at < 3 or what == "add" and at > LONGEST:
            what = "add" if at < 150 else "subtract"
        n = r.randint(1, 10) if r.random() < 0.7 else r.randint(1, 30)
        n = min(n, at) if what == "subtract" else n
        if what == "add":
            turns.append((frame(r, "followup.add_to_it", n=n)[0], worked(at, "+", n)))
            at += n
        elif what == "subtract":
            turns.append((frame(r, "followup.subtract_from_it", n=n)[0], worked(at, "-", n)))
            at -= n
        elif what == "double":
            turns.append((frame(r, "followup.double_it")[0], f"{at} x 2 = {2 * at}"))
            at *= 2
        else:
            turns.append((frame(r, "followup.halve_it")[0], f"{at} / 2 = {at // 2}"))
            at //= 2
    return turns


def choosing(r):
    """A list, and then one of its items, or one more of its kind."""
    if r.random() < 0.65:
        ask, kind, items = plainly.some(r)
        shown = plainly.usual(r, kind, items)
    else:   # the user's own list
        kind, items = None, r.sample(sum((POOLS[k] for k in ("fruits", "animals", "vegetables", "cities", "sports")), []), r.randint(3, 5))
        ask, shown = frame(r, "copy.list", list=", ".join(items))[0], ", ".join(items)
    turns = [(ask, shown)]
    for _ in range(r.choice([1, 1, 2])):
        what = r.choice(["the_first_one", "the_second_one", "the_last_one", "another_one", "uppercase_that", "repeat_that"])
        if what == "another_one":
            left = [item for item in POOLS[kind] if item not in items] if kind else []
            if not left:
                continue
            items = items + left[:1]
            turns.append((frame(r, "followup.another_one", "!second")[0], left[0]))
            break
        if what == "uppercase_that":
            turns.append((frame(r, "followup.uppercase_that")[0], turns[-1][1].upper()))
            break
        if what == "repeat_that":
            turns.append((frame(r, "followup.repeat_that")[0], turns[-1][1]))
            continue
        item = items[{"the_first_one": 0, "the_second_one": 1, "the_last_one": -1}[what]]
        turns.append((frame(r, "followup." + what)[0], item))
        if r.random() < 0.35:
            turns.append(about(r, item, item))
            break
    return turns


def said_again(r, small):
    """Any turn, and then a request to repeat it."""
    ask, reply = small(r)
    return [(ask, reply), (frame(r, "followup.repeat_that")[0], reply)]
