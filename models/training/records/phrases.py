"""Wordings: templates with alternatives, and the noise of quick typing."""
import math
import re

_INNERMOST = re.compile(r"\[([^\[\]]*)\]")


def pick(r, template):
    """One wording of a template, with one alternative from each `[a|b|]`. Alternatives may be nested."""
    while (found := _INNERMOST.search(template)) is not None:
        template = template[:found.start()] + r.choice(found[1].split("|")) + template[found.end():]
    return template


def wordings(template):
    """All wordings of a template."""
    found = _INNERMOST.search(template)
    if found is None:
        return {template}
    return set().union(*(wordings(template[:found.start()] + one + template[found.end():]) for one in found[1].split("|")))


def weighted(r, templates):
    """A wording of one of several templates; templates with more wordings are chosen more often."""
    return pick(r, r.choices(templates, [math.sqrt(_size(t)) for t in templates])[0])


_SIZES = {}


def _size(template):
    if template not in _SIZES:
        _SIZES[template] = len(wordings(template))
    return _SIZES[template]


def sentence(text):
    """With a capital first letter."""
    return text[:1].upper() + text[1:]


GREETINGS = ["hi", "hello", "hey", "hi there", "hello there", "good morning", "good evening", "good afternoon", "yo", "hey there", "hiya", "ok so", "so", "um", "quick question", "excuse me", "please"]


def prefixed(r, text):
    """Adds a greeting or filler at the start, as people write before they come to the point."""
    front = r.choice(GREETINGS)
    return sentence(front) + r.choice([", ", " ", "! ", ". ", ", "]) + (text[:1].lower() + text[1:] if not re.match(r"I\b|I'", text) and r.random() < 0.7 else text)


def slip(r, text):
    """One typing error in a longer word: two letters swapped, or a letter left out or typed twice."""
    places = [m for m in re.finditer(r"[a-zA-Z]{4,}", text)]
    if not places:
        return text
    word = r.choice(places)
    at = r.randint(word.start() + 1, word.end() - 2)
    return r.choice([text[:at] + text[at + 1] + text[at] + text[at + 2:], text[:at] + text[at + 1:], text[:at] + text[at] + text[at:]])


_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_BESIDE = {key: [row[i] for i in (at - 1, at + 1) if 0 <= i < len(row)] for row in _KEYS for at, key in enumerate(row)}


def hasty(r, text):
    """One typing error in a well-known phrase: one of those in `slip`, a last letter left out or repeated ("goodby",
    "heyyy"), a neighbouring key, or a missing space."""
    places = [m for m in re.finditer(r"[a-zA-Z]{2,}", text)]
    style = r.random()
    if not places or style < 0.4:
        return slip(r, text)
    word = r.choice(places)
    a, b = word.span()
    if style < 0.55 and b - a > 3:
        return text[:b - 1] + text[b:]
    if style < 0.75:
        return text[:b] + text[b - 1] * r.randint(1, 4) + text[b:]
    if style < 0.9 and b - a > 3:
        at = r.randrange(a + 1, b)
        return text[:at] + r.choice(_BESIDE[text[at].lower()]) + text[at + 1:]
    return text[:b] + text[b + 1:] if text[b:b + 1] == " " and text[b + 1:] else slip(r, text)


# as people write on a phone
SHORT = {"you": "u", "are": "r", "your": "ur", "please": "pls", "thanks": "thx", "what": "wat", "because": "cuz", "people": "ppl", "the": "teh", "why": "y", "okay": "k", "and": "n", "know": "kno", "something": "smth", "about": "abt", "tell": "tel", "hello": "helo", "with": "w", "doing": "doin", "going": "goin"}
_SHORT = re.compile(rf"\b({'|'.join(SHORT)})\b")


def shortened(r, text):
    """Abbreviates one or all of the words that have a short form."""
    found = sorted(set(_SHORT.findall(text)))
    if not found:
        return text
    chosen = found if r.random() < 0.4 else [r.choice(found)]
    return _SHORT.sub(lambda m: SHORT[m[1]] if m[1] in chosen else m[1], text)


def noisy(r, text, prefix=True):
    """As typed in a hurry: 40% in lower case, 30% without final punctuation, 12% with a typing error, 7% with short
    forms, 20% with a prefix."""
    if prefix and r.random() < 0.2:
        text = prefixed(r, text)
    style = r.random()
    if style < 0.4:
        text = text.lower()
    elif style < 0.42:
        text = text.upper()
    mark = r.random()
    if mark < 0.3:
        text = text.rstrip("?.!") or text
    elif mark < 0.34:
        text = text.rstrip("?.!") + r.choice(["??", "!!", "...", " ?", "!", "?!"])
    if r.random() < 0.1:
        text = text.replace("'", "")
    if r.random() < 0.12:
        text = slip(r, text) if r.random() < 0.7 else hasty(r, text)
    if r.random() < 0.07:
        text = shortened(r, text)
    return text


SYSTEM_PROMPTS = sorted(wordings("You are a [helpful|friendly|kind|polite|useful] [assistant|AI assistant|chat assistant].") | wordings("You are a helpful assistant. [Be brief.|Answer clearly.|Answer in English.|Be friendly.|Keep answers short.|Answer politely.|Be honest.]")
                         | wordings("[Answer the user.|Answer the questions of the user.|Help the user.|Chat with the user.|Be helpful.|Be helpful and polite.|Reply to the user.|You are an assistant.|You are a chatbot.|You are an AI.]")
                         | wordings("You [chat with people|answer questions|help people|talk with visitors] [on a website|in an app].")
                         | wordings("[Today is a normal day. ||]You are [a helpful assistant|an assistant] [who answers in short sentences|that is friendly to everyone|who is honest].")
                         | {"Assistant", "You are helpful.", "The user writes in English.", "You are talking to a new user.", "Be concise.", "Answer as well as you can.", "Write in plain English.", "You are a support assistant."})


USUAL = "You are a helpful assistant."   # the one that most programs send


def with_system(r, record, chance=0.28):
    """Adds a neutral system prompt to a record that has none and whose answer does not depend on one."""
    if record["messages"][0]["role"] != "system" and record["kind"] not in ("system", "story_text") and r.random() < chance:
        record["messages"].insert(0, {"role": "system", "content": USUAL if r.random() < 0.2 else r.choice(SYSTEM_PROMPTS)})
    return record
