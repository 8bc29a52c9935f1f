"""What a model has learned after each leg, measured with the held-out conversations, a sample of the skill table, and
held-out stories; and when to stop. Only scores are written, and none of the held-out prompts."""
import json
import lzma
import math
import os
import re
import subprocess
import sys

import torch
import torch.nn.functional as F

import chat
import data
import evaluate

FALL = 5.0   # how many points a row may fall below its best


def scores(service, name, path, count):
    """{"conversation": {...}, "rows": {row: percent}} for a GGUF file, measured through the server of a built
    checkout."""
    server = evaluate.start([f"{name}={path}"], service)
    try:
        score = os.path.join(os.path.dirname(os.path.abspath(__file__)), "conversation", "score.py")
        shown = subprocess.run([sys.executable, score, "--url", server["url"], "--key", server["key"], "--model", name, "--effort", "none", "--parallel", "4"], capture_output=True, text=True, check=True).stdout
        return {"conversation": parse(shown), "rows": evaluate.table_of(server, name, count)}
    finally:
        server["child"].terminate()
        server["child"].wait()


def parse(shown):
    """Parses score.py's output: {setting: {kind: percent}}, and the total."""
    found, setting = {}, None
    for line in shown.splitlines():
        if line.startswith("  ") and "%" in line:
            found[setting] = {what: float(share) for what, share in re.findall(r"([a-z][a-z ]*) ([\d.]+)%", line)}
        elif line.startswith("total"):
            found["total"] = line.split()[1]
        elif not line.startswith(" "):
            setting = line.split(", ")[-1]
    return found


def fallen(history):
    """Rows that were 5 points below their best in the last two evaluations, and by more than the samples' random
    variation."""
    if len(history) < 3:
        return []
    rows = [h["rows"] for h in history]
    noise = lambda percent, count: percent * (100 - percent) / count
    found = []
    for row in rows[-1]:
        best = max((h["rows"][row], h["count"]) for h in history[:-2])
        low = [h["rows"][row] + FALL + 2 * math.sqrt(noise(best[0], best[1]) + noise(h["rows"][row], h["count"])) < best[0] for h in history[-2:]]
        if all(low):
            found.append(row)
    return found


def perplexity(model, tokenizer, path, characters=120_000):
    """On stories that no model was trained on: per token, and as bits per byte, which can be compared across
    vocabularies."""
    loss, count, size = 0.0, 0, 0
    for line in lzma.open(path, "rt", encoding="utf-8"):
        record = json.loads(line)
        if record["kind"] != "story" or len(record["messages"]) > 1 or size > characters:
            continue
        text = data.shorten(record["messages"][0]["content"], data.LONGEST)
        ids, said = chat.encode(tokenizer, {"messages": [{"role": "assistant", "content": text}]})
        tokens, said = torch.tensor(ids)[None], torch.tensor(said)
        with torch.no_grad():
            hidden = model(tokens, torch.arange(len(ids))[None], torch.ones_like(tokens))[0, :-1]
            loss += F.cross_entropy(model.logits(hidden)[said[1:]], tokens[0, 1:][said[1:]], reduction="sum").item()
        count += int(said.sum())
        size += len(text.encode())
    return math.exp(loss / count), loss / math.log(2) / size
