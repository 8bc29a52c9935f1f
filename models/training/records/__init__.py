"""Records made by rule for the embedded models: the answers are computed, so that every label is right."""
import random

from . import copying, labels, language, numbers, tools


def make(count, seed, model, focus=None):
    """`count` records in random order; the same for the same seed. `focus`: {name of a maker: how many times its usual share}."""
    r = random.Random(seed)
    makers, weights = zip(*(labels.MAKERS + copying.MAKERS + tools.MAKERS + numbers.MAKERS + language.makers(model)))
    weights = [weight * (focus or {}).get(maker.__name__, 1) for maker, weight in zip(makers, weights)]
    for maker in r.choices(makers, weights, k=count):
        yield maker(r)
