"""Classification, routing, extraction, and questions about a given context."""
import json

from .record import answer, record, system, user
from .words import *

GOOD = ["arrived early and works perfectly", "is better than I expected", "looks great on my desk", "was worth every cent", "is easy to set up", "made my whole week",
        "is exactly what I wanted", "feels solid and well made", "is quiet and fast", "has been a joy to use", "came well packed", "is the best I have owned",
        "saves me a lot of time", "still looks like new", "is a pleasure to use"]
BAD = ["broke after two days", "arrived late and scratched", "is far too loud", "does not turn on", "feels cheap", "was missing a part", "stopped working within a week",
       "is a waste of money", "is the worst I have owned", "fell apart at once", "smells awful", "is much smaller than promised", "never worked at all",
       "was a big disappointment", "gets far too hot"]
FEEL_GOOD = ["I love it.", "Very happy with it.", "Highly recommended!", "Great service too.", "I would buy it again.", "Five stars.", "What a lovely surprise.", "Fantastic!"]
FEEL_BAD = ["I want my money back.", "Very unhappy.", "Do not buy it!", "Terrible service too.", "Never again.", "One star.", "What a letdown.", "Awful!"]
QUEUES = {
    "billing": ["I was charged twice for order {n}", "my invoice {n} shows the wrong amount", "please refund payment {n}", "the card on my account expired and the payment failed",
                "why did the price of my plan go up", "I need an invoice with our company name", "a fee of {n} cents appeared on my bill", "the discount was not taken off my bill",
                "I paid but the payment is not shown", "when will I get my refund"],
    "shipping": ["order {n} has not arrived", "the tracking page for {n} is stuck", "my parcel went to {c} by mistake", "can I change the delivery address of {n}",
                 "the courier left the box in the rain", "how long does delivery to {c} take", "my package is late", "one of two parcels is missing", "the delivery to {c} was cancelled",
                 "do you deliver to {c}"],
    "technical": ["the app crashes when I open settings", "I get error {n} when I save", "the {i} will not connect to wifi", "the page stays blank after the update",
                  "the {i} keeps restarting", "the screen of my {i} flickers", "the website is very slow", "the {i} makes no sound any more", "the update of the {i} failed", "a bug deletes my files"],
    "account": ["I forgot my password", "please change my email address", "how do I close my account", "I cannot verify my phone number", "I want to change my user name",
                "someone else logged in to my profile", "my login is locked", "please delete my profile and my data", "how do I turn on two-step login", "I cannot sign in any more"],
    "sales": ["do you have the {i} in {o}", "how much is the {i} for ten people", "is the {i} in stock", "which plan is best for a small team", "can I get a quote for {n} users",
              "is there a discount for schools", "I would like to see a demo", "when will the {i} be back in stock"],
    "returns": ["I want to send back my {i}", "the {i} does not fit, how do I return it", "please send me a return label", "can I exchange the {i} for {o}", "how many days do I have to return the {i}",
                "I returned the {i} and heard nothing"],
}
INTENTS = {
    "set_alarm": ["wake me at {t}", "set an alarm for {t}", "I need to get up at {t}"],
    "play_music": ["play some jazz", "put on a song by {p}", "I want to hear music"],
    "get_weather": ["will it rain in {c}", "what is the weather in {c}", "is it cold in {c} today"],
    "book_flight": ["I need a flight to {c}", "book me a plane ticket to {c}", "fly me from {c} to {c2}"],
    "order_food": ["I would like to order {f}", "get me {f} for dinner", "I am hungry, order {f}"],
    "send_message": ["text {p} that I am late", "tell {p} I will call back", "send a message to {p}"],
    "cancel_order": ["cancel my order {n}", "I do not want order {n} any more", "please stop order {n}"],
    "check_balance": ["how much money do I have", "what is my balance", "show my account balance"],
    "translate": ["how do you say hello in {l}", "translate this into {l}", "what is water in {l}"],
    "turn_on_light": ["switch on the lamp in the kitchen", "it is dark, lights on", "turn on the light"],
    "find_restaurant": ["where can I eat {f} in {c}", "find a restaurant in {c}", "a good place for dinner in {c}"],
    "greeting": ["hello there", "good morning", "hi, how are you"],
}
TOPICS = {
    "sports": ["The team from {c} won the match by {d} goals.", "{p} ran the race in {d} minutes.", "The coach chose {p} as captain before the final game."],
    "weather": ["Heavy rain is expected in {c} on {day}.", "Snow closed the roads around {c}.", "It will be sunny and {d} degrees in {c}."],
    "business": ["Shares of the company fell by {d} percent.", "The firm from {c} opens {d} new shops.", "{p} sold the bank for a high price."],
    "science": ["Researchers in {c} found a new star.", "{p} studied how cells grow.", "A probe sent pictures of a distant planet."],
    "food": ["{p} shared a recipe for {f} and {f2}.", "The new restaurant in {c} serves {f}.", "Add the {f} and cook for {d} minutes."],
    "travel": ["{p} took a train to {c} and stayed in a small hotel.", "Flights to {c} are cheap in {m}.", "Visit the old town of {c} in {m}."],
    "music": ["{p} plays the piano in {c}.", "The band sang {d} songs on {day}.", "The new album has {d} songs."],
    "health": ["The doctor told {p} to sleep more.", "Walking {d} minutes a day is good for the heart.", "The clinic in {c} offers the vaccine."],
}


def fill(r, template):
    c = cities(r, 2)
    f = r.sample(FOODS, 2)
    values = dict(n=r.randint(100, 9999), c=c[0], c2=c[1], i=r.choice(ITEMS), o=r.choice(COLORS), t=clock(r), p=person(r), f=f[0], f2=f[1], l=r.choice(LANGUAGES),
                  d=r.randint(2, 40), day=r.choice(DAYS), m=r.choice(MONTHS))
    return template.format(**values)


def capital(text):
    return text[0].upper() + text[1:]


def sentiment(r):
    good = r.random() < 0.5
    item, subject = r.choice(ITEMS), r.choice(["The {c} {i}", "This {i}", "My new {i}", "The {i} I ordered", "The {i}"])
    text = f"{subject.format(c=r.choice(COLORS), i=item)} {r.choice(GOOD if good else BAD)}."
    if r.random() < 0.4:
        text += f" It {r.choice(GOOD if good else BAD)}."
    if r.random() < 0.4:
        text += " " + r.choice(FEEL_GOOD if good else FEEL_BAD)
    label = "positive" if good else "negative"
    think = f"The review {'praises' if good else 'complains about'} the {item}: {label}."
    if r.random() < 0.2:
        prompt = r.choice(['Is the sentiment positive or negative? Answer in JSON as {"sentiment": ...}.', 'Return {"sentiment": "positive"} or {"sentiment": "negative"} for this review.'])
        reply, check = json.dumps({"sentiment": label}), "json"
    else:
        prompt = r.choice(["Classify the sentiment of this review as positive or negative.", "Is this review positive or negative? Answer with one word.", "Sentiment?",
                           "Positive or negative?", "Classify the sentiment: positive or negative.", "What is the sentiment of this text? Answer positive or negative.",
                           "Label the review with positive or negative."])
        reply, check = label, "label"
    return with_prompt(r, "classify", prompt, text, reply, think, check)


def with_prompt(r, kind, prompt, text, reply, think, check):
    """The task is in the system message, before the text, or after it."""
    place = r.random()
    if place < 0.35:
        return record(kind, system(prompt), user(text), answer(reply, think), check=check)
    if place < 0.85:
        joined = prompt + r.choice(["\n\n", "\n", " "]) + r.choice(["", "", "Text: ", "Message: "]) + text
    else:
        joined = text + "\n\n" + prompt
    return record(kind, user(joined), answer(reply, think), check=check)


def choose(r, pool, kind, noun):
    """One of several labels given in the prompt."""
    label = r.choice(list(pool))
    others = r.sample([x for x in pool if x != label], r.randint(1, min(5, len(pool) - 1)))
    names = others + [label]
    r.shuffle(names)
    return label, names


def route(r):
    queue, names = choose(r, QUEUES, "route", "queue")
    text = fill(r, r.choice(QUEUES[queue]))
    text = r.choice(["Hello, ", "Hi, ", "", "", "Please help: ", "Good morning, "]) + text
    text = capital(text) + r.choice([".", "!", ". Thanks.", "", ". Please help.", f". {person(r)}"])
    if r.random() < 0.35:
        key = r.choice(["queue", "team", "label"])
        prompt = r.choice([f'Route the ticket to one of: {", ".join(names)}. Answer in JSON as {{"{key}": ...}}.', f'Which {key} fits: {listed(names, "or")}? Return {{"{key}": "..."}}.'])
        reply, check = json.dumps({key: queue}), "json"
    else:
        prompt = r.choice([f"Route this ticket to one queue: {listed(names, 'or')}.", f"Which team should handle this message: {listed(names, 'or')}?",
                           f"Choose one queue from {', '.join(names)}. Answer with the queue only.", "Route the message. Queues:\n" + "\n".join("- " + x for x in names),
                           f"You route support tickets. Queues: {', '.join(names)}."])
        reply, check = queue, "label"
    return with_prompt(r, "route", prompt, text, reply, f"The message is about {queue}.", check)


def intent(r):
    label, names = choose(r, INTENTS, "classify", "intent")
    text = fill(r, r.choice(INTENTS[label]))
    if r.random() < 0.3:
        prompt = f'Return {{"intent": ...}} with one of: {", ".join(names)}.'
        reply, check = json.dumps({"intent": label}), "json"
    else:
        prompt = r.choice([f"What is the intent: {', '.join(names)}?", f"Choose the intent from {', '.join(names)}.", "Intents:\n" + "\n".join("- " + x for x in names) + "\nAnswer with one intent."])
        reply, check = label, "label"
    return with_prompt(r, "classify", prompt, text, reply, f"The user wants {label}.", check)


def topic(r):
    label, names = choose(r, TOPICS, "classify", "topic")
    text = fill(r, r.choice(TOPICS[label]))
    prompt = r.choice([f"Classify the topic as {listed(names, 'or')}.", f"Which topic is this: {listed(names, 'or')}?", f"Topics: {', '.join(names)}. Answer with one."])
    return with_prompt(r, "classify", prompt, text, label, f"The text is about {label}.", "label")


def _order(r):
    n, c, i, k = person(r), city(r), r.choice(ITEMS), r.randint(2, 30)
    d, m = r.randint(1, 28), r.choice(MONTHS)
    number = code(r)
    text = r.choice([f"{n} from {c} ordered {k} {i}s on {d} {m}. The order number is {number}.", f"On {d} {m}, {n} bought {k} {i}s in {c}. Order {number}.",
                     f"Order: {k} x {i}. Customer: {n}. City: {c}. Date: {d} {m}. Number: {number}.", f"Hello, I am {n} and I live in {c}. On {d} {m} I ordered {k} {i}s, order {number}."])
    return text, {"name": n, "city": c, "item": i, "quantity": k, "date": f"{d} {m}", "order": number}


def _contact(r):
    n, c, job = person(r), city(r), r.choice(JOBS)
    last = made_up(r)
    mail, phone, age = email(r, n), f"555-{r.randint(100, 9999):04d}", r.randint(18, 80)
    text = r.choice([f"{n} {last} is a {job} in {c}, {age} years old. Write to {mail} or call {phone}.", f"My name is {n} {last}, I am {age} and work as a {job} in {c}. My email is {mail}, my phone is {phone}.",
                     f"Contact: {n} {last}, {job}, {c}. Age {age}. {mail}, {phone}"])
    return text, {"name": f"{n} {last}", "job": job, "city": c, "age": age, "email": mail, "phone": phone}


def _booking(r):
    n, place, k, day, t = person(r), made_up(r), r.randint(2, 12), r.choice(DAYS), clock(r)
    text = r.choice([f"A table for {k} at {place} on {day} at {t}, please. The name is {n}.", f"{n} booked {place} for {k} people, {day} {t}.",
                     f"Hi, this is {n}. We are {k} people and would like to come to {place} on {day} at {t}."])
    return text, {"name": n, "restaurant": place, "people": k, "day": day, "time": t}


def _event(r):
    n, c, day, t, room = person(r), city(r), r.choice(DAYS), clock(r), r.randint(1, 400)
    what = r.choice(["meeting", "concert", "lecture", "workshop", "party", "interview"])
    text = r.choice([f"The {what} with {n} is on {day} at {t} in room {room}, {c}.", f"Please come to the {what} in {c} on {day}. It starts at {t} in room {room}. {n} will be there.",
                     f"{n} invites you to a {what}: {day}, {t}, room {room}, {c}."])
    return text, {"event": what, "person": n, "city": c, "day": day, "time": t, "room": room}


def extract(r):
    text, full = r.choice([_order, _contact, _booking, _event])(r)
    if r.random() < 0.3:
        text = r.choice(["Dear team, ", "Good morning. ", "Note: ", "FYI: "]) + text
    keys = r.sample(list(full), r.randint(2, min(4, len(full))))
    style = r.random()
    if style < 0.12:
        key = keys[0]
        return record("extract", user(r.choice([f"{text}\n\nWhat is the {key}?", f"{text}\n\nGive me only the {key}.", f"What is the {key}?\n\n{text}"])), answer(str(full[key]), f"The {key} is {full[key]}."), check="exact")
    values = {k: full[k] for k in keys}
    if style < 0.25:
        missing = r.choice(["price", "weight", "country", "deadline", "discount", "website"])
        keys.insert(r.randint(0, len(keys)), missing)
        values = {k: full.get(k) for k in keys}
    names = ", ".join(keys)
    prompt = r.choice([f"Extract {names} as JSON.", f"Return JSON with {names}.", f"Extract the {listed(keys)} from the text. Answer in JSON.", f"Keys: {names}. Reply with a JSON object.",
                       "Return a JSON object with the keys " + names + ". Use null if a value is missing.", "Fill in this JSON: {" + ", ".join(f'"{k}": ...' for k in keys) + "}"])
    if style > 0.9:   # in the words that the server uses to describe a JSON Schema
        schema = {"type": "object", "properties": {k: {"type": "integer" if isinstance(values[k], int) else "string"} for k in keys if values[k] is not None}, "required": [k for k in keys if values[k] is not None]}
        values = {k: v for k, v in values.items() if v is not None}
        prompt = ("Answer with one JSON value that is valid under the following JSON Schema, and nothing else: no explanation, no code fence.\n" + json.dumps(schema, separators=(",", ":")))
        return record("extract", system(prompt), user(r.choice(["Extract the data. ", "", ""]) + text), answer(json.dumps(values, ensure_ascii=False)), check="json")
    think = ", ".join(f"{k}: {v if v is not None else 'missing'}" for k, v in values.items()) + "."
    return with_prompt(r, "extract", prompt, text, json.dumps(values, ensure_ascii=False), think, "json")


def one_value(r):
    """A text and questions about it, one after another."""
    text, full = r.choice([_order, _contact, _booking, _event])(r)
    asked = r.sample(list(full), r.randint(1, 4))
    turns = [message for key in asked for message in (user(f"What is the {key}?"), answer(str(full[key])))]
    turns[0] = user(r.choice([f"{text}\n\n{turns[0]['content']}", f"{turns[0]['content']}\n\n{text}"]))
    return record("extract", *turns)


UNKNOWN = "The context does not say."


def context(r):
    count = r.randint(2, 5)
    ns, cs, its, js, cols, fs = people(r, count + 1), cities(r, count), r.sample(ITEMS, count), r.sample(JOBS, count), r.sample(COLORS, count), r.sample(FOODS, count)
    stranger = ns.pop()
    facts, questions = [], []
    for n, c, i, j, o, f in zip(ns, cs, its, js, cols, fs):
        options = [(r.choice([f"{n} lives in {c}.", f"The home of {n} is in {c}."]), f"Where does {{}} live?", f"{n} lives in {c}.", [(f"Who lives in {c}?", f"{n} lives in {c}.")]),
                   (f"{n} owns {article(o)} {i}.", "What does {} own?", f"{n} owns {article(o)} {i}.", [(f"Who owns the {i}?", f"{n} owns the {i}."), (f"What color is the {i}?", f"The {i} is {o}.")]),
                   (f"{n} works as {article(j)}.", "What is the job of {}?", f"{n} works as {article(j)}.", [(f"Who works as {article(j)}?", f"{n} works as {article(j)}.")]),
                   (f"{n} likes {f}.", "What does {} like?", f"{n} likes {f}.", [(f"Who likes {f}?", f"{n} likes {f}.")])]
        for fact, ask, reply, more in r.sample(options, r.randint(1, 2)):
            facts.append(fact)
            questions.append((ask.format(n), reply, ask))
            questions += [(q, a, None) for q, a in more]
    r.shuffle(facts)
    question, reply, _ = r.choice(questions)
    think = reply
    if r.random() < 0.22:
        asks = [q for q in questions if q[2]]
        question, reply = r.choice(asks)[2].format(stranger), UNKNOWN
        think = f"{stranger} is not in the context."
    text = " ".join(facts)
    shape = r.random()
    if shape < 0.5:
        return record("rag", user(f"Context: {text}\n\nQuestion: {question}"), answer(reply, think), check="exact")
    if shape < 0.7:
        return record("rag", system(r.choice(["Answer from the context. If the answer is not there, say so.\n\n", "Use only this information:\n\n"]) + text), user(question), answer(reply, think), check="exact")
    return record("rag", user(r.choice([f"{text}\n\n{question}", f"{question}\n\n{text}", f"Read the text and answer.\n\n{text}\n\n{question}"])), answer(reply, think), check="exact")


def product(r):
    """A page with facts about one product, some of which are missing."""
    brand, item = made_up(r), r.choice(ITEMS)
    thing = f"{brand} {item}"
    facts = {"How much does {} cost?": f"The price is {r.randint(5, 900)} euros.", "How heavy is {}?": f"It weighs {r.randint(1, 40)} kilograms.",
             "Where is {} made?": f"It is made in {city(r)}.", "Which colors are there?": f"It comes in {listed(r.sample(COLORS, r.randint(2, 3)))}.",
             "How long is the warranty?": f"It has a warranty of {r.choice(['one year', 'two years', 'three years', 'five years'])}.",
             "Who designed {}?": f"It was designed by {person(r)}.", "Since when has {} been sold?": f"It has been sold since {r.randint(1995, 2025)}.",
             "How long does delivery take?": f"Delivery takes {r.randint(2, 14)} days."}
    keys = r.sample(list(facts), r.randint(3, 5))
    question = r.choice(keys)
    reply, think = facts[question], facts[question]
    text = " ".join(facts[k] for k in keys)
    if r.random() < 0.22:
        question = r.choice([k for k in facts if k not in keys])
        reply, think = UNKNOWN, "The page does not mention this."
    question = question.format(r.choice([f"the {thing}", "it", f"the {item}"]))
    if r.random() < 0.4:
        return record("rag", system(f"Answer from this page.\n\n{thing}. {text}"), user(question), answer(reply, think), check="exact")
    return record("rag", user(f"Context: {thing}. {text}\n\nQuestion: {question}"), answer(reply, think), check="exact")


MAKERS = [(sentiment, 4), (route, 7), (intent, 3), (topic, 2), (extract, 28), (one_value, 3), (context, 20), (product, 7)]
