"""Initial weights. A model starts with heads that look one and two tokens back and, a layer later, heads that find
earlier occurrences of the current words and repeat what followed them. A small model is mostly used to copy from
its prompt, and would need millions of tokens to learn this. All other weights start from zero or small random
numbers."""
import math

import torch

from model import ROPE_BASE

TOKEN = 0.5        # standard deviation of an embedding's entries
CONSTANT = 3.0     # its first entry, in the same unit: the input to heads that attend by position alone
SHARPNESS = 60.0   # of heads that attend by position
MATCH = 3.0        # how much more a matching word counts than others
MARK = 4           # number of entries that distinguish one form of a word from others
LOGIT = 0.06       # gain of the last norm: initial predictions are moderately confident


@torch.no_grad()
def initialize(model, seed, stems=None):
    """`stems`: the vocabulary's stems (see bpe.Tokenizer.stems). Forms of one word start with the same numbers, except
    for their markers."""
    shape, generator = model.shape, torch.Generator().manual_seed(seed)
    dim, head, group = shape.dim, shape.head, shape.heads // shape.kv_heads

    def normal(*size):
        return torch.randn(*size, generator=generator)

    for name, weight in model.named_parameters():
        if weight.dim() == 2:
            ends = name.endswith(("o.weight", "down.weight"))
            weight.copy_(0 * weight if ends else normal(*weight.shape) / math.sqrt(weight.shape[1]))
    model.norm.weight.fill_(LOGIT)

    # The residual stream: a constant, the token, the previous token, and the one before that (a sketch of each).
    size = dim - 1 - 2 * head
    token, back = slice(1, 1 + size), {1: slice(1 + size, 1 + size + head), 2: slice(1 + size + head, dim)}
    embedding = model.embedding.weight
    embedding.zero_()
    embedding[:, 0] = CONSTANT * TOKEN
    embedding[:, token] = TOKEN * normal(shape.vocab, size)
    if stems is not None and size > 4 * MARK:
        of, marks = stems
        embedding[:, token] = embedding[of, token]
        for number in range(2):
            at = token.stop - (number + 1) * MARK
            embedding[:, at:at + MARK] = TOKEN * (2 * torch.tensor([mark[number] for mark in marks])[:, None] - 1.0)
    if shape.layers < 2 or shape.kv_heads < 2 or size < head:
        return
    sketch = torch.linalg.qr(normal(size, size))[0]
    rms = TOKEN * math.sqrt((CONSTANT ** 2 + size) / dim)
    frequency = ROPE_BASE ** (-torch.arange(0, head, 2).float() / head)

    first = model.blocks[0]
    for offset in (1, 2):
        q, kv = _rows(offset - 1, head, group)
        for weight, rows in ((first.q, q), (first.k, kv), (first.v, kv)):
            weight.weight[rows] = 0
        fast = frequency > 0.03
        amount = math.sqrt(SHARPNESS) / (CONSTANT * TOKEN / rms) * fast
        first.k.weight[kv.start:kv.stop:2, 0] = amount
        first.q.weight[q.start:q.stop:2, 0] = amount * torch.cos(offset * frequency)
        first.q.weight[q.start + 1:q.stop:2, 0] = -amount * torch.sin(offset * frequency)
        first.v.weight[kv, token] = sketch[:head]
        first.o.weight[back[offset], q] = rms * torch.eye(head)

    second = model.blocks[1]
    rms = TOKEN * math.sqrt((CONSTANT ** 2 + size + 2 * head) / dim)
    still = [i for i in range(head) if frequency[i // 2] < 0.004]   # entries that RoPE hardly changes
    half = len(still) // 2
    copies = min(shape.kv_heads, -(-size // head))
    for number in range(copies):
        q, kv = _rows(number, head, group)
        for weight, rows in ((second.q, q), (second.k, kv), (second.v, kv)):
            weight.weight[rows] = 0
        strength = math.sqrt(MATCH * math.sqrt(head / 32) * 18 / len(still))
        for i, entry in enumerate(still):
            if number % 2 == 0 or i < half:   # the current word equals the word before that position
                second.q.weight[q.start + entry, token] = strength * sketch[i]
                second.k.weight[kv.start + entry, back[1].start + i] = strength
            else:                             # and the previous word equals the second word before it
                second.q.weight[q.start + entry, back[1].start + i - half] = strength
                second.k.weight[kv.start + entry, back[2].start + i - half] = strength
        part = sketch[number * head:(number + 1) * head]
        second.v.weight[kv.start:kv.start + len(part), token] = part
        second.o.weight[token, q.start:q.start + len(part)] = 2 * rms * max(1, size / (copies * head)) * part.T


def _rows(number, head, group):
    """The rows of a query head, and those of its keys and values."""
    return slice(number * group * head, (number * group + 1) * head), slice(number * head, (number + 1) * head)


@torch.no_grad()
def grow(model, state):
    """Starts a deeper model from a shallower one of the same width. The added blocks are spread over the later half
    and initially have no effect."""
    model.load_state_dict({k: v for k, v in state.items() if not k.startswith("blocks.")}, strict=False)
    had = 1 + max(int(k.split(".")[1]) for k in state if k.startswith("blocks."))
    shape = model.shape
    added = shape.layers - had
    old = 0
    for i, block in enumerate(model.blocks):
        new = old >= 2 and added and (old == had or (i - old) < (old - 1) * added // max(1, had - 2))
        if new and i - old < added:
            continue   # keeps its initial weights, whose outputs are zero
        block.load_state_dict({k.split(".", 2)[2]: v for k, v in state.items() if k.startswith(f"blocks.{old}.")})
        old += 1
    assert old == had, "not every block found its place"
