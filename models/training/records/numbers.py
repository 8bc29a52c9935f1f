"""Arithmetic with and without thinking, counting, and small pieces of code."""
from .record import answer, record, user
from .words import *


def add_steps(x, y):
    """The steps of an addition, digit by digit from the right."""
    steps, carry = [], 0
    for place in range(max(len(str(x)), len(str(y)))):
        a, b = x // 10 ** place % 10, y // 10 ** place % 10
        total = a + b + carry
        steps.append(f"{a} + {b}{' + 1' if carry else ''} = {total}")
        carry = total // 10
    return ". ".join(steps) + f". So {x + y}."


def subtract_steps(x, y):
    if x < y:
        return f"{y} is greater. {subtract_steps(y, x)[:-1]}, negative."
    steps, borrow = [], 0
    for place in range(len(str(x))):
        a, b = x // 10 ** place % 10, y // 10 ** place % 10
        left = a - b - borrow
        steps.append(f"{a + 10 if left < 0 else a} - {b}{' - 1' if borrow else ''} = {left % 10}")
        borrow = int(left < 0)
    return ". ".join(steps) + f". So {x - y}."


def arithmetic(r):
    op = r.choice("+++---x")
    if op == "x":
        x, y = r.randint(2, 10), r.randint(2, 10)
        z, steps = x * y, f"{x} x {y} = {x * y}. So {x * y}."
    else:
        x, y = (r.randint(1, 99), r.randint(1, 99)) if r.random() < 0.75 else (r.randint(1, 20), r.randint(1, 20))
        if op == "-" and x < y and r.random() < 0.8:
            x, y = y, x
        z, steps = (x + y, f"{x} + {y}: {add_steps(x, y)}") if op == "+" else (x - y, f"{x} - {y}: {subtract_steps(x, y)}")
    spoken = {"+": "plus", "-": "minus", "x": "times"}[op]
    sign = {"x": r.choice(["x", "*"])}.get(op, op)
    ask = r.choice([f"What is {x} {sign} {y}?", f"What is {x} {sign} {y}?", f"{x} {sign} {y} = ?", f"Compute {x} {sign} {y}.", f"What is {x} {spoken} {y}?", f"{x} {sign} {y}", f"How much is {x} {spoken} {y}?", f"Calculate {x} {sign} {y}."])
    return record("math", user(ask), answer(f"{x} {sign} {y} = {z}", steps), check="number")


def drill(r):
    """The single-digit sums, with carries, that the steps consist of: many of them in one record."""
    lines = []
    for _ in range(r.randint(4, 10)):
        a, b, c = r.randint(0, 9), r.randint(0, 9), r.choice([0, 0, 1])
        if r.random() < 0.55:
            lines.append((f"{a} + {b}{' + 1' if c else ''}", a + b + c))
        elif r.random() < 0.75:
            lines.append((f"{a + 10 if a < b + c else a} - {b}{' - 1' if c else ''}", (a - b - c) % 10))
        else:
            a, b = r.randint(2, 10), r.randint(2, 10)
            lines.append((f"{a} x {b}", a * b))
    return record("math", user("Solve: " + ", ".join(left for left, _ in lines)), answer(". ".join(f"{left} = {value}" for left, value in lines) + "."))


def story_problem(r):
    n, i, x, y = person(r), r.choice(ITEMS) + "s", r.randint(2, 60), r.randint(2, 40)
    if r.random() < 0.5:
        ask = r.choice([f"{n} has {x} {i} and buys {y} more. How many {i} does {n} have now?", f"{n} has {x} {i}. {person(r)} gives {n} {y} more. How many {i} does {n} have?"])
        z, steps = x + y, f"{x} + {y}: {add_steps(x, y)}"
    else:
        x, y = max(x, y) + 1, min(x, y)
        ask = r.choice([f"{n} has {x} {i} and loses {y}. How many are left?", f"There are {x} {i}. {n} takes {y} away. How many {i} are left?"])
        z, steps = x - y, f"{x} - {y}: {subtract_steps(x, y)}"
    return record("math", user(ask), answer(f"The answer is {z}.", steps), check="number")


def compare(r):
    x, y = r.sample(range(1, 500), 2)
    larger = r.random() < 0.5
    z = max(x, y) if larger else min(x, y)
    word = r.choice(["larger", "greater", "bigger"]) if larger else "smaller"
    return record("math", user(f"Which number is {word}, {x} or {y}?"), answer(str(z), f"{max(x, y)} > {min(x, y)}."), check="number")


def count(r):
    n = r.randint(3, 12)
    return record("instruct", user(r.choice([f"Count from 1 to {n}.", f"Count to {n}."])), answer(" ".join(map(str, range(1, n + 1))), f"1 to {n}."), check="exact")


OPERATIONS = [("add", "+", "adds", "sum"), ("subtract", "-", "subtracts", "difference"), ("multiply", "*", "multiplies", "product"), ("divide", "/", "divides", "quotient")]


def code_writing(r):
    language = r.choice(["Python", "JavaScript"])
    python = language == "Python"
    if r.random() < 0.5:
        name, op, verb, noun = r.choice(OPERATIONS)
        a, b = r.choice([("a", "b"), ("x", "y")])
        ask = r.choice([f"Write a {language} function that {verb} two numbers.", f"{language} function {name}({a}, {b}) that returns the {noun}.", f"Write {name} in {language}."])
        if f"({a}, {b})" not in ask:   # one answer per question
            a, b = "a", "b"
        head, body = f"{name}({a}, {b})", f"return {a} {op} {b}"
    else:
        python_body, js_body, name, does = r.choice([
            ("return n % 2 == 0", "return n % 2 === 0;", "is_even", "checks whether a number is even"), ("return text[::-1]", "return [...text].reverse().join('');", "reverse", "reverses a text"),
            ("return max(items)", "return Math.max(...items);", "largest", "returns the largest item of a list"), ("return sum(items)", "return items.reduce((a, b) => a + b, 0);", "total", "adds all items of a list"),
            ("return n * n", "return n * n;", "square", "squares a number"), ("return len(text)", "return text.length;", "length", "returns the length of a text"),
            ("return text.upper()", "return text.toUpperCase();", "upper", "turns a text into capital letters"), ("return sorted(items)", "return [...items].sort((a, b) => a - b);", "ordered", "sorts a list of numbers")])
        argument = "n" if "n " in python_body or python_body.endswith(" n") else "text" if "text" in python_body else "items"
        ask, head, body = f"Write a {language} function that {does}.", f"{name}({argument})", python_body if python else js_body.rstrip(";")
    text = f"```python\ndef {head}:\n    {body}\n```" if python else f"```javascript\nfunction {head} {{\n  {body};\n}}\n```"
    return record("code", user(ask), answer(text, f"A short {language} function."), check="exact")


def print_code(r):
    language, word, n = r.choice(["Python", "JavaScript"]), r.choice(["hello", "Hello, world!", made_up(r), person(r)]), r.randint(2, 20)
    if r.random() < 0.5:
        ask, text = f"Print {word} in {language}.", f'print("{word}")' if language == "Python" else f'console.log("{word}");'
    else:
        ask = f"Write a {language} loop that prints the numbers from 1 to {n}."
        text = f"for i in range(1, {n + 1}):\n    print(i)" if language == "Python" else f"for (let i = 1; i <= {n}; i++) {{\n  console.log(i);\n}}"
    return record("code", user(ask), answer(f"```{language.lower()}\n{text}\n```", f"A short {language} program."), check="exact")


MAKERS = [(arithmetic, 24), (drill, 8), (story_problem, 4), (compare, 2), (count, 0.5), (code_writing, 2), (print_code, 1.5)]
