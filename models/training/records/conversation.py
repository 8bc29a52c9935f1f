"""First conversations: what people type in their first minutes, in many wordings, with the noise of quick typing, over
one to four turns. No record contains thinking, and no response contains a template marker."""
from .facts import fact
from .intents import ASK_ANOTHER, ASK_JOKE, ASK_MINE, ASK_REPEAT, ASK_RIDDLE, INTENTS, JOKES, RIDDLES, SEEN, SEERS
from .phrases import hasty, noisy, pick, sentence, weighted
from .record import answer, record, user
from .requests import request, sum_of_two
from .smalltalk import smalltalk
from .unknown import ANSWERS, question
from .wordplay import wordplay
from .words import ANIMALS, CITIES, COLORS, FOODS, JOBS, article, made_up, person

# the most frequent first messages: greetings, questions about its name and abilities, short replies and goodbyes
_OFTEN = dict.fromkeys(("who are you", "your name", "help", "thanks"), 6) | {"hello": 10, "how are you": 8, "what's up": 7, "what can you do": 8, "bye": 8}
_OFTEN |= dict.fromkeys(("good morning", "good evening", "are you there", "nice to meet you", "i am new", "are you human", "are you a bot", "who made you", "are you chatgpt", "which model", "how to use", "cannot do", "good night", "ok", "thanks bye", "i am fine"), 4)
_OFTEN |= dict.fromkeys(("good afternoon", "i am back", "your age", "where are you", "how trained", "size", "smart", "feelings", "languages you speak", "internet", "can you code", "can you math", "can you write", "nice", "no", "yes", "bored", "sad", "weather", "time", "date", "news", "test", "only signs", "nonsense", "what do you mean", "just a topic"), 2.5)
_OFTEN |= dict.fromkeys(("happy", "tired", "lonely", "stressed", "angry", "sick", "hungry", "good news", "bad news", "do you like", "family", "body", "favorite color", "favorite food", "favorite animal", "favorite movie", "favorite number", "favorite season", "meaning of life", "love you", "compliment", "insult", "what to do today", "what to watch", "what to read", "fun fact",
                         "say something", "poem", "song", "your opinion", "god", "love", "birthday", "purpose", "user does", "small statement", "user fact", "cannot do", "other language", "game", "odd claim", "paradox", "can you act", "can you do much", "maybe", "guess what", "thirsty", "motivate", "compliment me", "you are welcome", "how the user is", "offer", "going to", "danger", "politics", "smart", "feelings", "learn"), 2.6)
_OFTEN["bored"] = _OFTEN["sad"] = 3.5
# these have one rule each, and are rarely asked
_OFTEN |= dict.fromkeys(("hal pod bay", "animal sound", "known line", "number alone", "command line", "packing", "day plan", "plan", "passwords", "name my company", "gift", "what to wear", "rock paper scissors", "knock knock", "can you use tools", "can you extract", "privacy", "cost", "alarm", "stock", "how to cook", "speak another"), 0.7)
_NAMES, _WEIGHTS = list(INTENTS), [_OFTEN.get(name, 1) for name in INTENTS]
assert _OFTEN.keys() <= INTENTS.keys()
# these usually follow another message, but also occur as a first turn, if less often
_CASE = {"only signs", "other language", "nonsense"}   # these have their own noise
_GREETED = {"hello", "good morning", "good afternoon", "good evening", "how are you", "thanks", "bye", "good night"}
_BARE = {"ok", "nice", "yes", "no", "maybe", "lol", "thanks", "thanks bye", "bye", "good night", "really", "why", "wait", "continue", "stop"}   # with a greeting before them, they would mean something else


def intent(r, me, name=None):
    """(question, answer) for one intent."""
    name = name or r.choices(_NAMES, _WEIGHTS)[0]
    asks, answers = INTENTS[name]
    answers = SEEN.get(name, answers) if me in SEERS else answers
    ask = " ".join(weighted(r, asks).split()) or "?"
    ask = ask.replace("{me}", me)
    ask = sentence(ask) if name not in _CASE else ask
    ask = noisy(r, ask, prefix=name not in _BARE) if name not in _CASE else ask
    ask = hasty(r, ask) if name in _GREETED and r.random() < 0.3 else ask   # an error leaves little context
    return ask, (answers[0] if r.random() < 0.7 else r.choice(answers)).replace("{me}", me)   # one well-learned answer is better than three


def told(r):
    """Statements that users make about themselves and ask for later: {what: (statement, questions, answer)}."""
    name, city, pet, petname = person(r), r.choice(CITIES), r.choice(["dog", "cat", "bird", "horse", "rabbit", "hamster"]), person(r)
    color, food, job, animal, age = r.choice(COLORS), r.choice(FOODS), r.choice(JOBS), r.choice(ANIMALS), r.randint(6, 90)
    return {
        "name": ("[my name is|i am|i'm|im|call me|this is|my name's|you can call me|people call me] " + name, "[what is my name|what's my name|whats my name|do you remember my name|do you know my name|who am i|what am i called|say my name|how am i called]?", f"Your name is {name}.", f"Nice to meet you, {name}!"),
        "city": (f"[i live in|i am from|i'm from|i come from|my home is in] {city}", "[where do i live|where am i from|in which city do i live|what is my city|where do i come from]?", f"You live in {city}.", f"{city} is a nice place."),
        "pet": (f"my {pet} is called {petname}", f"[what is my {pet} called|what's the name of my {pet}|what is my {pet}'s name|how is my {pet} called]?", f"Your {pet} is called {petname}.", f"{petname} is a nice name for {article(pet)}."),
        "color": (f"my [favorite|favourite] [color|colour] is {color}", "[what is my favorite color|which color do i like|what's my favourite colour|what color do i like best]?", f"Your favorite color is {color}.", f"{sentence(color)} is a nice color."),
        "food": (f"[i like|i love|my favorite food is] {food}", "[what do i like|what food do i like|what do i like to eat|what is my favorite food]?", f"You like {food}.", f"{sentence(food)}, that sounds good."),
        "job": (f"[i work as|i am|i'm] {article(job)}", "[what is my job|what's my job|what do i do for a living|what do i work as]?", f"You work as {article(job)}.", "That is an interesting job."),
        "age": (f"i am {age} years old", "[how old am i|what is my age|do you know my age]?", f"You are {age} years old.", "Thank you for telling me."),
        "animal": (f"[my favorite animal is|i like|i love] the {animal}", "[what is my favorite animal|which animal do i like|what animal do i like]?", f"Your favorite animal is the {animal}.", f"The {animal} is a nice animal."),
    }


def remembering(r, me):
    """A statement, possibly something else, and then the question about the statement."""
    known = told(r)
    what = "name" if r.random() < 0.5 else r.choice(list(known))
    said, asks, reply, first = known[what]
    text = sentence(pick(r, said))
    text = (r.choice(["Hi, ", "Hello, ", "Hey, ", "Hi! ", "Hello! "]) + (text if r.random() < 0.5 else text[0].lower() + text[1:]) if r.random() < 0.4 else text) + r.choice([".", "", "!"])
    turns = [(text.lower() if r.random() < 0.4 else text, first if r.random() < 0.8 or what != "name" else f"Hello, {known['name'][0].rsplit('] ', 1)[1]}! How can I help you?")]
    for _ in range(r.choice([0, 0, 1, 1, 2])):
        turns.append(one(r, me))
    if r.random() < 0.85:
        turns.append((noisy(r, sentence(pick(r, asks)), prefix=False), reply))
    return turns


def not_told(r, me):
    """A question about something that the user has never said."""
    what = r.choice([k for k in told(r)])
    ask = sentence(pick(r, told(r)[what][1]))
    before = [one(r, me)] if r.random() < 0.3 else []
    if what == "name":
        ask = pick(r, "[What is my name|What's my name|Do you know my name|Do you remember my name|Say my name|How am I called]?")
    return before + [(noisy(r, ask, prefix=not before), "You did not tell me.")]


def introduction(r, me):
    """The user's name and a question in one message."""
    name = person(r)
    text = sentence(pick(r, f"[hi, |hello! |hey, |hi. |hello |||][my name is|i am|i'm|this is] {name}[. |, |! | and ][what is yours|what's yours|who are you|what's your name|what is your name|who r u]?"))
    turns = [(text.lower() if r.random() < 0.4 else text, f"Nice to meet you, {name}! I am {me}.")]
    if r.random() < 0.5:
        turns.append((noisy(r, sentence(pick(r, told(r)["name"][1])), prefix=False), f"Your name is {name}."))
    return turns


def joke(r, me):
    """A joke, often followed by another one or by a reaction to it."""
    jokes = r.sample(JOKES, 2)
    turns = [(noisy(r, sentence(weighted(r, ASK_JOKE))), jokes[0])]
    if r.random() < 0.4:
        turns.append((noisy(r, sentence(pick(r, ASK_ANOTHER[0])), prefix=False), jokes[1]))
    elif r.random() < 0.5:
        turns.append(intent(r, me, r.choice(["lol", "nice", "thanks", "what do you mean"])))
    return turns


def riddle(r, me):
    text, reply = r.choice(RIDDLES)
    turns = [(noisy(r, sentence(weighted(r, ASK_RIDDLE))), text)]
    if r.random() < 0.7:
        turns.append((noisy(r, sentence(pick(r, "[i don't know|i dont know|what is it|tell me|no idea|i give up|what is the answer|what's the answer|say it|solution please|the answer please|what][?|.|]")), prefix=False), reply))
    return turns


def repeating(r, me):
    """A message, followed by a request to repeat it or to repeat the user's own words."""
    before = one(r, me)
    if r.random() < 0.6:
        return [before, (noisy(r, sentence(weighted(r, ASK_REPEAT)), prefix=False), before[1])]
    return [before, (noisy(r, sentence(weighted(r, ASK_MINE)), prefix=False), f"You said: {before[0]}")]


def knock(r, me):
    who = r.choice(["lettuce", "boo", "cow", "nobel", "tank", "ice cream", "harry", "justin", "olive", "ken", made_up(r).lower()])
    return [(noisy(r, sentence(pick(r, "[knock knock|knock, knock|knock knock!]")), prefix=False), "Who is there?"), (sentence(who) if r.random() < 0.6 else who, f"{sentence(who)} who?"), (r.choice([f"{sentence(who)} in!", f"{who} you glad to see me?", "let me in!", "It is cold outside!", "haha"]), "Haha, that is a good one!")]


def reply(r, me):
    """A reaction that fits any response."""
    return intent(r, me, r.choice(["thanks", "thanks", "ok", "nice", "really", "why", "wrong", "continue", "what do you mean", "lol", "bye", "thanks bye", "yes", "no"]))


def one(r, me):
    """(question, answer) that needs no context."""
    style = r.random()
    if style < 0.39:
        return intent(r, me)
    if style < 0.48:
        return smalltalk(r, me)
    if style < 0.71:
        text, said = fact(r)
        return noisy(r, text), said
    if style < 0.975:
        return wordplay(r) if r.random() < 0.45 else request(r)
    return noisy(r, question(r)), r.choice(ANSWERS[:5])


def sums(r, me):
    """Several sums in a row, as with a calculator."""
    return [sum_of_two(r) for _ in range(r.choice([2, 2, 3, 3, 4]))]


def talk(r, me):
    turns = [one(r, me)]
    for _ in range(r.choice([0, 0, 0, 0, 0, 1, 1, 2, 3])):
        turns.append(reply(r, me) if r.random() < 0.35 else one(r, me))
    return turns


SHAPES = [(talk, 80), (sums, 6), (remembering, 7), (not_told, 2), (introduction, 2), (joke, 4), (riddle, 1.5), (repeating, 3), (knock, 0.7)]


def chat(r, me):
    """One conversation with the model that has this name."""
    turns = r.choices(*zip(*SHAPES))[0](r, me)
    return record("chat", *(message for ask, said in turns for message in (user(ask), answer(said))))
