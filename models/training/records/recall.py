"""Memory of what the user has just said: facts in the user's own words, several in a message or over several
messages, corrected later, asked for later. All values come from wide.py."""
from . import wide
from .frames import FRAMES, frame
from .phrases import sentence
from .words import article, listed

# what: (slots, how it is confirmed, how it is answered)
KNOWN = {
    "name": (lambda r: {"name": wide.name(r)}, "Nice to meet you, {name}!", "Your name is {name}."),
    "city": (lambda r: {"city": wide.town(r)}, "OK, you live in {city}.", "You live in {city}."),
    "age": (lambda r: {"age": str(r.randint(5, 95))}, "OK, you are {age} years old.", "You are {age} years old."),
    "job": (lambda r: {"job": r.choice(wide.WORK)}, "OK, you work as {a_job}.", "You work as {a_job}."),
    "pet": (lambda r: {"animal": r.choice(wide.PETS), "name": wide.first_name(r)}, "{name} is a nice name for {a_animal}.", "Your {animal} is called {name}."),
    "pet_name": (lambda r: {"pet_name": wide.first_name(r)}, "{pet_name} is a nice name.", "Your pet is called {pet_name}."),
    "favorite_color": (lambda r: {"color": r.choice(wide.HUES)}, "{Color} is a nice color.", "Your favorite color is {color}."),
    "favorite_food": (lambda r: {"food": r.choice(wide.DISHES)}, "{Food}, that sounds good.", "Your favorite food is {food}."),
    "birthday": (lambda r: {"date": wide.birthday(r)}, "OK, your birthday is {date}.", "Your birthday is {date}."),
    "object_place": (lambda r: {"object": wide.thing(r), "place": wide.place(r)}, "OK, the {object}: {place}.", "{It} {place}."),
    "number": (lambda r: {"number": wide.number(r)}, "OK, the number is {number}.", "The number is {number}."),
    "code": (lambda r: {"code": wide.code(r)}, "OK, the code is {code}.", "The code is {code}."),
    "phone": (lambda r: {"phone": wide.phone(r)}, "OK, your phone number is {phone}.", "Your phone number is {phone}."),
    "email": (lambda r: {"email": wide.email(r)}, "OK, your email is {email}.", "Your email is {email}."),
    "plan": (lambda r: {"plan": r.choice(wide.DO), "when": r.choice(wide.WHEN)}, "OK, {when} you want to {plan}.", "You want to {plan}."),
    "friend_name": (lambda r: {"name": wide.first_name(r)}, "{name} sounds like a good friend.", "Your friend is called {name}."),
    "sibling": (lambda r: {"sibling": r.choice(wide.KIN[:2] * 6 + wide.KIN), "name": wide.first_name(r)}, "OK, your {sibling} is called {name}.", "Your {sibling} is called {name}."),
}
_WEIGHTS = [3 if what in ("name", "object_place") else 1.5 if what in ("city", "pet", "number", "code", "email") else 1 for what in KNOWN]
# For each slot of the frame memory.tell_two: the kind of fact, and the name of its value.
_IN_TWO = {"name": ("name", "name"), "city": ("city", "city"), "age": ("age", "age"), "job": ("job", "job"), "color": ("favorite_color", "color"), "food": ("favorite_food", "food"), "friend": ("friend_name", "name"), "pet_name": ("pet_name", "pet_name")}
_CORRECTED = {"name": "name", "city": "city", "object_place": "place", "number": "number", "code": "code", "age": "age", "favorite_color": "color", "favorite_food": "food", "birthday": "date", "phone": "phone", "email": "email", "pet_name": "pet_name"}
NOT_SAID = "You did not tell me."


def say(template, given):
    more = {"It": "They are" if given.get("object", "").endswith("s") and not given["object"].endswith(("ss", "compass")) else "It is"}
    more |= {f"a_{key}": article(value) for key, value in given.items()} | {sentence(key): sentence(value) for key, value in given.items()}
    return template.format(**given, **more)


def asked(r, what, given):
    return frame(r, f"memory.ask_{what}", **{key: given[key] for key in ("animal", "object", "when", "sibling") if key in given})[0]


def told(r, what):
    """A fact: (what, values, text, confirmation)."""
    given = KNOWN[what][0](r)
    text, _ = frame(r, f"memory.tell_{what}", **given)
    confirmed = say(KNOWN[what][1], given)
    return what, given, text, confirmed


def two(r):
    """Two facts in a message: ([(what, values)], text, confirmation)."""
    given = {"name": wide.first_name(r), "city": wide.town(r), "age": str(r.randint(6, 90)), "job": r.choice(wide.WORK), "animal": r.choice(wide.PETS), "pet_name": wide.first_name(r), "color": r.choice(wide.HUES), "food": r.choice(wide.DISHES), "friend": wide.first_name(r)}
    text, wording = frame(r, "memory.tell_two", **given)
    facts = []
    for slot, (what, key) in _IN_TWO.items():
        if "{" + slot + "}" in wording:
            facts.append(("pet", {"animal": given["animal"], "name": given["pet_name"]}) if slot == "pet_name" and "{animal}" in wording else (what, {key: given[slot]}))
    confirmed = f"Nice to meet you, {given['name']}!" if "{name}" in wording else r.choice(["OK, I will remember that.", "Thank you for telling me."])
    return facts, text, confirmed


def corrected(r, what, given):
    """A correction: (new values, text, confirmation). None if there is no such wording."""
    key = _CORRECTED.get(what)
    if not key:
        return None
    while (new := KNOWN[what][0](r)[key]) == given[key]:
        pass
    name = f"memory.correct_{what}" if f"memory.correct_{what}" in FRAMES else "memory.correct_generic"
    slots = {"old": given[key], "new": new} | ({"object": given["object"]} if what == "object_place" else {})
    changed = given | {key: new}
    reply = say(KNOWN[what][2], changed)
    return changed, frame(r, name, **slots)[0], "OK. " + reply if what != "object_place" else f"OK, the {changed['object']}: {new}."




def remembering(r, small):
    """[(user, assistant)] `small`: makes a turn on another subject."""
    turns, facts = [], []
    count = r.choice([1, 1, 1, 2, 2, 3, 4])
    if count > 1 and r.random() < 0.4:
        facts, text, confirmed = two(r)
        turns.append((text, confirmed))
    elif count > 1 and r.random() < 0.6:   # several sentences in a message
        parts = [told(r, what) for what in r.sample(list(KNOWN), count)]
        if not {"pet", "pet_name"} <= {what for what, *_ in parts} and not {"name", "friend_name", "sibling"} <= {what for what, *_ in parts}:
            text = " ".join(part.rstrip() + ("" if part.rstrip()[-1:] in ".!?" else r.choice([".", ".", ","])) for _, _, part, _ in parts)
            turns.append((text.rstrip(","), next((confirmed for what, _, _, confirmed in parts if what == "name"), r.choice(["OK, I will remember that.", "Thank you for telling me."]))))
            facts = [(what, given) for what, given, _, _ in parts]
    if not facts:
        several = r.random() < 0.25   # several objects, each at its own place
        for what in ["object_place"] * r.choice([2, 2, 3]) if several else r.sample(list(KNOWN), min(count, 3)) if count > 1 else r.choices(list(KNOWN), _WEIGHTS):
            what, given, text, confirmed = told(r, what)
            if several and any(given["object"] == known["object"] for _, known in facts):
                continue
            turns.append((text, confirmed))
            facts.append((what, given))
        if several and r.random() < 0.4:
            turns = [(". ".join(text.rstrip(".!") for text, _ in turns) + ".", r.choice(["OK, I will remember that.", "OK."]))]
        elif len(turns) > 1 and r.random() < 0.4:
            turns = turns[:1] + [(r.choice(["And ", "And ", "and ", "also ", "Also, "]) + text[:1].lower() * (text[:2] != "I ") + text[:1] * (text[:2] == "I ") + text[1:], said) for text, said in turns[1:]]
    if r.random() < 0.3:
        turns.append(small(r))
    at = r.randrange(len(facts))
    if r.random() < 0.3 and (change := corrected(r, *facts[at])):
        given, text, reply = change
        if facts[at][0] in ("object_place", "name", "city") or len(facts) == 1:
            facts[at] = facts[at][0], given
            turns.append((text, reply))
    for _ in range(r.choice([0, 0, 1, 1, 2])):
        turns.append(small(r))
    if r.random() < 0.12:
        missing = r.choice([what for what in KNOWN if what not in {known for known, _ in facts} and not (what.startswith("pet") and any(known.startswith("pet") for known, _ in facts)) and what not in ("number", "code", "friend_name", "sibling")])
        given = KNOWN[missing][0](r)
        turns.append((asked(r, missing, given), NOT_SAID if missing != "object_place" else "You did not tell me where."))
    else:
        for what, given in r.sample(facts, r.choice([1, 1, min(2, len(facts)), len(facts)])):
            turns.append((asked(r, what, given), say(KNOWN[what][2], given)))
    return turns[:8]


_THINGS = ["favorite movie", "favorite song", "shoe size", "middle name", "password", "car", "hobby", "favorite book", "favorite team", "school", "street", "height", "best friend's name", "dog's name", "wedding day", "salary", "favorite animal"]


def family(r, small):
    """Several people or animals, one of whom is asked for."""
    count = r.choice([2, 2, 3])
    kin, names = r.sample(wide.KIN[:10] if r.random() < 0.6 else wide.PETS, count), []
    while len(names) < count:
        if (name := wide.first_name(r)) not in names:
            names.append(name)
    link = r.choice(["is called", "is", "is named", "'s name is"])
    parts = [f"my {who}{'' if link[0] == chr(39) else ' '}{link} {name}" for who, name in zip(kin, names)]
    text = sentence(r.choice([" and ", ", ", ", and "]).join(parts)) + r.choice([".", ""])
    who, name = r.choice(list(zip(kin, names)))
    turns = [(text if r.random() < 0.7 else text[0].lower() + text[1:], r.choice(["OK, I will remember that.", "Thank you for telling me.", f"Nice names: {listed(names)}."]))]
    if r.random() < 0.4:
        turns.append(small(r))
    style = r.random()
    if style < 0.7:
        return turns + [(frame(r, "memory.ask_sibling", sibling=who)[0], f"Your {who} is called {name}.")]
    if style < 0.85:
        return turns + [(r.choice([f"who is {name}?", f"Who is {name}", f"who was {name} again?", f"and {name} is who?"]), f"{name} is your {who}.")]
    other = r.choice([one for one in wide.KIN[:10] + wide.PETS if one not in kin])
    return turns + [(frame(r, "memory.ask_sibling", sibling=other)[0], NOT_SAID)]


def not_told(r, small):
    if r.random() < 0.5:
        return [(frame(r, "memory.ask_unknown", thing=r.choice(_THINGS))[0], NOT_SAID)]
    what = r.choice([what for what in KNOWN])
    return [(asked(r, what, KNOWN[what][0](r)), NOT_SAID)]


_COUNTED = "apples pencils cats books chairs eggs tickets cousins stamps coins plants shirts boxes marbles bottles cards bikes cookies lemons keys".split()


def counted(r, small):
    """How many things there are, and who was meant."""
    things, n, who = r.choice(_COUNTED), str(r.randint(2, 60)), wide.first_name(r)
    if r.random() < 0.5:
        text = r.choice(["I have {n} {t}.", "there are {n} {t} on the table", "I bought {n} {t} today.", "{w} gave me {n} {t}.", "we need {n} {t} for the party", "In the box are {n} {t}.", "my sister owns {n} {t}", "I count {n} {t}."]).format(n=n, t=things, w=who)
        return [(text, f"OK, {n} {things}.")] + ([small(r)] if r.random() < 0.4 else []) + [(frame(r, "followup.how_many_again", things=things)[0], f"{n} {things}.")]
    text = r.choice(["{w} came to see me today.", "yesterday {w} broke the window", "My neighbor {w} has a new car.", "{w} won the race.", "I met {w} at the station.", "{w} wrote me a long letter", "{w} will bring the cake", "the winner is {w}", "I got this from {w}."]).format(w=who)
    return [(text, r.choice(["OK, {w}.", "I see, {w}."]).format(w=who))] + ([small(r)] if r.random() < 0.3 else []) + [(frame(r, "followup.who_again")[0], f"{who}.")]


