"""Renders templates with Jinja2, set up as transformers sets it up.

Reads one JSON object per line, {"template": ..., "context": ...}, and prints one line each: {"text": ...} or
{"error": ...}. The expected texts of test/data/templates come from Jinja2 3.1.2 under Python 3.11.
"""

import datetime
import json
import sys

import jinja2
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = "2026-03-09T14:05:07"


class Generation(Extension):
    """The block that marks what the assistant writes. Rendering ignores it, but it has a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return jinja2.nodes.Scope(parser.parse_statements(["name:endgeneration"], drop_needle=True))


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.TemplateError(message)


def environment(now):
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = datetime.datetime.fromisoformat(now).strftime
    return made


def outcome(template, context):
    variables = {"documents": None, **context}
    try:
        text = environment(variables.pop("now", NOW)).from_string(template).render(**variables)
        text.encode("utf-8")  # fails on an unpaired surrogate
        return {"text": text}
    except Exception as error:  # a template can raise anything
        return {"error": f"{type(error).__name__}: {error}"}


for line in sys.stdin:
    case = json.loads(line)
    print(json.dumps(outcome(case["template"], case.get("context", {}))), flush=True)
