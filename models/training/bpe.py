"""Byte-level BPE with Qwen2's pre-tokenizer (each digit is a token of its own): training on text, and the token tables
of a GGUF file."""
import collections
import heapq
import json
import re

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<|image|>"]
CONTROL = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|image|>"}   # the client sees the remaining special tokens

# \p{L} is written as [^\W\d_] and \p{N} as \d: equivalent for this training text (no marks, no letter-like numbers)
_WORD = re.compile(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\w]?[^\W\d_]+|_[^\W\d_]+|\d| ?(?:[^\s\w]|_)+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

# a leading space or symbol is not part of a word; apostrophes are, and runs of spaces stand alone
_LEAD = re.compile(r"( (?=\S)|[^\w\s'](?=[^\W\d_])|)(.*)", re.DOTALL)
SPACED = 0.4   # share of the merged entries that start with a space


def _byte_letters():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in plain}
    for byte in range(256):
        if byte not in letters:
            letters[byte] = chr(256 + len(letters) - len(plain))
    return letters


_LETTER = _byte_letters()


def train(texts, size):
    """Builds a vocabulary in which a word is split into the same tokens with and without a leading space: the most
    frequent pairs within words are merged first, and only then is a space merged with the token after it. What a
    model learns about copying "lamp" from a sentence then also applies to "lamp" in JSON."""
    words, spaced = collections.Counter(), collections.Counter()
    for text in texts:
        for word in _WORD.findall(text):
            lead, rest = _LEAD.match(word).groups()
            if lead == " ":
                spaced[rest] += 1
            words[rest] += 1
    letters = [_LETTER[b] for b in range(256)]
    room = size - len(SPECIALS) - len(letters)
    tokens, merges, spelled = _merges(words, room - int(SPACED * room))
    first = collections.Counter()
    for word, count in spaced.items():
        first[spelled[word][0]] += count
    space = _LETTER[32]
    doubled = [piece for piece, _ in sorted(first.items(), key=lambda item: (-item[1], item[0]))][:room - len(tokens)]
    tokens += [space + piece for piece in doubled]
    merges += [(space, piece) for piece in doubled]
    return Tokenizer(letters + tokens + SPECIALS, [" ".join(pair) for pair in merges])


def _merges(words, room):
    """Merges the most frequent pair until there are `room` new entries. Returns the entries, the pairs, and each
    word's tokens. Ties are broken by the text of the pair, so the same text gives the same result."""
    names, spelled, counts = list(words), [[_LETTER[b] for b in word.encode()] for word in words], list(words.values())
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for i, word in enumerate(spelled):
        for pair in zip(word, word[1:]):
            pairs[pair] += counts[i]
            where[pair].add(i)
    heap = [(-n, pair) for pair, n in pairs.items()]
    heapq.heapify(heap)
    merges, tokens = [], []
    while len(tokens) < room and heap:
        count, pair = heapq.heappop(heap)
        if pairs[pair] != -count:   # later merges have changed the count: push the pair again with the current one
            if pairs[pair] > 0:
                heapq.heappush(heap, (-pairs[pair], pair))
            continue
        merged = pair[0] + pair[1]
        merges.append(pair)
        tokens.append(merged)
        touched = set()
        for i in where.pop(pair, ()):
            word = spelled[i]
            for old in zip(word, word[1:]):
                pairs[old] -= counts[i]
            spelled[i] = word = _merge(word, pair, merged)
            for new in zip(word, word[1:]):
                pairs[new] += counts[i]
                where[new].add(i)
                touched.add(new)
        for new in touched:
            heapq.heappush(heap, (-pairs[new], new))
    return tokens, merges, dict(zip(names, spelled))


def _merge(word, pair, merged):
    out, at = [], 0
    while at < len(word):
        if tuple(word[at:at + 2]) == pair:
            out.append(merged)
            at += 2
        else:
            out.append(word[at])
            at += 1
    return out


class Tokenizer:
    def __init__(self, tokens, merges):
        self.tokens, self.merges = tokens, merges
        self.id = {token: i for i, token in enumerate(tokens)}
        self._rank = {tuple(merge.split(" ")): i for i, merge in enumerate(merges)}
        self._known = {}

    def _word(self, word):
        found = self._known.get(word)
        if found is None:
            letters = [_LETTER[b] for b in word.encode()]
            while len(letters) > 1:
                rank, at = min((self._rank.get(pair, 1 << 30), i) for i, pair in enumerate(zip(letters, letters[1:])))
                if rank == 1 << 30:
                    break
                letters[at:at + 2] = [letters[at] + letters[at + 1]]
            found = self._known[word] = [self.id[letter] for letter in letters]
        return found

    def stems(self):
        """For each token: the token that it is a form of, whether it has a leading space, and whether it is a plural."""
        stems, marks = [], []
        for i, token in enumerate(self.tokens):
            bare = token[1:] if token[0] == _LETTER[32] and token[1:] in self.id else token
            single = bare[:-1] if len(bare) > 3 and bare[-1] == "s" and bare[:-1] in self.id and bare not in SPECIALS else bare
            stems.append(self.id[single])
            marks.append((bare != token, single != bare))
        return stems, marks

    def encode(self, text):
        """Token ids of plain text. Text that looks like a special token is not encoded as one."""
        return [token for word in _WORD.findall(text) for token in self._word(word)]

    def save(self, path):
        with open(path, "w") as file:
            json.dump({"tokens": self.tokens, "merges": self.merges}, file)

    @staticmethod
    def load(path):
        with open(path) as file:
            stored = json.load(file)
        return Tokenizer(stored["tokens"], stored["merges"])
