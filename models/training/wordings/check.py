"""Reads and checks the wordings in frames/ and intents/ (see README.md): `python3 check.py` prints the totals, lists
every mistake, and exits with status 1 if there is one."""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
AT_LEAST = 30            # wordings of a frame or intent
ANSWERS = range(1, 6)
LONGEST = 25             # words of an answer
_HEAD = re.compile(r"\[(frame|intent) ([a-z0-9_]+\.[a-z0-9_]+)\](?:\s+slots:((?:\s+\{[a-z0-9_]+\})+|\s+none))?")
_SLOT = re.compile(r"\{([a-z0-9_]+)\}")


class Entry:
    """A frame or an intent: its name, the names of its slots, its wordings, and an intent's answers."""

    def __init__(self, kind, name, slots, where):
        self.kind, self.name, self.slots, self.where = kind, name, slots, where
        self.wordings, self.answers = [], []


def read(path, mistakes):
    """The entries of a file. Appends to `mistakes` a line for each line that has an unknown form."""
    entries = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        where = f"{path.parent.name}/{path.name}:{number}"
        line = line.rstrip()
        head = _HEAD.fullmatch(line)
        if not line or line.startswith("# "):
            continue
        if head:
            entries.append(Entry(head[1], head[2], set(_SLOT.findall(head[3] or "")), where))
        elif line.startswith("- ") and entries:
            entries[-1].wordings.append(line[2:].strip())
        elif line.startswith("= ") and entries:
            entries[-1].answers.append(line[2:].strip())
        else:
            mistakes.append(f"{where}: unknown form of line: {line[:60]}")
    return entries


def read_all(kind, folder=HERE, mistakes=None):
    """All entries of a kind ("frame" or "intent"), by file name and then in the order of the file."""
    mistakes = [] if mistakes is None else mistakes
    return [entry for path in sorted((folder / f"{kind}s").rglob("*.txt")) for entry in read(path, mistakes)]


def same(text):
    """The form in which wordings are compared: without case and repeated spaces."""
    return " ".join(text.casefold().split())


def check(folder=HERE):
    """Returns (frames, intents, mistakes)."""
    mistakes, names, asked = [], {}, {}
    frames, intents = (read_all(kind, folder, mistakes) for kind in ("frame", "intent"))
    for kind, entries in (("frame", frames), ("intent", intents)):
        for entry in entries:
            at = f"{entry.where}: {entry.name}"
            if entry.kind != kind:
                mistakes.append(f"{at} is in {kind}s/")
            if entry.name in names:
                mistakes.append(f"{at} is also defined at {names[entry.name]}")
            names[entry.name] = entry.where
            if len(entry.wordings) < AT_LEAST:
                mistakes.append(f"{at} has {len(entry.wordings)} wordings, expected at least {AT_LEAST}")
            # A frame's answer depends on the conversation, so two frames may share a wording; two intents may not.
            seen = {} if kind == "frame" else asked
            for text in entry.wordings:
                if same(text) in seen:
                    mistakes.append(f"{at} repeats a wording of {seen[same(text)]}: {text}")
                seen[same(text)] = entry.name
                if unknown := set(_SLOT.findall(text)) - entry.slots:
                    mistakes.append(f"{at} does not declare {', '.join(sorted(unknown))}: {text}")
                if re.search(r"[{}]", _SLOT.sub("", text)):
                    mistakes.append(f"{at} has a brace that belongs to no slot: {text}")
            if kind == "intent" and len(entry.answers) not in ANSWERS:
                mistakes.append(f"{at} has {len(entry.answers)} answers, expected 1 to {ANSWERS[-1]}")
            if kind == "frame" and entry.answers:
                mistakes.append(f"{at} has answers, but the answers of frames are computed")
            for text in entry.answers:
                if len(text.split()) > LONGEST:
                    mistakes.append(f"{at} has an answer of more than {LONGEST} words: {text}")
                if not text.isascii() or set(_SLOT.findall(text)) - {"me"}:
                    mistakes.append(f"{at} has an answer with a non-ASCII character or with a slot other than {{me}}: {text}")
    return frames, intents, mistakes


def main():
    frames, intents, mistakes = check()
    for kind, entries in (("frames", frames), ("intents", intents)):
        asks, answers = (sum(len(found) for found in one) for one in zip(*((e.wordings, e.answers) for e in entries)))
        print(f"{len(entries)} {kind}, {asks} wordings, {answers} answers")
    print("\n".join(mistakes) or "no mistakes")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
