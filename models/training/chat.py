"""Chat records as the text that a model reads: ChatML with <think>, <tool_call> and <tool_response>. The GGUF file
contains TEMPLATE (Jinja); `pieces` writes the same text for training. check.mjs verifies that the two agree."""
import json

import bpe

TEMPLATE = """{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}# Tools
{% for tool in tools %}{{ (tool.function if tool.function is defined else tool) | tojson }}
{% endfor %}<|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}{% for m in messages %}{% if m.role == 'user' or (m.role == 'system' and not loop.first) %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% elif m.role == 'tool' %}<|im_start|>user
<tool_response>
{{ m.content }}
</tool_response><|im_end|>
{% elif m.role == 'assistant' %}<|im_start|>assistant
{{ m.content or '' }}{% for c in m.tool_calls or [] %}{% if not loop.first or m.content %}{{ '\\n' }}{% endif %}{% set f = c.function if c.function is defined else c %}<tool_call>
{"name": "{{ f.name }}", "arguments": {{ f.arguments if f.arguments is string else f.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking %}<think>
{% endif %}{% endif %}"""


def pieces(record):
    """(text, is a special token, is written by the assistant), in order. Only the last message includes its thinking."""
    def turn(role, *parts):
        yield "<|im_start|>", True, False
        yield role + "\n", False, False
        yield from parts
        yield "<|im_end|>", True, role == "assistant"
        yield "\n", False, False

    messages = record["messages"]
    system = messages[0]["content"] if messages[0]["role"] == "system" else None
    if record.get("tools"):
        definitions = "".join(json.dumps(tool, ensure_ascii=False) + "\n" for tool in record["tools"])
        yield from turn("system", ((f"{system}\n\n" if system is not None else "") + "# Tools\n" + definitions, False, False))
    elif system is not None:
        yield from turn("system", (system, False, False))
    for message in messages[system is not None:]:
        content = message["content"]
        if message["role"] == "tool":
            yield from turn("user", ("<tool_response>", True, False), (f"\n{content}\n", False, False), ("</tool_response>", True, False))
        elif message["role"] != "assistant":
            # Each word in an image's rows is a piece of its own, which is replaced by a row of the vision encoder's
            # output.
            picture, text = [(word, word in bpe.SPECIALS, False) for word in message.get("picture", [])], [(content, False, False)]
            yield from turn(message["role"], *(picture + text if message.get("picture_first") else text + picture))
        else:
            said = []
            if message.get("thinking") and message is messages[-1]:
                said += [("<think>", True, False), ("\n", False, False), (message["thinking"] + "\n", False, True), ("</think>", True, True), ("\n\n", False, True)]
            if content:
                said.append((content, False, True))
            for i, call in enumerate(message.get("tool_calls", [])):
                if i or content:
                    said.append(("\n", False, True))
                arguments = json.dumps(call["arguments"], ensure_ascii=False)
                said += [("<tool_call>", True, True), (f'\n{{"name": "{call["name"]}", "arguments": {arguments}}}\n', False, True), ("</tool_call>", True, True)]
            yield from turn("assistant", *said)


def encode(tokenizer, record):
    """Token ids, and for each token whether the assistant writes it."""
    ids, said = [], []
    for text, special, spoken in pieces(record):
        piece = [tokenizer.id[text]] if special else tokenizer.encode(text)
        ids += piece
        said += [spoken] * len(piece)
    return ids, said
