"""The form of a record (the same as in the corpus), and short functions that create its messages."""


def user(text):
    return {"role": "user", "content": text}


def system(text):
    return {"role": "system", "content": text}


def answer(text, think=None):
    return {"role": "assistant", "content": text, "thinking": think} if think else {"role": "assistant", "content": text}


def call(*calls, think=None):
    return answer("", think) | {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls]}


def result(name, text):
    return {"role": "tool", "content": text, "name": name}


def record(kind, *messages, tools=None, check=None):
    """`check`: how a response is compared in an evaluation; see evaluate.py."""
    made = {"source": "made", "kind": kind, "messages": [m for m in messages if m is not None]}
    if tools:
        made["tools"] = tools
    if check:
        made["check"] = check
    return made


def sometimes(r, chance, value):
    return value if r.random() < chance else None
