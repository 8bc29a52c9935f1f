"""Tools: which one to call and with which arguments, several calls in one turn, or no call; and the answer after the
result."""
import json

from .record import answer, call, record, result, sometimes, system, user
from .words import *


def define(r, name, description, /, **properties):
    schema = {"type": "object", "properties": {k: v if isinstance(v, dict) else {"type": v} for k, v in properties.items()},
              "required": list(properties)}
    if r.random() < 0.15:
        schema["additionalProperties"] = False
    return {"name": name, "description": description, "parameters": schema}


def get_weather(r):
    c, w, t = city(r), r.choice(WEATHER), r.randint(-10, 38)
    name, key = r.choice(["get_weather", "get_weather", "weather", "current_weather"]), r.choice(["city", "city", "location", "place"])
    tool = define(r, name, r.choice(["Get the current weather for a city.", "Current weather", "Look up the weather in a city"]), **{key: r.choice([{"type": "string"}, {"type": "string", "description": "Name of the city"}])})
    ask = r.choice([f"What's the weather in {c}?", f"What is the weather in {c}?", f"How is the weather in {c} today?", f"Is it raining in {c}?", f"Weather in {c} please", f"How warm is it in {c}?",
                    f"Do I need an umbrella in {c}?", f"Tell me the weather in {c}."])
    shown = r.choice([(json.dumps({"temperature": t, "condition": w}), f"It is {w} in {c}, {t} degrees."), (f"{t} degrees, {w}", f"It is {w} in {c}, {t} degrees."),
                      (json.dumps({"city": c, "temp_c": t, "sky": w}), f"It is {w} in {c}, {t} degrees.")])
    return tool, ask, {key: c}, *shown


def get_time(r):
    c, t = city(r), clock(r)
    tool = define(r, "get_time", "Get the current local time in a city.", city="string")
    return tool, r.choice([f"What time is it in {c}?", f"Current time in {c}?", f"Tell me the time in {c}."]), {"city": c}, *r.choice([(json.dumps({"time": t}), f"It is {t} in {c}."), (t, f"It is {t} in {c}.")])


def add_numbers(r):
    x, y = r.randint(2, 999), r.randint(2, 999)
    tool = define(r, "add_numbers", "Add two numbers.", a="integer", b="integer")
    return tool, r.choice([f"Add {x} and {y}.", f"What is {x} plus {y}? Use the tool.", f"What is the sum of {x} and {y}?"]), {"a": x, "b": y}, json.dumps({"sum": x + y}), f"The sum of {x} and {y} is {x + y}."


def calculate(r):
    x, y, op = r.randint(2, 99), r.randint(2, 99), r.choice("+-*")
    z = x + y if op == "+" else x - y if op == "-" else x * y
    tool = define(r, "calculate", "Evaluate an arithmetic expression.", expression="string")
    return tool, r.choice([f"Calculate {x} {op} {y}.", f"Compute {x} {op} {y} with the tool.", f"How much is {x} {op} {y}?"]), {"expression": f"{x} {op} {y}"}, json.dumps({"result": z}), f"{x} {op} {y} = {z}"


def search_products(r):
    i, p = r.choice(ITEMS), r.randint(5, 500)
    if r.random() < 0.5:
        i = f"{r.choice(COLORS)} {i}"
    tool = define(r, "search_products", "Search the product catalog.", query="string")
    return tool, r.choice([f"Find me {article(i)}.", f"Search for {article(i)}.", f"Do you sell {article(i)}?", f"I am looking for {article(i)}."]), {"query": i}, json.dumps({"name": i, "price": p}), f"I found {article(i)} for {p} euros."


def order_status(r):
    n, s, d = str(r.randint(1000, 99999)), r.choice(["in preparation", "on its way", "out for delivery", "delivered", "delayed"]), r.choice(DAYS)
    tool = define(r, "get_order_status", "Look up the status of an order.", order_id="string")
    return tool, r.choice([f"Where is my order {n}?", f"What is the status of order {n}?", f"Has order {n} been sent?"]), {"order_id": n}, json.dumps({"status": s, "expected": d}), f"Order {n} is {s}. It is expected on {d}."


def send_email(r):
    to = email(r, person(r))
    subject, body = r.choice(["Meeting", "Report", "Lunch", "Invoice", "Trip"]), r.choice([f"I will be there at {clock(r)}.", f"See you on {r.choice(DAYS)}.", f"Please call {person(r)}.", "Thank you for your help."])
    tool = define(r, "send_email", "Send an email.", to="string", subject="string", body="string")
    return tool, r.choice([f"Send an email to {to} with the subject {subject} and the text: {body}", f"Email {to}, subject {subject}: {body}"]), {"to": to, "subject": subject, "body": body}, json.dumps({"sent": True}), f"I have sent the email to {to}."


def set_reminder(r):
    t, what = clock(r), r.choice([f"call {person(r)}", "water the plants", f"buy {r.choice(FOODS)}", "pay the rent", f"meet {person(r)}"])
    tool = define(r, "set_reminder", "Set a reminder.", text="string", time="string")
    return tool, r.choice([f"Remind me to {what} at {t}.", f"Set a reminder at {t}: {what}."]), {"text": what, "time": t}, json.dumps({"ok": True}), f"I will remind you to {what} at {t}."


def book_table(r):
    place, k, day, t, number = made_up(r), r.randint(2, 10), r.choice(DAYS), clock(r), code(r)
    tool = define(r, "book_table", "Book a table at a restaurant.", restaurant="string", people="integer", day="string", time="string")
    return tool, r.choice([f"Book a table for {k} at {place} on {day} at {t}.", f"I need a table for {k} people at {place}, {day} {t}."]), {"restaurant": place, "people": k, "day": day, "time": t}, \
        json.dumps({"confirmed": True, "code": number}), f"Your table for {k} at {place} is booked for {day} at {t}. The code is {number}."


def translate(r):
    text, language = r.choice(["good morning", "thank you", "good night", "see you soon", "water", "where is the station"]), r.choice(LANGUAGES)
    out = made_up(r).lower()
    tool = define(r, "translate", "Translate a text.", text="string", target_language="string")
    return tool, r.choice([f"Translate '{text}' to {language}.", f"How do you say '{text}' in {language}?"]), {"text": text, "target_language": language}, json.dumps({"translation": out}), f"In {language} it is \"{out}\"."


def read_file(r):
    path = made_up(r).lower() + r.choice([".txt", ".md", ".py", ".json", ".csv"])
    inside = r.choice([f"The total is {r.randint(10, 999)}.", f"Meeting with {person(r)} on {r.choice(DAYS)}.", f"Buy {r.choice(FOODS)}.", f"The key is {code(r)}."])
    tool = define(r, "read_file", "Read a file.", path="string")
    return tool, r.choice([f"Read {path}.", f"What is in {path}?", f"Open the file {path}."]), {"path": path}, inside, f"The file {path} says: {inside}"


def convert(r):
    k, x, y, rate = r.randint(2, 900), *r.sample(["EUR", "USD", "GBP", "JPY", "CHF"], 2), r.randint(2, 2000)
    tool = define(r, "convert_currency", "Convert an amount between currencies.", amount="number", **{"from": "string", "to": "string"})
    return tool, r.choice([f"Convert {k} {x} to {y}.", f"How much is {k} {x} in {y}?"]), {"amount": k, "from": x, "to": y}, json.dumps({"amount": rate}), f"{k} {x} is {rate} {y}."


def look_up(r):
    """A tool that does not occur elsewhere, so its name and argument are only in the prompt."""
    noun = made_up(r).lower()
    value, found = r.choice([made_up(r), code(r)]), r.choice([made_up(r), str(r.randint(1, 999))])
    name, key = r.choice([f"get_{noun}", f"find_{noun}", f"{noun}_lookup"]), r.choice(["id", "name", "key", "value", made_up(r, 1).lower()])
    tool = define(r, name, r.choice([f"Get the {noun} of something.", f"Find {noun}", f"Look up {article(noun)}."]), **{key: "string"})
    return tool, r.choice([f"What is the {noun} of {value}?", f"Find the {noun} for {value}.", f"Look up the {noun} of {value}."]), {key: value}, json.dumps({noun: found}), f"The {noun} of {value} is {found}."


ABILITIES = [get_weather, get_weather, get_time, add_numbers, calculate, search_products, order_status, send_email, set_reminder, book_table, translate, read_file, convert, look_up, look_up]
SYSTEM = ["You are a helpful assistant with tools.", "Use a tool only if it is needed.", "You can call functions.", "You are a helpful assistant.", "Answer the user."]


def offered(r, *tools):
    """A request's tools: those it needs and up to three others."""
    found = list(tools)
    for make in r.sample(ABILITIES, r.choice([0, 0, 1, 1, 2, 3])):
        other = make(r)[0]
        if all(other["name"] != t["name"] and other["description"] != t["description"] for t in found) and not _alike(other, found):
            found.append(other)
    r.shuffle(found)
    return found


def _alike(tool, others):
    kinds = [{"get_weather", "weather", "current_weather"}, {"add_numbers", "calculate"}]
    return any(tool["name"] in kind and other["name"] in kind for kind in kinds for other in others)


def tool_call(r):
    tool, ask, arguments, _, _ = r.choice(ABILITIES)(r)
    think = f"I call {tool['name']} with {', '.join(f'{k} {v}' for k, v in arguments.items()).rstrip('.')}."
    return record("tool", sometimes(r, 0.2, system(r.choice(SYSTEM))), user(ask), call((tool["name"], arguments), think=think), tools=offered(r, tool), check="calls")


def tool_answer(r):
    tool, ask, arguments, shown, reply = r.choice(ABILITIES)(r)
    name = tool["name"]
    if r.random() < 0.08:
        shown, reply = json.dumps({"error": "not available"}), "The tool is not available right now. Please try again later."
    messages = [sometimes(r, 0.2, system(r.choice(SYSTEM))), user(ask), call((name, arguments)), result(name, shown), answer(reply, "The tool gave the result.")]
    return record("tool_answer", *messages, tools=offered(r, tool), check="exact")


def parallel(r):
    """Two calls in one turn, with or without their results."""
    if r.random() < 0.5:
        make = r.choice([get_weather, get_time, order_status, read_file])
        one = make(r)
        tool = one[0]
        for _ in range(20):
            two = make(r)
            if two[0]["name"] == tool["name"] and list(two[2]) == list(one[2]) and two[2] != one[2]:
                break
        else:
            return tool_call(r)
        v1, v2 = next(iter(one[2].values())), next(iter(two[2].values()))
        ask = {"get_time": f"What time is it in {v1} and {v2}?", "get_order_status": f"What is the status of orders {v1} and {v2}?", "read_file": f"Read {v1} and {v2}."}.get(tool["name"], f"What is the weather in {v1} and {v2}?")
        tools = offered(r, tool)
    else:
        one, two = (make(r) for make in r.sample(ABILITIES, 2))
        if one[0]["name"] == two[0]["name"] or _alike(one[0], [two[0]]):
            return tool_call(r)
        ask = f"{one[1]} {r.choice(['', 'Also: ', 'And: ', 'Then: '])}{two[1]}"
        tools = offered(r, one[0], two[0])
    calls = [(one[0]["name"], one[2]), (two[0]["name"], two[2])]
    think = f"I need {calls[0][0]} and {calls[1][0]}." if calls[0][0] != calls[1][0] else f"I need {calls[0][0]} twice."
    if r.random() < 0.6:
        return record("tool", user(ask), call(*calls, think=think), tools=tools, check="calls")
    return record("tool_answer", user(ask), call(*calls), result(calls[0][0], one[3]), result(calls[1][0], two[3]), answer(f"{one[4]} {two[4]}", "The tools gave the results."), tools=tools, check="exact")


CANNOT = "None of my tools can do that."


def no_tool(r):
    """Tools are available, but none fits, or none is needed."""
    others = offered(r, r.choice(ABILITIES)(r)[0])[:3]
    if r.random() < 0.5:
        for _ in range(20):
            tool, ask, *_ = r.choice(ABILITIES)(r)
            if all(tool["name"] != t["name"] for t in others) and not _alike(tool, others):
                return record("tool", user(ask), answer(CANNOT, "No tool fits this."), tools=others, check="exact")
    ask, reply = r.choice([("Hello!", "Hello! How can I help you?"), ("Thank you!", "You are welcome!"), ("Good morning", "Good morning! How can I help you?"), ("Thanks, that is all.", "You are welcome!")])
    return record("tool", user(ask), answer(reply, "No tool is needed."), tools=others, check="exact")


def conversation(r):
    """A call, its answer, and another question."""
    one, two = (r.choice(ABILITIES)(r) for _ in range(2))
    if one[0]["name"] == two[0]["name"] and one[0] != two[0] or _alike(one[0], [two[0]]) and one[0]["name"] != two[0]["name"]:
        return tool_answer(r)
    tools = offered(r, one[0], two[0]) if one[0]["name"] != two[0]["name"] else offered(r, one[0])
    start = [user(one[1]), call((one[0]["name"], one[2])), result(one[0]["name"], one[3]), answer(one[4])]
    return record("tool", *start, user(two[1]), call((two[0]["name"], two[2]), think=f"I call {two[0]['name']}."), tools=tools, check="calls")


MAKERS = [(tool_call, 13), (tool_answer, 8), (parallel, 9), (no_tool, 8), (conversation, 1.5)]
