"""Scores models through the running server, on generated records that no model was trained on (other seeds).

  evaluate.py --out FILE.json [--count N] [--samples N] NAME=FILE.gguf ...      (starts a server for these files)
  evaluate.py --out FILE.json --url http://127.0.0.1:8080 --key KEY NAME ...    (uses a running server)

Sampling is greedy. A row of the table is a kind of record, with thinking if its name says so. A cell is the
percentage of correct responses. Compared are: the label, the JSON with its values, tool names and arguments, the
number, or the exact text."""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

import records

SEED = 987_654
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))



def unanswerable(record):
    return record["messages"][-1]["content"] == records.labels.UNKNOWN


# row: (kind, thinking, which records of that kind)
ROWS = {
    "classification": ("classify", False, None),
    "routing": ("route", False, None),
    "extraction": ("extract", False, None),
    "tool calls": ("tool", False, lambda r: r["check"] == "calls"),
    "tool calls, several at once": ("tool", False, lambda r: len(r["messages"][-1].get("tool_calls", [])) > 1),
    "tools that do not fit": ("tool", False, lambda r: r["check"] == "exact"),
    "answer after a tool result": ("tool_answer", False, None),
    "context questions": ("rag", False, lambda r: not unanswerable(r)),
    "unanswerable context questions": ("rag", False, unanswerable),
    "memory over turns": ("memory", False, None),
    "arithmetic": ("math", False, None),
    "arithmetic, thinking": ("math", True, None),
    "summaries": ("summary", False, None),
    "formats": ("format", False, None),
    "system prompts": ("system", False, None),
    "facts": ("fact", False, None),
    "small code": ("code", False, None),
    "tool calls, thinking": ("tool", True, lambda r: r["check"] == "calls"),
    "context questions, thinking": ("rag", True, None),
    "extraction, thinking": ("extract", True, None),
}


def pool(name, needed):
    """{row: records}, the same for every run."""
    found = {row: [] for row in ROWS}
    for record in records.make(400 * max(needed, 25), SEED, name):
        for row, (kind, thinking, accepts) in ROWS.items():
            if record["kind"] == kind and len(found[row]) < needed and "check" in record and (accepts is None or accepts(record)) and (not thinking or "thinking" in record["messages"][-1]):
                found[row].append(record)
        if all(len(some) == needed for some in found.values()):
            break
    return found


def request_of(name, record, thinking, temperature=0):
    messages = []
    waiting = []
    for number, message in enumerate(record["messages"][:-1]):
        if message["role"] == "tool":
            messages.append({"role": "tool", "tool_call_id": waiting.pop(0), "content": message["content"]})
        elif message.get("tool_calls"):
            waiting = [f"call_{number}_{i}" for i in range(len(message["tool_calls"]))]
            calls = [{"id": i, "type": "function", "function": {"name": c["name"], "arguments": json.dumps(c["arguments"], ensure_ascii=False)}} for i, c in zip(list(waiting), message["tool_calls"])]
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        else:
            messages.append({"role": message["role"], "content": message["content"]})
    body = {"model": name, "messages": messages, "max_completion_tokens": 400, "temperature": temperature, "reasoning_effort": "medium" if thinking else "none"}
    if record.get("tools"):
        body["tools"] = [{"type": "function", "function": tool} for tool in record["tools"]]
    return body


def ask(server, body):
    request = urllib.request.Request(server["url"] + "/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json", "authorization": "Bearer " + server["key"]})
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)["choices"][0]["message"]


def parsed(text):
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return None


def right(record, reply):
    last, text = record["messages"][-1], (reply.get("content") or "").strip()
    made = [(c["function"]["name"], parsed(c["function"]["arguments"])) for c in reply.get("tool_calls") or []]
    check = record["check"]
    if check == "calls":
        wanted = [(c["name"], c["arguments"]) for c in last["tool_calls"]]
        return sorted(map(str, made)) == sorted(map(str, wanted)) if len(made) == len(wanted) else False
    if made:
        return False
    if check == "label":
        return text.lower().strip(" .\"'") == last["content"].lower()
    if check == "json":
        return parsed(text) == parsed(last["content"])
    if check == "number":
        numbers = [re.findall(r"-?\d+", t.replace(",", "")) for t in (text, last["content"])]
        return bool(numbers[0]) and numbers[0][-1] == numbers[1][-1]
    return text == last["content"].strip()


def start(files, root=ROOT):
    """Starts a built checkout's server on a free port, with its own data directory."""
    key, data = "sk-evaluate-0123456789abcdef", tempfile.mkdtemp(prefix="monolith-evaluate-")
    command = ["node", os.path.join(root, "dist", "main.js"), "serve", "--log", "json", "--log-level", "error"]
    for item in files:
        command += ["--model", item]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sys.stderr, env=os.environ | {"MONOLITH_PORT": "0", "MONOLITH_DATA_DIR": data, "MONOLITH_API_KEY": key, "MONOLITH_LIMITS_RPM": "off", "MONOLITH_LIMITS_TPM": "off"})
    return {"url": json.loads(child.stdout.readline())["url"], "key": key, "child": child}


def show(record, reply):
    """One exchange as text, unedited."""
    lines = []
    for message in record["messages"][:-1]:
        calls = "".join(f" {c['name']}({json.dumps(c['arguments'])})" for c in message.get("tool_calls", []))
        lines.append(f"{message['role']}: {message['content']}{calls}")
    if record.get("tools"):
        lines.insert(0, "tools: " + ", ".join(tool["name"] for tool in record["tools"]))
    if reply.get("reasoning_content"):
        lines.append(f"thinking: {reply['reasoning_content'].strip()}")
    calls = "".join(f"{c['function']['name']}({c['function']['arguments']}) " for c in reply.get("tool_calls") or [])
    lines.append(f"-> {reply.get('content') or ''}{calls}")
    return "\n".join(lines)


def table_of(server, name, count, temperature=0, wrong=0, say=lambda *words, **how: None):
    """{row: percentage correct} for a model."""
    scores = {}
    for row, some in pool(name if name in records.language.TIERS else "hal-1.0", count).items():
        thinking = ROWS[row][1]
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            replies = list(threads.map(lambda record: ask(server, request_of(name, record, thinking, temperature)), some))
        good = [right(record, reply) for record, reply in zip(some, replies)]
        scores[row] = round(100 * sum(good) / len(good), 1) if good else None
        for record, reply in [pair for pair, ok in zip(zip(some, replies), good) if not ok][:wrong]:
            print(f"--- {name}, {row}, wanted {json.dumps(record['messages'][-1])}\n{show(record, reply)}", file=sys.stderr)
        say(f"{name:12} {row:32} {scores[row]}", flush=True)
    return scores


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--out", required=True)
    parser.add_argument("--url")
    parser.add_argument("--key", default="")
    parser.add_argument("--count", type=int, default=100, help="records per row")
    parser.add_argument("--temperature", type=float, default=0)
    parser.add_argument("--wrong", type=int, default=0, help="number of wrong answers to show per row")
    args = parser.parse_args()
    server = {"url": args.url, "key": args.key} if args.url else start(args.models)
    scores, begin = {}, time.time()
    try:
        for name in (item.split("=")[0] for item in args.models):
            scores[name] = table_of(server, name, args.count, args.temperature, args.wrong, say=print)
    finally:
        if "child" in server:
            server["child"].terminate()
            server["child"].wait()
    with open(args.out, "w") as file:
        json.dump({"count": args.count, "seconds": round(time.time() - begin), "scores": scores}, file, indent=1)
    print(table(scores))


def table(scores):
    names = list(scores)
    lines = ["| kind | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for row in ROWS:
        lines.append(f"| {row} | " + " | ".join("–" if scores[n].get(row) is None else f"{scores[n][row]:.0f}" for n in names) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
