"""Records made by rule for the embedded models: the answers are computed, so that every label is right."""
import random

from . import labels, language, numbers, tools


def make(count, seed, model):
    """`count` records in random order; the same for the same seed."""
    r = random.Random(seed)
    makers, weights = zip(*(labels.MAKERS + tools.MAKERS + numbers.MAKERS + language.makers(model)))
    for maker in r.choices(makers, weights, k=count):
        yield maker(r)
