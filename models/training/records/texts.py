"""Work on a text in the message: values copied out of it, JSON, summaries in a sentence, labels. Texts are put together
from sentences with values from wide.py, so that an answer can only be copied."""
import json

from . import wide
from .frames import frame
from .labels import BAD, FEEL_BAD, FEEL_GOOD, GOOD, TOPICS, fill
from .phrases import sentence
from .words import DAYS, article, listed, made_up

# Sentences that contain a value. {w}: a person (who is not asked for, unless the field is the name).
SAID = {
    "name": ["My name is {v}.", "This is {v}.", "{v} called this morning.", "I spoke with {v} yesterday.", "Please ask for {v}.", "Best regards, {v}", "Contact: {v}.", "The guest is called {v}.", "{v} wants to come too.", "We are waiting for {v}.", "Dear {v}, thank you for your letter.", "The new colleague is {v}.", "{v} from sales will help.", "Name: {v}.", "Signed by {v}.", "It was {v} who found it.", "Yours, {v}", "You can talk to {v} about it.", "If {v} is late, start without the cake.", "Yesterday a man named {v} asked for the keys.", "The letter that {v} wrote got lost.", "Nobody except {v} had the right answer.", "My boss, {v}, is on holiday until May.", "a woman called {v} left her bag here", "We thank {v} for the flowers.", "ask {v} if the shop is open"],
    "email": ["Write to {v}.", "You can reach me at {v}.", "My email is {v}.", "Send it to {v} please.", "E-mail: {v}.", "Questions go to {v}.", "My new address is {v}, the old one no longer works.", "Please mail the files to {v} today.", "Answer me at {v}.", "The office uses {v}.", "contact {v} for details.", "mail me: {v}", "I wrote from {v} last week.", "For help, write an email to {v}.", "Please contact the team via {v} if the door is locked.", "If you have lost your ticket, write to {v} and wait.", "The form went to {v} by mistake.", "Subscribe by sending a message to {v} before noon.", "for a refund mail {v} with your receipt", "She signed up as {v} last year.", "Reach us under {v} at any time.", "forward this to {v}, thanks", "The address {v} is no longer in use.", "Our contact is {v} (office hours only)."],
    "phone": ["Call {v}.", "My number is {v}.", "You can call me at {v}.", "Phone: {v}.", "Ring {v} after lunch.", "The shop has the number {v}.", "Tel. {v}", "Please call back at {v}.", "On weekends, try {v}.", "My mobile is {v}.", "If there is a problem, call {v}.", "Text me on {v}.", "If nobody opens, call {v} and ask for the guard.", "The number {v} was written on the wall.", "Dial {v} to hear the opening hours.", "you can also leave a message at {v} after six", "He gave me {v} as his new number.", "For taxis, {v} is the best number.", "Fax and phone: {v}", "my cell is {v} btw"],
    "date": ["It happens on {v}.", "The party is on {v}.", "We arrive on {v}.", "The deadline is {v}.", "Date: {v}.", "It was sent on {v}.", "Please come on {v}.", "The course starts on {v}.", "The invoice is from {v}.", "See you on {v}.", "The offer ends on {v}.", "The appointment was moved to {v}.", "Since {v} the lift has been out of order.", "If it rains on {v}, we stay at home.", "The contract that ends on {v} will not be renewed.", "they got married on {v} in a small church", "Between now and {v} nothing will change.", "The last bus ran on {v}.", "Due {v}, no later.", "mark {v} in your calendar"],
    "amount": ["It costs {v}.", "The total is {v}.", "I paid {v}.", "The price is {v}.", "Please pay {v}.", "They want {v} for it.", "Amount due: {v}.", "We sold it for {v}.", "The ticket was {v}.", "He owes me {v}.", "The repair came to {v}.", "I got {v} back.", "For {v} you can get the whole set.", "The {v} you sent have arrived.", "He spent {v} on tea and cake.", "a fee of {v} will be added", "With a coupon it is only {v} today.", "Somebody lost {v} in the bus.", "The fine is {v} if you park here.", "we collected {v} for the school"],
    "city": ["I live in {v}.", "The office is in {v}.", "We meet in {v}.", "The train goes to {v}.", "She moved to {v}.", "The parcel was sent from {v}.", "Our shop in {v} is open.", "City: {v}.", "The concert takes place in {v}.", "I come from {v}.", "They flew to {v}.", "The weather in {v} was fine.", "On the way to {v} the car broke down.", "The mayor of {v} opened the fair.", "My cousin works in {v} as a nurse.", "is there a bus to {v} after midnight", "People from {v} like to sing.", "Last summer we spent a week in {v} with friends.", "All flights to {v} were canceled.", "A bakery in {v} sells the best rolls."],
    "product": ["I ordered a {v}.", "The {v} is broken.", "I would like to buy the {v}.", "Product: {v}.", "We sent you the {v}.", "My {v} does not work.", "Do you have the {v} in stock?", "The {v} arrived too late.", "I want to return the {v}.", "She bought a {v}.", "The {v} looks nice.", "Can I exchange the {v} for another one?", "The box with the {v} was open.", "my brother gave me a {v} for my birthday", "Nobody wants the {v} anymore.", "Please send the {v} to my neighbor.", "The shop had only one {v} left.", "I forgot the {v} in the train.", "Thanks to the {v}, we got home safely."],
    "order_number": ["My order number is {v}.", "Order {v} is late.", "It is about order {v}.", "Order number: {v}.", "Please check order {v}.", "I placed order {v}.", "Where is order {v}?", "Order {v} has been sent.", "The number of the order is {v}.", "Please cancel order {v}.", "I never got {v}, my last order.", "The parcel for order {v} was empty.", "Under the number {v} you will find my order.", "order no. {v} please, when will it come", "We shipped {v} to the wrong address.", "The refund for order {v} is on its way.", "In my account I see order {v} twice."],
}
VALUES = {"name": wide.name, "email": wide.email, "phone": wide.phone, "date": wide.date, "amount": wide.amount, "city": wide.town, "product": wide.product, "order_number": wide.order}
SHOWN = {"name": "name", "email": "email", "phone": "phone number", "date": "date", "amount": "amount", "city": "city", "product": "product", "order_number": "order number"}
KEYS = {"name": ["name", "name", "person", "customer"], "email": ["email", "email", "mail"], "phone": ["phone", "phone", "phone_number", "tel"], "date": ["date", "date", "day"], "amount": ["amount", "price", "total"], "city": ["city", "city", "place", "town"], "product": ["product", "product", "item"], "order_number": ["order_number", "order", "order_id"]}
FILLERS = ["Hello!", "Hi there,", "Good morning.", "Thank you.", "Thanks a lot!", "See you soon.", "Please answer soon.", "It is important.", "I hope you are well.", "Have a nice day.", "We look forward to it.", "That would be great.", "Let me know.", "Sorry for the trouble.", "I was away last week.", "Nobody told me about it.", "The weather is good today.", "It took a long time.", "Everything else is fine.", "I am very happy about that.", "Please hurry.", "There were many people.", "We had coffee first.", "As we said before.", "Do not forget it."]


def composed(r, fields, fillers=2):
    """(text, {field: value})"""
    values = {}
    lines = []
    for field in fields:
        value = VALUES[field](r)
        if field == "email" and "name" in values and r.random() < 0.5:
            value = wide.email(r, values["name"])
        values[field] = value
        lines.append(r.choice(SAID[field]).replace("{v}", value))
    lines += r.sample(FILLERS, r.randint(0, fillers))
    r.shuffle(lines)
    text = " ".join(lines)
    if "product" in values and values["product"][0] in "aeiou":
        text = text.replace(f" a {values['product']}", f" an {values['product']}")
    return text, values


# texts with a fixed form, which contain several fields
FORMS = ["{name}, {city}, {phone}", "Name: {name}; Email: {email}; City: {city}", "{name} <{email}> wrote on {date}: please send the {product}.", "{name} from {city} bought a {product} for {amount}.", "Order {order_number}: {product}, {amount}, ships to {city} on {date}.",
         "{name} ({email}) ordered the {product} on {date}.", "Invoice for {name}, {city}: {amount}, due {date}.", "Hi, I'm {name} from {city}, call me at {phone} or write to {email}.", "On {date}, {name} paid {amount} for order {order_number}.", "Ticket for {name}: {date}, {city}, {amount}",
         "please deliver the {product} to {name} in {city}, phone {phone}", "{name} will travel to {city} on {date} and pay {amount}.", "Customer {name}, order {order_number}, {product}", "The {product} costs {amount} in {city}.", "{name}, {email}, {phone}"]


def formed(r):
    form = r.choice(FORMS)
    fields = [field for field in VALUES if "{" + field + "}" in form]
    values = {field: VALUES[field](r) for field in fields}
    text = form.format(**values)
    return text.replace(f" a {values.get('product', '-')}", " " + article(values.get("product", "-"))), values


def text_with(r, field=None):
    """A text and its values, with at least this field."""
    if r.random() < 0.4:
        for _ in range(60):
            text, values = formed(r)
            if field is None or field in values:
                return text, values
    others = [one for one in VALUES if one != field]
    fields = ([field] if field else []) + r.sample(others, r.choice([0, 1, 1, 2, 2, 3]) + (not field) * 2)
    return composed(r, fields)


def extract_one(r):
    field = r.choice([*VALUES, "email", "email", "name", "phone"])
    if r.random() < 0.08:
        text, values = composed(r, r.sample([one for one in VALUES if one != field and not (field == "name" and one in ("email",))], 2))
        return frame(r, f"extract.{field}", text=text)[0], f"There is no {SHOWN[field]} in the text."
    text, values = text_with(r, field)
    return frame(r, f"extract.{field}", text=text)[0], values[field]


def extract_several(r):
    text, values = text_with(r)
    while len(values) < 2:
        text, values = text_with(r)
    fields = r.sample(list(values), r.randint(2, min(3, len(values))))
    shown = listed([r.choice([f"the {SHOWN[field]}", SHOWN[field]]) for field in fields])
    return frame(r, "extract.several_fields", text=text, fields=shown)[0], "\n".join(f"{sentence(SHOWN[field])}: {values[field]}" for field in fields)


def extract_json(r):
    text, values = text_with(r)
    fields = r.sample(list(values), r.randint(1, min(4, len(values))))
    keys = {r.choice(KEYS[field]): values[field] for field in fields}
    if r.random() < 0.2:   # other names, in the order in which they are asked for
        keys = {key.upper() if r.random() < 0.3 else key.capitalize(): value for key, value in keys.items()}
    shown = r.choice([", ".join(keys), listed(list(keys)), " and ".join(keys), ", ".join(f'"{key}"' for key in keys)])
    return frame(r, "extract.json", text=text, keys=shown)[0], json.dumps(keys, ensure_ascii=False)


def odd_words(r, count):
    return [r.choice([lambda: made_up(r).lower(), lambda: wide.thing(r), lambda: wide.first_name(r), lambda: wide.town(r), lambda: wide.code(r), lambda: r.choice(wide.WORK), lambda: wide.email(r), lambda: wide.number(r), lambda: wide.phone(r), lambda: wide.date(r)])() for _ in range(count)]


def copied(r, lines=()):
    style = r.random()
    if style < 0.25:
        word = odd_words(r, 1)[0]
        return frame(r, "copy.word", word=word)[0], word
    if style < 0.45:
        words = ", ".join(odd_words(r, r.randint(3, 6)))
        return frame(r, "copy.list", list=words)[0], words
    text = r.choice(lines) if lines and r.random() < 0.5 else composed(r, r.sample(list(VALUES), r.choice([1, 1, 2])), 1)[0]
    kind = r.choice(["exactly", "sentence"])
    return frame(r, f"copy.{kind}", **{"text" if kind == "exactly" else "sentence": text})[0], text


# what happened, and what else the text says; the summary is what happened
EVENTS = ["The {place} in {c} will be closed on {d} because of {why}.", "{n} won the {race} in {c}.", "{n} lost {a_t} in {c} on {d}.", "{n} opened a new {place} in {c}.", "The {meeting} was moved from {d} to {d2}.", "The train from {c} to {c2} is {num} minutes late.", "{n} and {n2} will get married in {c} in {m}.",
          "A storm damaged {num} houses in {c}.", "{n} found {a_t} in the {place}.", "The city of {c} is building a new {place}.", "{n} has moved from {c} to {c2} for work.", "The price of {f} went up by {num} percent.", "{n} sold {num} {f} at the market in {c}.", "Children in {c} planted {num} trees on {d}.",
          "The {place} needs {num} new helpers.", "{n} is learning to repair {t}s in {c}.", "A {t} was stolen from the {place} on {d}.", "{n} cannot come to the {meeting} on {d}.", "The {meeting} with {n} starts at {time} on {d}.", "{n} would like to exchange the {t} for a bigger one.", "Visitors of the {place} can see {num} {animals} since {d}.",
          "The {animals} of {n} ran away last {d}.", "{n} repaired the old {t} of {n2}.", "The bus from {c} stops at the {place} now.", "The team from {c} beat the team from {c2}.", "{n} is looking for a flat in {c}.", "{n} baked a cake for {n2} on {d}.", "Scientists in {c} found a new kind of {animals}.",
          "Our {t} is sold out until {m}.", "The school in {c} gets a new {place}.", "{n} forgot {a_t} at the {place}.", "{n} was {num} years old when {n} came to {c}."]
DETAILS = ["It was a long day.", "Many people were happy about it.", "The weather was bad.", "Nobody was hurt.", "More news will follow.", "The mayor said a few words.", "There was coffee and cake.", "It had been planned for a year.", "Some neighbors did not like it.", "The phone did not stop ringing.", "People can ask questions at the office.", "It cost a lot of money.", "The children were excited.", "Last year it was different.",
           "Please bring warm clothes.", "The old one was too small.", "It rained in the afternoon.", "Everybody clapped.", "A photo was in the newspaper.", "The work will take two weeks.", "Tickets are available at the door.", "Lunch will be served.", "We are sorry for the trouble.", "The police asked for help.", "His brother helped with it.", "Her family was proud.", "It started with a small idea.", "They stayed until the evening.", "The music was loud.", "The road was full of cars."]
_OPEN = ["Dear all,", "Hello everybody.", "Hi!", "Good news!", "Just a short note.", "I hope you had a good weekend.", "Here is the news of the day.", "Thank you for your message."]
_PLACES = "library museum swimming pool bakery park school station zoo bridge market theater hospital playground bookshop cinema garden gym church post office town hall".replace("swimming pool", "swimming_pool").replace("post office", "post_office").replace("town hall", "town_hall").split()


def event(r):
    t = wide.thing(r).removesuffix("s")
    c, c2 = wide.town(r), wide.town(r)
    d, d2 = r.sample(DAYS, 2)
    return r.choice(EVENTS).format(n=wide.name(r), n2=wide.first_name(r), c=c, c2=c2, d=d, d2=d2, t=t, a_t=article(t), place=r.choice(_PLACES).replace("_", " "), why=r.choice("repairs,a storm,a holiday,snow,a strike,cleaning,a party,high water,building work".split(",")), race=r.choice("race,chess tournament,cooking contest,tennis match,prize,lottery,song contest,boat race".split(",")),
                                    meeting=r.choice("meeting,workshop,party,concert,lesson,interview,dinner,trip,exam,class".split(",")), num=r.randint(2, 90), m=r.choice("January March April May June July September October November December".split()), f=r.choice("bread,milk,apples,eggs,rice,coffee,tea,cheese,potatoes,sugar,honey,butter".split(",")), time=wide.clock(r), animals=r.choice("frogs,birds,bears,monkeys,bees,goats,horses,penguins,ducks,sheep,turtles,owls".split(",")))


def summary(r, stories=()):
    """The sentence that says what happened: mostly the first one."""
    if stories and r.random() < 0.25:
        lines = r.choice(stories)
        return frame(r, "summarize.one_sentence", text=" ".join(lines))[0], lines[0]
    main = event(r)
    rest = r.sample(DETAILS, r.choice([1, 2, 2, 3, 3, 4]))
    lines = ([r.choice(_OPEN)] if r.random() < 0.3 else []) + [main] + rest
    return frame(r, "summarize.one_sentence", text=" ".join(lines))[0], main


SPAM = ["Congratulations! You have won {amount}. Click here to claim your prize.", "You won a free {t}! Reply now with your bank details.", "URGENT: your account will be closed. Log in at http://{made}.xyz to keep it.", "Make {amount} a week from home, no work needed!!!", "Cheap pills, no prescription, order now at {made}.biz", "Dear friend, I am a prince from {c} and need your help to move {amount}.", "FREE FREE FREE! Get your {t} today, only 24 hours!", "You have been selected for a {amount} gift card. Click the link.", "Lose 10 kilos in a week with this secret trick!", "Your parcel is waiting. Pay {amount} now at {made}.top to receive it.",
        "Hot singles in {c} want to meet you. Sign up free.", "Double your money in one day with {made}coin, guaranteed profit!", "Act now! Limited offer: 90% off every {t}.", "Your bank needs your password. Send it to {email}.", "WINNER!! Text YES to {phone} to get your cash.", "Claim your inheritance of {amount}, contact {email} at once.", "Hello dear, i need your card number to send you {amount}", "Best casino bonus! {amount} free if you sign up today", "We noticed a problem with your card. Confirm your PIN here: http://{made}.info", "earn {amount} per hour clicking ads, no experience, start now", "Buy followers cheap! 10000 likes for {amount}", "Your computer has a virus! Call {phone} immediately.", "Get rich quick, join {made} and retire next month!", "Exclusive deal just for you, free {t}, just pay shipping"]
HAM = ["Hi {n}, can we move our meeting to {d}?", "Mom asks if you come to dinner on {d}.", "The report is attached. Please read it before {d}.", "Thanks for lunch yesterday, {n}!", "Your appointment with Dr. {s} is on {date}.", "I left my {t} at your place, can you bring it?", "The {meeting} starts at {time} in room {num}.", "Happy birthday, {n}! See you at the party.", "Can you send me the photos from {c}?", "I will be ten minutes late, sorry.", "Our train arrives in {c} at {time}.", "Please water the plants while we are in {c}.", "The class on {d} is canceled because the teacher is ill.", "Dear {n}, thank you for your application. We will call you on {d}.", "Do you want to play tennis on {d}?", "I fixed the bug, please test it again.", "Your order {order} was sent today.",
       "{n} said the {t} is ready.", "Don't forget to buy milk and {f}.", "Grandma is feeling better now.", "Are you home? I have your {t}.", "The invoice for {t} is attached, {n}.", "Let's meet at the station at {time}.", "We are having a barbecue on {d}, come if you like.", "The minutes of the {meeting} are in the folder.", "hey {n} are you coming tonight", "lunch at {time}?", "Please remember to sign the form, {n}."]


def message(r, pool):
    t = wide.thing(r)
    return r.choice(pool).format(n=wide.first_name(r), s=r.choice(wide.SURNAMES), c=wide.town(r), d=r.choice(DAYS), t=t, amount=wide.amount(r), made=made_up(r).lower(), email=wide.email(r), phone=wide.phone(r), date=wide.date(r), order=wide.order(r), time=wide.clock(r), num=r.randint(1, 400), meeting=r.choice(["meeting", "workshop", "course", "training"]), f=r.choice(["bread", "eggs", "butter", "cheese"]))


def spam(r):
    bad = r.random() < 0.5
    text = message(r, SPAM if bad else HAM)
    ask, wording = frame(r, "classify.spam", text=text)
    wording = wording.lower()
    if "ham" in wording.replace("sham", ""):
        return ask, "spam" if bad else "ham"
    if "not spam" in wording or "spam or no" in wording or "classify" in wording or "label" in wording:
        return ask, "spam" if bad else "not spam"
    return ask, "Yes, this looks like spam." if bad else "No, this does not look like spam."


_SUBJECTS = ["The hotel", "The film", "The food", "This phone", "The book", "Our waiter", "The concert", "The new update", "My {t}", "The {t}", "The course", "The tour in {c}", "The service", "The room", "The coffee", "This game", "The pizza", "The play", "The flight to {c}", "The delivery"]
_PRAISE = ["was wonderful", "was great", "is fantastic", "was better than I thought", "made me smile", "was a pleasure", "was perfect", "is excellent", "was very good", "is the best ever", "was lovely and clean", "was amazing", "works very well", "was delicious", "is so much fun"]
_BLAME = ["was terrible", "was awful", "is a joke", "was far too expensive", "was cold and dirty", "was boring", "is useless", "was a disaster", "made me angry", "was very bad", "was slow and rude", "is broken again", "was disgusting", "was disappointing", "is a waste of time"]
_NEUTRAL = ["The parcel arrived on {d}.", "It has two doors and a window.", "The shop opens at {time}.", "I bought the {t} in {c}.", "The book has {num} pages.", "The box contains a {t}.", "The film takes two hours.", "There are {num} rooms.", "The {t} is {o}."]


def sentiment(r):
    good = r.random() < 0.5
    neutral = r.random() < 0.25
    given = dict(t=wide.thing(r), c=wide.town(r), d=r.choice(DAYS), time=wide.clock(r), num=r.randint(2, 300), o=r.choice(wide.HUES))
    subject = r.choice(_SUBJECTS)
    text = f"{subject} {r.choice(_PRAISE if good else _BLAME)}." if r.random() < 0.55 else f"The {{t}} {r.choice(GOOD if good else BAD)}."
    text += " " + r.choice(FEEL_GOOD if good else FEEL_BAD) if r.random() < 0.4 else ""
    if neutral:
        return frame(r, "classify.sentiment", "neutral", text=r.choice(_NEUTRAL).format(**given))[0], "neutral"
    text = text.format(**given)
    return frame(r, "classify.sentiment", text=text.lower() if r.random() < 0.2 else text)[0], "positive" if good else "negative"


_QUESTIONS = ["Where is my {t}?", "how old is {n}", "Did {n} call?", "what time is it in {c}", "Can you bring the {t}?", "Why is the {t} {o}?", "who has the {t}", "When does the train to {c} leave?", "is {n} at home", "Do you like {c}?", "how much is the {t}", "Which {t} do you want?", "would {n} come to {c}", "have you seen my {t}", "are there any tickets for {d}"]
_STATEMENTS = ["My {t} is {o}.", "{n} is {num} years old", "{n} called on {d}.", "it is late in {c}", "Please bring the {t}.", "The {t} is {o} because {n} painted it.", "{n} has the {t}", "The train to {c} leaves at {time}.", "{n} is at home", "I like {c}.", "the {t} costs {num} euros", "I want the {o} {t}.", "{n} will come to {c}", "I saw your {t}", "there are no tickets for {d}"]


def asked_or_said(r):
    question = r.random() < 0.5
    text = r.choice(_QUESTIONS if question else _STATEMENTS).format(t=wide.thing(r), n=wide.first_name(r), c=wide.town(r), o=r.choice(wide.HUES), d=r.choice(DAYS), num=r.randint(3, 90), time=wide.clock(r))
    return frame(r, "classify.question_or_statement", text=text)[0], "question" if question else "statement"


_URGENT = ["The server is down and nobody can work!", "Help, there is water in the {place}!", "Please call me right now, it is an emergency.", "The fire alarm in the {place} is ringing.", "{n} had an accident, come quickly.", "We need the {t} within the hour.", "The gas smells, get out of the {place}!", "I locked my baby in the car.", "Our flight leaves in one hour and I have no passport!", "The customer is waiting at the door, hurry!", "The payment must be made today before {time} or we lose everything.", "My {t} is burning!", "Someone broke into the {place}, call the police."]
_CALM = ["Whenever you have time, look at the {t}.", "The newsletter of {m} is out.", "No hurry, but can you send me the photos?", "Next month we could paint the {place}.", "I liked the {t}, thank you.", "Please answer some time next week.", "We might visit {c} in summer.", "The {place} has new opening hours.", "Just wanted to say hello, {n}.", "Here are the notes from {d}.", "Could you think about a new {t} for next year?", "There is no rush with the {t}.", "FYI, {n} is back from {c}."]


def urgent(r):
    now = r.random() < 0.5
    text = r.choice(_URGENT if now else _CALM).format(place=r.choice(_PLACES).replace("_", " "), n=wide.first_name(r), t=wide.thing(r), time=wide.clock(r), m=r.choice(["May", "June", "March", "October"]), c=wide.town(r), d=r.choice(DAYS))
    ask, wording = frame(r, "classify.urgent", text=text)
    if "not urgent" in wording.lower() or "label" in wording.lower() or "urgent or no" in wording.lower():
        return ask, "urgent" if now else "not urgent"
    return ask, "Yes, this is urgent." if now else "No, this can wait."


_MORE_TOPICS = {"animals": ["The {a} at the zoo has a baby.", "{p} feeds two {a}s every day."], "school": ["The pupils in {c} wrote a test on {day}.", "The teacher gave {p} a good mark."], "computers": ["The laptop needs a new battery.", "{p} wrote a program that sorts files."], "work": ["{p} has a new job at an office in {c}.", "The boss gave everybody a free {day}."]}


def topic(r):
    pools = {name: lines for name, lines in (TOPICS | _MORE_TOPICS).items()}
    name = r.choice(list(pools))
    others = r.sample([one for one in pools if one != name], r.randint(1, 3))
    labels = others + [name]
    r.shuffle(labels)
    text = fill(r, r.choice(pools[name]).replace("{a}", r.choice(["fox", "bear", "owl", "goat", "penguin", "horse"]))) if name in TOPICS else r.choice(pools[name]).format(a=r.choice(["fox", "bear", "owl", "goat", "penguin", "horse"]), p=wide.first_name(r), c=wide.town(r), day=r.choice(DAYS))
    return frame(r, "classify.topic", text=text, labels=r.choice([", ".join(labels), listed(labels, "or"), " or ".join(labels)]))[0], name
