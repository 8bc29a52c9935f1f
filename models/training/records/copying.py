"""Copying: from lists, sentences and JSON, under meaningless keys. Most of the copied values are made up on the spot,
so copying can only be learned as an operation, which then also works for names, cities and items in other records."""
import json

from .record import answer, record, user
from .words import *

KEYS = "name city item color size owner title code place day time note price phone email team room status count kind brand model".split()


def thing(r):
    """A value of any type; one that consists only of digits is a number, in JSON too."""
    return r.choice([lambda: made_up(r), lambda: made_up(r).lower(), lambda: f"{made_up(r)} {made_up(r)}", lambda: person(r), lambda: city(r), lambda: r.choice(ITEMS + FOODS + ANIMALS + COLORS + JOBS),
                     lambda: f"{r.choice(COLORS)} {r.choice(ITEMS)}", lambda: r.choice(["A-", "B", "#", "INV-", "K"]) + str(r.randint(100, 99999)), lambda: clock(r), lambda: email(r, made_up(r)), lambda: r.randint(0, 10 ** r.randint(1, 5)), lambda: f"{r.randint(1, 28)} {r.choice(MONTHS)}"])()


def things(r, count):
    return list({str(value): value for value in (thing(r) for _ in range(count))}.values())


def pairs(r, low, high):
    values = things(r, r.randint(low, high))
    keys = set()
    while len(keys) < len(values):
        keys.add(r.choice(KEYS) if r.random() < 0.5 else made_up(r, r.choice([1, 2])).lower())
    keys = sorted(keys)
    r.shuffle(keys)
    return dict(zip(keys, values))


def to_json(r):
    full = pairs(r, 2, 6)
    text = r.choice([", ".join(f"{k}: {v}" for k, v in full.items()), " ".join(f"The {k} is {v}." for k, v in full.items()), "\n".join(f"{k} = {v}" for k, v in full.items()),
                     " and ".join(f"{v} as the {k}" for k, v in full.items())])
    keys = r.sample(list(full), r.randint(1, len(full)))
    ask = r.choice([f"Return JSON with {', '.join(keys)}.\n\n{text}", f"Extract {listed(keys)} as JSON.\n\n{text}", f"{text}\n\nKeys: {', '.join(keys)}. Reply with a JSON object."])
    return record("copy", user(ask), answer(json.dumps({k: full[k] for k in keys}, ensure_ascii=False)))


def from_json(r):
    full = pairs(r, 1, 5)
    ask = r.choice(["Write this as text: ", "Read this out: ", ""]) + json.dumps(full, ensure_ascii=False)
    return record("copy", user(ask), answer(" ".join(f"The {k} is {v}." for k, v in full.items())))


def look_up(r):
    """One value, or the statement that there is no such value."""
    full = pairs(r, 2, 6)
    key = r.choice(list(full))
    shown = {k: v for k, v in full.items() if k != key} if r.random() < 0.25 else full
    text = json.dumps(shown, ensure_ascii=False) if r.random() < 0.3 else " ".join(f"The {k} is {v}." for k, v in shown.items())
    reply = f"The {key} is {full[key]}." if key in shown else f"There is no {key}."
    return record("copy", user(r.choice([f"{text}\n\nWhat is the {key}?", f"What is the {key}?\n\n{text}"])), answer(reply))


def owners(r):
    """Possession: one relation, asked for in both directions, or about a person who is not mentioned."""
    names = people(r, r.randint(2, 6))
    held = things(r, len(names))
    verb = r.choice(["has", "keeps", "wants", "sent", made_up(r, 1).lower() + "s"])
    lines = [f"{n} {verb} {v}." for n, v in zip(names, held)]
    at = r.randrange(len(lines))
    if r.random() < 0.25:
        lines.pop(at)
        question, reply = f"Who {verb} {held[at]}?" if r.random() < 0.5 else f"{names[at]} {verb} what?", "The text does not say."
    else:
        question, reply = r.choice([(f"Who {verb} {held[at]}?", lines[at]), (f"{names[at]} {verb} what?", lines[at])])
    return record("copy", user(" ".join(lines) + "\n\n" + question), answer(reply))


def lists(r):
    values = [str(v) for v in things(r, r.randint(2, 6))]
    at = r.randrange(len(values) - 1) if len(values) > 1 else 0
    text = ", ".join(values)
    stranger = str(thing(r))
    inside = r.random() < 0.5
    ask, reply = r.choice([(f"Make a JSON array: {text}", json.dumps(values)), (f"Bullets: {text}", "\n".join("- " + v for v in values)), (f"One per line: {text}", "\n".join(values)),
                           (f"What comes after {values[at]}: {text}?", values[min(at + 1, len(values) - 1)]), (f"Backwards: {text}", ", ".join(reversed(values))),
                           (f"Repeat: {text}", text), (f"The first and the last: {text}", f"{values[0]}, {values[-1]}"), (f"Join with and: {text}", listed(values)),
                           (f"Is {values[at] if inside else stranger} in the list: {text}?", "yes" if inside or stranger in values else "no")])
    return record("copy", user(ask), answer(reply))


MAKERS = [(to_json, 7), (from_json, 2), (look_up, 4), (owners, 4), (lists, 5)]
