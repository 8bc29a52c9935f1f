"""Answers determined by a system prompt, asked for in other words than in the skill table: the name that the prompt
gives, and the form of an answer."""
from .intents import INTENTS
from .language import FACTS
from .phrases import noisy, pick, sentence, weighted
from .record import answer, record, system, user
from .words import made_up

_ASKED = ["What is {k}?", "What is {k}?", "Tell me {k}.", "Do you know {k}?", "Question: what is {k}?", "What's {k}?", "And what is {k}?", "Say {k}.", "Please tell me {k}.", "I want to know {k}."]


def named(r):
    """The model's name according to the system prompt."""
    n, brand = made_up(r), made_up(r)
    ask = r.choice(["Who are you?", "What is your name?", "What is your name?", "Hello, who is this?"]) if r.random() < 0.5 else noisy(r, sentence(" ".join(weighted(r, INTENTS[r.choice(["who are you", "your name"])][0]).split())))
    if r.random() < 0.85:
        return record("system", system(f"You are {n}, the assistant of {brand}."), user(ask), answer(f"I am {n}, the assistant of {brand}.", f"I am {n}."))
    return record("system", system(pick(r, f"[You are {n}.|Your name is {n}.|You are called {n}.|You are {n}. Be friendly.|You are {n}, an assistant.]")), user(ask), answer(f"I am {n}.", f"I am {n}."))


def shaped(r):
    """A plain fact, in the form required by the system prompt."""
    k = r.choice(list(FACTS))
    ask = r.choice(_ASKED).format(k=k)
    ask = noisy(r, ask) if r.random() < 0.3 else ask
    whole, short = f"{k[0].upper() + k[1:]} is {FACTS[k]}.", FACTS[k]
    style = r.random()
    if style < 0.4:
        return record("system", system("Answer in capital letters."), user(ask), answer(short.upper(), "The answer in capital letters."))
    if style < 0.75:
        return record("system", system(r.choice(["Answer with one word.", "Be very brief.", "Give only the answer."])), user(ask), answer(short, "Only the answer."))
    word = r.choice(["Ahoy!", "Beep!", "Sure:", "Dear friend,", made_up(r) + "!"])
    return record("system", system(r.choice([f"Begin every answer with \"{word}\"", f"Always start with \"{word}\""])), user(ask), answer(f"{word} {whole}", f"I begin with {word}"))


def ruled(r):
    return (named if r.random() < 0.55 else shaped)(r)
