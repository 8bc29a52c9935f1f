"""Skills and intents in words that people write themselves (frames.py), in conversations of one to several turns: what
nobody rehearsed. The values are drawn from wide ranges."""
from . import asked, follow, frames, plainly, recall, texts
from .frames import sentence, typed
from .record import answer, record, user

_READ, _FIRST = list(frames.INTENTS), list(frames.FIRST)


def intent(r, me, first=False):
    name = r.choice(_READ + _FIRST if first else _READ)
    asks, answers = frames.INTENTS[name] if name in frames.INTENTS else frames.FIRST[name]
    text = typed(r, r.choice(asks).replace("{me}", me))
    return (sentence(text) if r.random() < 0.3 else text), (answers[0] if r.random() < 0.6 else r.choice(answers)).replace("{me}", me)


def chat(r, me):
    """[(user, assistant)] from the files of intents, sometimes two of them."""
    return [intent(r, me, not number) for number in range(r.choice([1, 1, 1, 1, 2]))]


def single(maker):
    return lambda r, me: [maker(r)]


def small(me, talk):
    """Makes turns on other subjects: intents from files or an older conversation."""
    return lambda r: intent(r, me) if _READ and r.random() < 0.5 else talk(r, me)


def makers(talk, lines=(), stories=()):
    """[(maker of turns, share)]. `talk`: makes a turn that needs no context. `lines`, `stories`: sentences to copy, and
    texts as lists of sentences, from the corpus."""
    found = [
        (lambda r, me: recall.remembering(r, small(me, talk)), 20), (lambda r, me: recall.family(r, small(me, talk)), 4), (lambda r, me: recall.not_told(r, small(me, talk)), 2), (lambda r, me: recall.counted(r, small(me, talk)), 3),
        (lambda r, me: follow.again(r), 8), (lambda r, me: follow.computing(r), 7), (lambda r, me: follow.choosing(r), 5), (lambda r, me: follow.said_again(r, small(me, talk)), 1.5),
        (single(texts.extract_one), 9), (single(texts.extract_several), 3), (single(texts.extract_json), 6), (lambda r, me: [texts.copied(r, lines)], 6), (lambda r, me: [texts.summary(r, stories)], 6),
        (single(texts.spam), 3), (single(texts.sentiment), 3), (single(texts.asked_or_said), 1.5), (single(texts.urgent), 1.5), (single(texts.topic), 2),
        (single(plainly.formed), 12), (single(plainly.listing), 5), (single(plainly.short_or_full), 4), (single(asked.asked), 18),
    ]
    return found + [(chat, 28)] if _READ else found


def make(r, me, choices):
    """One record."""
    turns = r.choices(*zip(*choices))[0](r, me)
    return record("fresh", *(message for ask, said in turns for message in (user(ask), answer(said))))
