"""Wordings written by hand, from text files (wordings/ in the folder above; its README describes the format). A frame
is a wording with slots, whose answer is computed. An intent has wordings and answers without slots. FIRST are the intents
whose answers are only right for the first message."""
import glob
import os
import re

from .phrases import sentence, slip

FOLDER = os.environ.get("TRAINING_WORDINGS") or os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "wordings")
_HEAD = re.compile(r"\[(frame|intent) ([^\]\s]+)\]")
_SLOT = re.compile(r"\{([a-z_]+)\}")


def read(folder):
    """({frame: wordings}, {intent: (wordings, answers)}, {intent for first messages: the same})"""
    found = {"frame": {}, "intent": {}, "first": {}}
    for path in sorted(glob.glob(os.path.join(folder, "**", "*.txt"), recursive=True)):
        first = os.path.basename(os.path.dirname(path)) == "first"
        asks = answers = None
        with open(path, encoding="utf-8") as file:
            for line in map(str.strip, file):
                if head := _HEAD.match(line):
                    asks, answers = found["first" if first else head[1]].setdefault(head[2], ([], []))
                elif line.startswith("- ") and asks is not None:
                    asks.append(line[2:].strip())
                elif line.startswith("= ") and asks is not None:
                    answers.append(line[2:].strip())
    return {name: asks for name, (asks, _) in found["frame"].items() if asks}, *({name: both for name, both in found[kind].items() if all(both)} for kind in ("intent", "first"))


FRAMES, INTENTS, FIRST = read(FOLDER)


def slots(wording):
    return set(_SLOT.findall(wording))


def wordings(name, given):
    """The frame's wordings that need no other slots than these."""
    return [wording for wording in FRAMES.get(name, ()) if slots(wording) <= set(given)]


def typed(r, wording):
    """As people type it: a quarter in lower case, a fifth without the last mark, some with a typing error. The slots
    stay as they are."""
    parts = re.split(r"(\{[a-z_]+\})", wording)
    lower, wrong = r.random() < 0.25, r.random() < 0.07
    if lower:
        parts = [part if part.startswith("{") else part.lower() for part in parts]
    if wrong:
        at = r.randrange(0, len(parts), 2)
        parts[at] = slip(r, parts[at])
    text = "".join(parts)
    if len(text) > 3 and text[-1] in ".?!" and r.random() < 0.2:
        text = text[:-1]
    return text


_ARTICLE = re.compile(r"\b([Aa]) (\{(?:job|animal|category|thing)\})")


def fill(wording, given):
    """With "an" instead of "a" before a value that starts with a vowel."""
    wording = _ARTICLE.sub(lambda m: (m[1] + "n " if str(given[m[2][1:-1]])[:1].lower() in "aeiou" else m[1] + " ") + m[2], wording)
    return _SLOT.sub(lambda m: str(given[m[1]]), wording)


def frame(r, which, /, only=None, **given):
    """(text, the wording that was chosen). `only`: a pattern that the wording must contain, or, with a leading "!",
    must not contain."""
    found = wordings(which, given)
    if only:
        found = [one for one in found if bool(re.search(only.lstrip("!"), one, re.I)) != only.startswith("!")]
    if not found:
        raise LookupError(f"no wording of {which} with {sorted(given)}")
    chosen = r.choice(found)
    text = fill(typed(r, chosen), given)
    return (sentence(text) if chosen[0] != "{" and r.random() < 0.3 else text), chosen
