"""What the models read: made records and the corpus, mixed, tokenized and packed into rows of fixed lengths."""
import glob
import json
import lzma
import os
import random

import numpy as np

import chat

# The share of each kind among the corpus records of a run, by characters.
MIX = {"instruct": 4, "dialogue": 3, "story": 4, "prose": 1, "rag": 2, "extract": 2, "classify": 2, "tool": 3, "math": 2, "code": 2}
PROSE = {"story": 6, "prose": 4, "instruct": 1}


def corpus(folder, mix, characters, longest, seed):
    """Records of the corpus up to so many characters, kinds in the given shares, none longer than `longest`."""
    r, found = random.Random(seed), []
    for kind, share in mix.items() if characters else ():
        room = characters * share / sum(mix.values())
        shards = sorted(glob.glob(os.path.join(folder, f"train-{kind}-*.jsonl.xz")))
        r.shuffle(shards)
        for line in (line for shard in shards for line in lzma.open(shard, "rt", encoding="utf-8")):
            if room <= 0:
                break
            record = json.loads(line)
            if kind in ("story", "prose") and len(line) > longest:
                record["messages"][-1]["content"] = shorten(record["messages"][-1]["content"], longest)
            elif len(line) > longest:
                continue
            found.append(record)
            room -= min(len(line), longest)
    r.shuffle(found)
    return found


def shorten(text, longest):
    """The beginning, up to the end of a sentence."""
    cut = text[:longest]
    end = max(cut.rfind(mark) for mark in (". ", ".\n", "! ", "? ", '."'))
    return cut[:end + 1] if end > longest // 2 else cut


def think_or_not(record, r, share):
    """Thinking is a mode the request chooses: a record is read either way. Sums mostly with it: the steps are what can be learned."""
    last = record["messages"][-1]
    share = 1 - (1 - share) / 3 if record["kind"] == "math" and share else share
    if "thinking" in last and r.random() >= share:
        record["messages"][-1] = {k: v for k, v in last.items() if k != "thinking"}
    return record


def encode_all(tokenizer, found, longest, thinking, seed):
    """[(ids, said)] of the records that fit."""
    r, rows = random.Random(seed), []
    for record in found:
        ids, said = chat.encode(tokenizer, think_or_not(record, r, thinking))
        if 4 < len(ids) <= longest:
            rows.append((np.array(ids, np.uint16), np.array(said, bool)))
    return rows


def pack(rows, lengths, end, seed):
    """{length: (tokens, position, document, said)}: each record goes into a row of the shortest length it fits, and shorter ones fill
    what is left. A row holds whole records; `document` numbers them, 0 is what stays empty."""
    r, packed = random.Random(seed), {}
    waiting = [[] for _ in range(lengths[-1] + 1)]   # by length
    for row in r.sample(rows, len(rows)):
        waiting[len(row[0])].append(row)
    for length, lower in zip(lengths[::-1], [*lengths[-2::-1], 0]):
        bins = []
        for size in range(length, lower, -1):
            while waiting[size]:
                bins.append([waiting[size].pop()])
                room = length - size
                while (fits := next((n for n in range(room, 4, -1) if waiting[n]), None)) is not None:
                    bins[-1].append(waiting[fits].pop())
                    room -= fits
        if not bins:
            continue
        for members in bins:
            r.shuffle(members)
        tokens = np.full((len(bins), length), end, np.uint16)
        position, document, said = np.zeros((len(bins), length), np.int16), np.zeros((len(bins), length), np.int16), np.zeros((len(bins), length), bool)
        for i, members in enumerate(bins):
            at = 0
            for number, (ids, spoken) in enumerate(members, 1):
                stop = at + len(ids)
                tokens[i, at:stop], said[i, at:stop], document[i, at:stop], position[i, at:stop] = ids, spoken, number, np.arange(len(ids))
                at = stop
        packed[length] = tokens, position, document, said
    return packed


def save(path, packed):
    """Two bytes and two bits for a token: what it is, whether a record begins there and whether the assistant says it."""
    arrays = {}
    for length, (tokens, position, document, said) in packed.items():
        begins = (position == 0) & (np.diff(document, axis=1, prepend=0) != 0)
        arrays |= {f"tokens{length}": tokens, f"said{length}": np.packbits(said, axis=1), f"begins{length}": np.packbits(begins, axis=1), f"filled{length}": (document > 0).sum(1).astype(np.int16)}
    with open(path + ".new", "wb") as file:
        np.savez(file, **arrays)
    os.replace(path + ".new", path)


def load(path):
    stored, packed = np.load(path), {}
    for length in sorted(int(key[6:]) for key in stored.files if key.startswith("tokens")):
        tokens = stored[f"tokens{length}"]
        said, begins = (np.unpackbits(stored[f"{key}{length}"], axis=1, count=length).astype(bool) for key in ("said", "begins"))
        inside = np.arange(length) < stored[f"filled{length}"][:, None]
        document = np.where(inside, np.cumsum(begins, axis=1), 0).astype(np.int16)
        start = np.maximum.accumulate(np.where(begins, np.arange(length), 0), axis=1)
        packed[length] = tokens, np.where(inside, np.arange(length) - start, 0).astype(np.int16), document, said
    return packed
