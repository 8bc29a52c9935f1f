"""Pairs of texts that belong together, taken from the corpus of chat records: a question and its passage, a request and
the tool that serves it, two utterances of one intent, two halves of a text.

`training_pairs` and `held_out_pairs` yield `Pair`s. A pair's `group` names what the second text is about; two pairs of
one group are never each other's negatives.
"""

import glob
import json
import lzma
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

MAX_CHARACTERS = 1600  # per text: about 400 tokens
MIN_PASSAGE = 60
KINDS = ("rag", "instruct", "tool", "classify", "prose", "story", "extract", "dialogue")

_LABEL = re.compile(
    r"^(?:\s*(?:passage|context|paragraph|text|article|story|document|question|source|movie plot|movie plot title|q)\s*:\s*)+",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"^\[(\d+)\] ", re.MULTILINE)
_CITED = re.compile(r"\[(\d+)\]")
_QUOTES = "\"'“”` \n"


@dataclass(frozen=True)
class Pair:
    query: str
    text: str
    group: str
    kind: str


def _records(path: str) -> Iterator[dict]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


# What some records put before a question.
_ASKING = re.compile(r"(?i)^(?:.{0,120}?(?:following )?question\s*:)\s*")


def _clean(text: str) -> str:
    return _LABEL.sub("", text.strip()).strip(_QUOTES)


def _blocks(text: str) -> list[str]:
    """Paragraphs. A line that is a labelled question counts as one."""
    text = re.sub(r"\n(?=\s*question\s*:)", "\n\n", text, flags=re.IGNORECASE)
    text = re.sub(r"(?i)(question\s*:)\s*\n+", r"\1 ", text)
    return [block.strip() for block in re.split(r"\n\s*\n", text) if block.strip()]


def _is_question(block: str) -> bool:
    return len(block) <= 300 and (block.rstrip(_QUOTES).endswith("?") or re.match(r"(?i)question\s*:", block) is not None)


def _passages(system: str, user: str, answer: str) -> tuple[list[str], str | None]:
    """The passages of a record's first turn and its question, None if it has none that can be told apart."""
    question = None
    kept = []
    blocks = _blocks(user)
    for at, block in enumerate(blocks):
        if question is None and _is_question(block) and (len(blocks) > 1 or system):
            question = _ASKING.sub("", _clean(block)).replace("? ?", "?")
        elif question is None and at == len(blocks) - 1 and system and len(block) <= 300:
            question = _clean(block)
        else:
            kept.append(block)
    context = "\n\n".join([*_blocks(system), *kept])
    numbered = list(_NUMBERED.finditer(context))
    if numbered:
        cited = _CITED.search(answer)
        if cited is None:
            return [], question
        for at, match in enumerate(numbered):
            if match[1] == cited[1]:
                end = numbered[at + 1].start() if at + 1 < len(numbered) else len(context)
                return [context[match.end() : end].strip()], question
        return [], question
    # Instructions are short paragraphs around the passage.
    long = [_clean(block) for block in _blocks(context) if len(block) >= MIN_PASSAGE and not _is_instruction(block)]
    return (["\n\n".join(long)] if long else []), question


def _is_instruction(block: str) -> bool:
    return len(block) < 220 and re.match(
        r"(?i)(answer|use|read|given|please|if |the following|reply|work out|i have a test|you )", block
    ) is not None


def _rag(record: dict, follow_ups: bool) -> Iterator[Pair]:
    messages = record["messages"]
    system = messages[0]["content"] if messages[0]["role"] == "system" else ""
    turns = [m for m in messages if m["role"] != "system"]
    if len(turns) < 2:
        return
    passages, question = _passages(system, turns[0]["content"], turns[1]["content"])
    if not passages or question is None:
        return
    text = passages[0][:MAX_CHARACTERS]
    if len(text) < MIN_PASSAGE or len(question) < 8 or question in text:
        return
    yield Pair(question, text, text[:200], "rag")
    if follow_ups:
        for turn in turns[2::2]:
            if 12 <= len(turn["content"]) <= 300:
                yield Pair(turn["content"], text, text[:200], "rag")


def _halves(text: str, kind: str) -> Iterator[Pair]:
    """A sentence of a text, and the text without it."""
    sentences = re.split(r"(?<=[.!?])\s+", text.strip())
    if len(sentences) < 4:
        return
    at = len(text) * 7919 % len(sentences)
    if not 30 <= len(sentences[at]) <= 300:
        return
    rest = " ".join(sentences[:at] + sentences[at + 1 :])
    start = max(0, sum(len(s) + 1 for s in sentences[:at]) - MAX_CHARACTERS // 2)
    yield Pair(sentences[at], rest[start : start + MAX_CHARACTERS], text[:200], kind)


def _classify(record: dict) -> Iterator[Pair]:
    user = record["messages"][-2]["content"]
    label = record["messages"][-1]["content"].strip()
    text = re.search(r"(?:Text|Message|Utterance)\s*:\s*(.+)", user)
    said = text[1].strip() if text else user.strip().split("\n")[-1]
    if 2 <= len(label) <= 40 and 8 <= len(said) <= 300 and "\n" not in label:
        yield Pair(said, label.replace("_", " "), label, "classify")


def _tool(record: dict) -> Iterator[Pair]:
    tools = {tool["name"]: tool for tool in record.get("tools", [])}
    for asked, called in zip(record["messages"], record["messages"][1:]):
        if asked["role"] != "user" or not called.get("tool_calls"):
            continue
        tool = tools.get(called["tool_calls"][0]["name"])
        if tool is not None and 8 <= len(asked["content"]) <= 600:
            text = f"{tool['name'].replace('_', ' ')}: {tool['description']}"
            yield Pair(asked["content"], text, text, "tool")


def _answered(record: dict) -> Iterator[Pair]:
    messages = [m for m in record["messages"] if m["role"] != "system"]
    if len(messages) >= 2 and messages[0]["role"] == "user":
        asked, answer = messages[0]["content"], messages[1]["content"]
        if len(asked) >= 15 and len(answer) >= 40:
            yield Pair(asked[:MAX_CHARACTERS], answer[:MAX_CHARACTERS], asked[:200], record["kind"])


def _pairs(record: dict) -> Iterator[Pair]:
    kind = record["kind"]
    if kind == "rag":
        yield from _rag(record, follow_ups=True)
    elif kind in ("prose", "story"):
        yield from _halves(record["messages"][-1]["content"], kind)
    elif kind == "classify":
        yield from _classify(record)
    elif kind == "tool":
        yield from _tool(record)
    else:
        yield from _answered(record)


def training_pairs(corpus: Path) -> Iterator[Pair]:
    for kind in KINDS:
        for path in sorted(glob.glob(str(corpus / f"train-{kind}-*.jsonl.xz"))):
            for record in _records(path):
                yield from _pairs(record)


def held_out_pairs(corpus: Path) -> list[Pair]:
    """First questions of the held-out question-answering records, each with its passage."""
    pairs = []
    for record in _records(str(corpus / "validation.jsonl.xz")):
        if record["kind"] == "rag":
            pairs.extend(_rag(record, follow_ups=False))
    return pairs
