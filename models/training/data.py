"""The training data: generated records and the corpus, mixed, tokenized and packed into rows of fixed lengths."""
import glob
import itertools
import json
import lzma
import os
import random
import re

import numpy as np

import chat
import records
from plans import KINDS
from records import conversation, fresh, phrases, ruled, seen, unknown
from records.requests import worked

LONGEST = 1500   # maximum length of a corpus record in characters


def corpus(folder, kinds, seed):
    """Endless corpus records, with the given shares of kinds by number of characters. Each kind has its own random
    order."""
    streams = {kind: _kind(folder, kind, seed) for kind in kinds}
    read = dict.fromkeys(kinds, 0)
    while True:
        kind = min(kinds, key=lambda k: read[k] / kinds[k])
        record = next(streams[kind])
        read[kind] += sum(len(message["content"]) for message in record["messages"])
        yield record


def _kind(folder, kind, seed):
    lines = [line for shard in sorted(glob.glob(os.path.join(folder, f"train-{kind}-*.jsonl.xz"))) for line in lzma.open(shard, "rt", encoding="utf-8")]
    if not lines:
        raise SystemExit(f"{folder} has no records of the kind {kind}")
    while True:
        random.Random(f"{kind} {seed}").shuffle(lines)
        for line in lines:
            record = json.loads(line)
            if kind in ("story", "prose"):
                record["messages"][-1]["content"] = shorten(record["messages"][-1]["content"], LONGEST)
            elif len(line) > LONGEST:
                continue
            yield record


def questions(folder, kinds=("instruct", "dialogue", "math", "rag")):
    """Short questions from the corpus, used as questions that a small model cannot answer. Questions about a text are
    left out."""
    found = set()
    for kind in kinds:
        for shard in sorted(glob.glob(os.path.join(folder, f"train-{kind}-*.jsonl.xz"))):
            for line in lzma.open(shard, "rt", encoding="utf-8"):
                record = json.loads(line)
                text = record["messages"][0]["content"]
                if record["messages"][0]["role"] == "user" and 12 < len(text) < 120 and "\n" not in text and ":" not in text and text.endswith("?"):
                    found.add(text)
    return sorted(found)


def passages(folder, count=3000):
    """Beginnings of the corpus's stories, as lists of two to four sentences, to copy and to summarize."""
    found = []
    for shard in sorted(glob.glob(os.path.join(folder, "train-story-*.jsonl.xz")))[:1]:
        with lzma.open(shard, "rt", encoding="utf-8") as file:
            for line in itertools.islice(file, count):
                text = json.loads(line)["messages"][-1]["content"]
                lines = re.findall(r"[A-Z][^.!?\"\n]{15,110}\.(?= |$)", text.split("\n")[0][:400])
                if len(lines) > 1:
                    found.append(lines[:4])
    return found


def skills(seed, name, focus):
    """Endless skill records."""
    for number in itertools.count():
        yield from records.make(500, f"{seed} {number}", name, focus)


HELD_OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "conversation", "held_out.jsonl")


def plain(text):
    return " ".join(re.findall(r"\w+", text.lower()))


def kept_back(path):
    """The questions of the held-out test, without common phrases ("hi", "who are you")."""
    if not os.path.exists(path):
        return frozenset()
    with open(path, encoding="utf-8") as file:
        asked = (plain(message["content"]) for line in file for message in json.loads(line)["messages"] if message["role"] == "user")
        return frozenset(text for text in asked if len(text.split()) > 3)


def leg(folder, model, name, number, mix):
    """Endless records for one leg of a run. The next record comes from the part that is furthest below its share of
    the assistant's tokens. This is a generator: send it the number of assistant tokens in the record it has just
    yielded."""
    seed = f"{model['seed']} {number}"
    r = random.Random(seed)
    asked = questions(folder)
    stories = passages(folder) if "fresh" in mix else []
    choices = fresh.makers(conversation.one, [line for lines in stories for line in lines], stories)
    streams = dict(conversation=(conversation.chat(r, name) for _ in itertools.count()), fallback=(unknown.unknown(r, asked) for _ in itertools.count()),
                   skills=skills(seed, name, model["focus"]), corpus=corpus(folder, KINDS, seed), pictures=(seen.make(r) for _ in itertools.count()), ruled=(ruled.ruled(r) for _ in itertools.count()),
                   fresh=(fresh.make(r, name, choices) for _ in itertools.count()))
    said, kept = dict.fromkeys(mix, 0), kept_back(HELD_OUT)
    while True:
        part = min(mix, key=lambda k: said[k] / mix[k])
        found = next(streams[part])
        if any(message["role"] == "user" and plain(message["content"]) in kept for message in found["messages"]):
            continue
        if part != "corpus" or found["messages"][0]["role"] == "user":
            found = phrases.with_system(r, found)
        said[part] += yield part, found


def shorten(text, longest):
    """The start of the text, up to the end of a sentence."""
    cut = text[:longest]
    end = max(cut.rfind(mark) for mark in (". ", ".\n", "! ", "? ", '."'))
    return cut[:end + 1] if end > longest // 2 else cut


_SUM = re.compile(r"(\d+) ([-+x]) (\d+) = -?\d+")
_TASK = re.compile(r"(\d+) ([-+]) (\d+): ")   # how the thoughts about a sum of objects start


def think_or_not(record, r, share):
    """Thinking is a mode selected by the request, so a record is used with or without it. Sums mostly use it, because
    the steps are what can be learned. Without thinking, the response to a larger sum contains the steps."""
    last = record["messages"][-1]
    share = 1 - (1 - share) / 3 if record["kind"] == "math" and share else share
    if "thinking" in last and r.random() >= share:
        thought = last["thinking"]
        record["messages"][-1] = last = {k: v for k, v in last.items() if k != "thinking"}
        if record["kind"] == "math" and (found := _SUM.fullmatch(last["content"]) or (last["content"].startswith("The answer is ") and _TASK.match(thought))):
            last["content"] = worked(int(found[1]), found[2], int(found[3]))
    return record


def encode(tokenizer, source, longest, tokens, thinking, seed):
    """[(ids, said)] for the records that fit, up to this many tokens, and the number of assistant tokens in each part.
    `said` marks the assistant's tokens."""
    r, rows, total, spoken = random.Random(seed), [], 0, {}
    part, record = next(source)
    while total < tokens:
        ids, said = chat.encode(tokenizer, think_or_not(record, r, thinking))
        fits = 4 < len(ids) <= longest
        if fits:
            rows.append((np.array(ids, np.uint16), np.array(said, bool)))
            total += len(ids)
            spoken[part] = spoken.get(part, 0) + sum(said)
        part, record = source.send(sum(said) if fits else 0)
    return rows, spoken


def pack(rows, lengths, end, seed):
    """{length: (tokens, position, document, said)}: each record goes into a row of the shortest length that fits, and
    shorter records fill the remaining space. A row contains whole records; `document` numbers them, and 0 marks
    padding."""
    r, packed = random.Random(seed), {}
    waiting = [[] for _ in range(lengths[-1] + 1)]   # indexed by length
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
    """Stores two bytes and two bits per token: its id, whether a record starts there, and whether the assistant writes
    it."""
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
