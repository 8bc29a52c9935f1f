"""Talk: greetings, questions about the model, memory across turns, facts, formats, summaries, stories, and system
prompts that must be followed."""
import json

from .labels import BAD, GOOD
from .record import answer, record, sometimes, system, user
from .words import *

TIERS = {"hal-1.0": "complex reasoning, agents and code", "clarke-1.0": "retrieval, copilots and structured outputs", "tycho-1.0": "classification, extraction, summaries and routing"}
FACTS = {
    "the capital of France": "Paris", "the capital of Japan": "Tokyo", "the capital of Italy": "Rome", "the capital of Egypt": "Cairo", "the capital of Spain": "Madrid", "the capital of Peru": "Lima",
    "the capital of Germany": "Berlin", "the capital of Norway": "Oslo", "the capital of Portugal": "Lisbon", "the capital of Kenya": "Nairobi", "the capital of Greece": "Athens", "the capital of Austria": "Vienna",
    "the capital of Ireland": "Dublin", "the capital of Poland": "Warsaw", "the capital of England": "London", "the largest planet": "Jupiter", "the red planet": "Mars", "the closest star to Earth": "the Sun",
    "the chemical symbol for water": "H2O", "the number of days in a week": "seven", "the number of months in a year": "twelve", "the number of hours in a day": "24", "the color of a ripe banana": "yellow",
    "the color of the sky": "blue", "the color of grass": "green", "the opposite of hot": "cold", "the opposite of big": "small", "the opposite of fast": "slow", "the opposite of day": "night",
    "the freezing point of water in Celsius": "0 degrees", "the first month of the year": "January", "the last month of the year": "December", "the day after Monday": "Tuesday",
    "the number of sides of a triangle": "three", "the number of legs of a spider": "eight", "the number of legs of a dog": "four", "the largest ocean": "the Pacific Ocean",
    "the highest mountain": "Mount Everest", "the animal that gives us milk": "the cow", "the plural of mouse": "mice", "the past tense of go": "went",
}


def greet(r):
    hi = r.choice(["Hello", "Hi", "Hey", "Good morning", "Good evening", "Hi there", "hello", "hi"])
    name = sometimes(r, 0.35, person(r))
    text = hi + (r.choice([f"! My name is {name}.", f", I am {name}.", f", this is {name}."]) if name else r.choice(["!", ".", "", ", how are you?"]))
    reply = f"Hello, {name}! How can I help you today?" if name else "I am well, thank you. How can I help you?" if "how are" in text else "Hello! How can I help you today?"
    return record("dialogue", user(text), answer(reply, "The user says hello."))


def thanks(r):
    text, reply = r.choice([("Thank you!", "You are welcome!"), ("Thanks.", "You are welcome!"), ("Thanks a lot, bye", "You are welcome. Goodbye!"), ("Goodbye", "Goodbye! Have a nice day."), ("ok", "Is there anything else I can do?")])
    return record("dialogue", user(text), answer(reply, "A short reply is enough."))


def memory(r):
    """A statement in the first turn that is asked for later, with other turns in between."""
    n, c, o, job, pet, f = person(r), city(r), r.choice(COLORS), r.choice(JOBS), r.choice(ANIMALS), r.choice(FOODS)
    petname, k = made_up(r), r.randint(3, 90)
    known = {"name": (r.choice([f"My name is {n}.", f"I am {n}.", f"Call me {n}."]), ["What is my name?", "What's my name?", "Do you remember my name?"], f"Your name is {n}."),
             "city": (r.choice([f"I live in {c}.", f"My home is in {c}."]), ["Where do I live?", "In which city do I live?"], f"You live in {c}."),
             "color": (f"My favorite color is {o}.", ["What is my favorite color?", "Which color do I like?"], f"Your favorite color is {o}."),
             "job": (f"I work as {article(job)}.", ["What is my job?", "What do I work as?"], f"You work as {article(job)}."),
             "pet": (f"My {pet} is called {petname}.", [f"What is my {pet} called?", f"What is the name of my {pet}?"], f"Your {pet} is called {petname}."),
             "food": (f"I like {f}.", ["What do I like?", "Which food do I like?"], f"You like {f}."),
             "age": (f"I am {k} years old.", ["How old am I?", "What is my age?"], f"You are {k} years old.")}
    topics = r.sample(list(known), r.choice([1, 1, 2, 2, 3]))
    if "name" not in topics and r.random() < 0.5:
        topics[0] = "name"
    messages = [user(" ".join(known[t][0] for t in topics)), answer(f"Nice to meet you, {n}!" if "name" in topics else r.choice(["Thank you for telling me.", "Good to know!"]))]
    for _ in range(r.choice([0, 0, 1, 1, 2])):
        messages += small_talk(r)
    asked = r.sample(topics, r.choice([1, 1, len(topics)]))
    for topic in asked[:-1]:
        messages += [user(r.choice(known[topic][1])), answer(known[topic][2])]
    _, questions, reply = known[asked[-1]]
    check = "exact"
    if r.random() < 0.1:
        other = r.choice([t for t in known if t not in topics and t != "pet"] or ["name"])
        if other not in topics:
            _, questions, reply = known[other]
            reply = "You did not tell me."
    return record("memory", *messages, user(r.choice(questions)), answer(reply, f"The user said it before: {reply}" if not reply.startswith("You did not") else "The user did not say it."), check=check)


def small_talk(r):
    k = r.choice(list(FACTS))
    x, y = r.randint(1, 9), r.randint(1, 9)
    text, reply = r.choice([("How are you?", "I am well, thank you."), ("Tell me something nice.", "You are doing great!"), (f"What is {k}?", f"{k[0].upper() + k[1:]} is {FACTS[k]}."),
                            (f"What is {x} + {y}?", f"{x} + {y} = {x + y}"), ("Thank you!", "You are welcome!")])
    return [user(text), answer(reply)]


def fact(r):
    k = r.choice(list(FACTS))
    return record("fact", user(r.choice([f"What is {k}?", f"Tell me {k}.", f"Question: what is {k}?", f"Do you know {k}?"])), answer(f"{k[0].upper() + k[1:]} is {FACTS[k]}.", f"{k[0].upper() + k[1:]}: {FACTS[k]}."), check="exact")


def identity(model):
    def make(r):
        name = r.choice(list(TIERS)) if r.random() < 0.3 else model
        who = system(f"You are {name}.") if name != model else sometimes(r, 0.2, system("You are a helpful assistant."))
        ask, reply = r.choice([("Who are you?", f"I am {name}, a small language model."), ("What are you?", f"I am {name}, a small language model."), ("Which model is this?", f"This is {name}."),
                               ("What can you do?", f"I am {name}. I am made for {TIERS[name]}."), ("What is your name?", f"I am {name}.")])
        return record("dialogue", who, user(r.choice(["", "", "", "Hello! ", "Hi, "]) + ask), answer(reply, f"I am {name}."), check="exact")
    return make


def persona(r):
    """A system prompt that determines the answer."""
    n, brand, k = made_up(r), made_up(r), r.choice(list(FACTS))
    style = r.randrange(5)
    if style == 0:
        return record("system", system(f"You are {n}, the assistant of {brand}."), user(r.choice(["Who are you?", "What is your name?", "Hello, who is this?"])), answer(f"I am {n}, the assistant of {brand}.", f"I am {n}."), check="exact")
    if style == 1:
        return record("system", system("Answer in capital letters."), user(f"What is {k}?"), answer(FACTS[k].upper(), "The answer in capital letters."), check="exact")
    if style == 2:
        word = r.choice(["Ahoy!", "Beep!", "Sure:", "Dear friend,", n + "!"])
        return record("system", system(r.choice([f"Begin every answer with \"{word}\"", f"Always start with \"{word}\""])), user(f"What is {k}?"), answer(f"{word} {k[0].upper() + k[1:]} is {FACTS[k]}.", f"I begin with {word}"), check="exact")
    if style == 3:
        return record("system", system(r.choice(["Answer with one word.", "Be very brief.", "Give only the answer."])), user(f"What is {k}?"), answer(FACTS[k], "Only the answer."), check="exact")
    return record("system", system(f"You only talk about {r.choice(['cooking', 'music', 'travel', 'gardens'])}. Otherwise say: I cannot help with that."), user(r.choice([f"What is {k}?", "How do I fix my computer?", "Who won the election?"])),
                  answer("I cannot help with that.", "This is not my topic."), check="exact")


def formats(r):
    words = r.sample(ITEMS + FOODS + ANIMALS, r.randint(2, 5))
    style = r.randrange(8)
    if style == 0:
        ask, reply = r.choice([f"List these as bullets: {', '.join(words)}", f"Make a bullet list: {', '.join(words)}", f"Turn into bullet points: {listed(words)}"]), "\n".join("- " + w for w in words)
    elif style == 1:
        ask, reply = r.choice([f"Number these: {', '.join(words)}", f"Make a numbered list: {', '.join(words)}"]), "\n".join(f"{i}. {w}" for i, w in enumerate(words, 1))
    elif style == 2:
        ask, reply = f"Return these words as a JSON array: {', '.join(words)}", json.dumps(words)
    elif style == 3:
        ask, reply = f"Reverse this list: {', '.join(words)}", ", ".join(reversed(words))
    elif style == 4:
        ask, reply = f"Write in capital letters: {' '.join(words)}", " ".join(words).upper()
    elif style == 5:
        text = r.choice([made_up(r), " ".join(words), f"{person(r)} lives in {city(r)}."])
        ask, reply = r.choice([f"Repeat after me: {text}", f"Say exactly: {text}", f"Repeat: {text}"]), text
    elif style == 6:
        ask, reply = f"Which is the first word: {', '.join(words)}?", words[0]
    else:
        ask, reply = f"Which is the last word: {', '.join(words)}?", words[-1]
    return record("format", user(ask), answer(reply, "I use the words of the user."), check="exact")


def summarize(r):
    n, c, i = person(r), city(r), r.choice(ITEMS)
    if r.random() < 0.5:
        why = r.choice(GOOD + BAD)
        text = r.choice([f"{n} wrote to us from {c}. {n} bought a {r.choice(COLORS)} {i} last {r.choice(MONTHS)}. According to {n}, the {i} {why}. {n} asks for a reply by email.",
                         f"On {r.choice(DAYS)} we got a letter from {n}, who lives in {c}. Last {r.choice(MONTHS)} {n} ordered a {i} from our shop. The {i} {why}. Please answer soon."])
        reply = f"{n} from {c} says the {i} {why}."
    else:
        day, t, what = r.choice(DAYS), clock(r), r.choice(["meeting", "workshop", "dinner", "lecture"])
        text = r.choice([f"Dear all, thank you for your work last week. The next {what} with {n} is on {day} at {t}. We meet in {c}. Please bring your notes. Coffee will be served.",
                         f"Hello! I hope you are well. {n} asked me to tell you about the {what}. It is on {day} at {t} in {c}. The room is on the second floor. See you there!"])
        reply = f"The {what} with {n} is on {day} at {t} in {c}."
    prompt = r.choice(["Summarize in one sentence:", "Give a one sentence summary.", "TL;DR:", "Summarize:", "Summarize this text in one sentence.", "What is this about? One sentence."])
    message = [user(f"{prompt}\n\n{text}")] if r.random() < 0.7 else [system(prompt), user(text)]
    return record("summary", *message, answer(reply, f"The text is about {n} and the {i if i in reply else what}."), check="exact")


def story(r):
    n, n2 = people(r, 2)
    i, c, o, animal = r.choice(ITEMS), city(r), r.choice(COLORS), r.choice(ANIMALS)
    if r.random() < 0.5:
        text = (f"One day in {c}, {n} found {article(o)} {i}. {r.choice(['It was small and shiny.', 'It was old but strong.', 'Nobody knew where it came from.'])} "
                f"{n} showed it to {n2}. \"{r.choice(['Look what I found!', 'Is this yours?', 'Can you help me?'])}\" said {n}. "
                f"{n2} {r.choice(['smiled and said it was lovely', 'thought about it for a while', 'laughed and clapped'])}. "
                f"{r.choice(['They kept it together and became good friends.', 'They gave it back to its owner and felt happy.', 'From that day they shared everything.'])}")
        ask = r.choice([f"Tell me a story about {n} and {article(i)}.", f"Write a short story about {article(o)} {i}.", f"A story about {n} and {n2}, please."])
    else:
        text = (f"Once upon a time there was a little {animal} called {n}. {n} lived {r.choice(['in the green forest', 'near a quiet pond', 'under an old tree', 'behind a hill'])}. "
                f"One morning {n} {r.choice(['heard a strange noise', 'lost the way home', 'met ' + article(r.choice(ANIMALS)), 'saw ' + article(o) + ' bird'])}. "
                f"\"{r.choice(['Who is there?', 'What shall I do?', 'Will you be my friend?'])}\" asked the {animal}. "
                f"{n2} came and said, \"{r.choice(['Do not be afraid.', 'Come with me.', 'I will help you.'])}\" "
                f"{r.choice(['So they walked home together, and the sun was warm.', 'They played until the evening and were happy.', 'And from then on they were friends.'])}")
        ask = r.choice([f"Tell me a story about {article(animal)} called {n}.", f"Write a story about {article(animal)}.", f"Tell me a short story about {n} the {animal}."])
    return record("story", user(ask), answer(text, "I tell a short story."))


def makers(model):
    return [(greet, 2), (thanks, 0.5), (memory, 5), (fact, 2), (identity(model), 3), (persona, 7), (formats, 14), (summarize, 3), (story, 3)]
