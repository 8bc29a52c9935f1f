"""Helpers shared by the changes of text models and of vision files."""
import re

import numpy as np

random = np.random.default_rng(7)


class NotHere(Exception):
    """The change does not apply to the file."""


def need(holds):
    if not holds:
        raise NotHere


def resized(numbers, axis, size):
    """Additional rows or columns are random numbers of the same magnitude; a vector's elements are repeated."""
    old = numbers.shape[axis]
    if size <= old:
        return np.take(numbers, range(size), axis=axis)
    shape = list(numbers.shape)
    shape[axis] = size - old
    if numbers.ndim == 1:
        more = np.resize(numbers, shape)
    else:
        more = random.standard_normal(shape) * numbers.std() * ((old / size) ** 0.5 if axis == numbers.ndim - 1 else 1)
    return np.concatenate([numbers, more.astype(numbers.dtype)], axis=axis)


def like(numbers, scale=0.1):
    """A copy with other numbers of about the same magnitude."""
    if numbers.ndim < 2 or numbers.dtype != np.float32:
        return numbers.copy()
    return (numbers * (1 + scale * random.standard_normal(numbers.shape))).astype(np.float32)


def names(file, pattern):
    return [name for name in file.tensors if re.search(pattern, name)]


def key(name, change):
    """The value of an existing key."""
    def run(file):
        value = file.get(name)
        need(value is not None)
        changed = change(value)
        need(changed != value)
        file.set(name, changed)
    run.__name__ = name
    return run


def absent_key(name, value, where=lambda file: True):
    """Adds a key that the file does not have."""
    def run(file):
        need(file.get(name) is None and where(file))
        file.set(name, value)
    run.__name__ = f"+ {name} {value}"
    return run


def without(pattern):
    """Removes tensors."""
    def run(file):
        found = names(file, pattern)
        need(found)
        for name in found:
            del file.tensors[name]
    run.__name__ = f"- {pattern}"
    return run
