"""Single requests with wordings from files: words, numbers, dates, verse and stories on a subject, translation of a
word. What is not in a table is declined in words that fit the request."""
from . import plainly, wide
from .facts import MEANINGS, OPPOSITES, PAST, PLURALS, RHYMES, SYNONYMS
from .frames import frame
from .phrases import noisy, pick, sentence
from .requests import COMMON, POOLS, shown_letters
from .words import DAYS, article, listed, made_up

WORDS = {   # the few words that the model translates
    "Spanish": "hello:hola,goodbye:adios,yes:si,no:no,water:agua,house:casa,cat:gato,dog:perro,thank you:gracias,please:por favor,friend:amigo,bread:pan,red:rojo,sun:sol,love:amor,good morning:buenos dias",
    "French": "hello:bonjour,goodbye:au revoir,yes:oui,no:non,water:eau,house:maison,cat:chat,dog:chien,thank you:merci,friend:ami,bread:pain,red:rouge,sun:soleil,love:amour,good morning:bonjour",
    "German": "hello:hallo,goodbye:auf Wiedersehen,yes:ja,no:nein,water:Wasser,house:Haus,cat:Katze,dog:Hund,thank you:danke,please:bitte,friend:Freund,bread:Brot,red:rot,sun:Sonne,love:Liebe,good morning:guten Morgen",
    "Italian": "hello:ciao,goodbye:arrivederci,yes:si,no:no,water:acqua,house:casa,cat:gatto,dog:cane,thank you:grazie,friend:amico,bread:pane,red:rosso,sun:sole,love:amore,good morning:buongiorno",
}
WORDS = {language: dict(pair.split(":") for pair in words.split(",")) for language, words in WORDS.items()}
_OTHERS = "Dutch Polish Turkish Russian Chinese Japanese Arabic Greek Portuguese Swedish Hindi Korean Danish Finnish Czech Latin Hungarian Thai Hebrew Swahili".split()


def translation(r):
    if r.random() < 0.45:
        language = r.choice(list(WORDS))
        word = r.choice(list(WORDS[language]))
        return frame(r, "translate.word", word=word, language=language)[0], f"{sentence(word)} in {language} is {WORDS[language][word]}."
    language = r.choice(_OTHERS + list(WORDS))
    word = r.choice(COMMON)
    while word in WORDS.get(language, ()):
        word = r.choice(COMMON)
    return frame(r, "translate.word", word=word, language=language)[0], f"I do not know the {language} word for {word}."


SUBJECTS = ("the moon,the sea,a cat,my dog,the rain,autumn,winter,spring,a rose,the stars,my mother,my grandmother,coffee,a train,the wind,snow,a little bird,friendship,the night,the morning,a river,my bike,chocolate,a robot,school,the forest,a candle,an old house,summer,music,a butterfly,a mountain,bread,the city,my garden,a fish,computers,a tree,the sun,love,sleep,"
            "time,happiness,a frog,an elephant,my sister,the beach,a book,football,pizza,a king,a dragon,clouds,a horse,the kitchen,a teacher,my car,tea,a bee,the circus,Monday,cheese,a penguin,socks,the desert,a pirate,work,the circus").split(",")
# two lines that rhyme; {s} is the subject, {S} the same at the start of a sentence
VERSES = ["I think of {s} when day is done,\nand wait for the morning and the sun.", "I sing of {s} in the evening light,\nand dream of {s} all through the night.", "{S}, {s}, so dear to me,\nas deep and lovely as the sea.", "When I am sad and feeling blue,\nI think of {s} and dreams come true.", "Oh {s}, you make me smile,\nstay with me for a little while.", "I wrote a line for {s} today,\nto chase the clouds of gray away.", "Today I thought of {s} again,\nand smiled a little in the rain.", "{S} is on my mind, it is true,\nand so I wrote this verse for you.",
          "A song for {s}, a song so small,\nI sing it in the echoing hall.", "I looked for words, I looked all day,\nfor {s} I found them on the way.", "The world is wide, the sky is high,\nI think of {s} as birds go by.", "In all the world, in every place,\n{s} puts a smile upon my face."]


def subject(r):
    style = r.random()
    return r.choice(SUBJECTS) if style < 0.6 else article(r.choice(COMMON)) if style < 0.7 else f"my {wide.thing(r)}" if style < 0.8 else f"{r.choice(['the', 'my'])} {r.choice(wide.PETS)}" if style < 0.9 else wide.first_name(r)


def verse(r):
    s = subject(r)
    return frame(r, "verse.about", subject=s)[0], r.choice(VERSES).format(s=s, S=sentence(s))


STORIES = ["Once there was {s}. Everybody in the village knew about it. One day {n} came and said hello, and they all had tea.", "This is a story about {s}. {n} heard about it and wanted to know more. In the end, {n} went home happy.", "One morning, {n} woke up and thought of {s}. \"What a good day for an adventure!\" said {n}. In the evening, {n} was tired but glad.",
           "{n} had always dreamed of {s}. One night, the dream came true. {n} laughed and told everybody about it.", "Long ago, in a small town, there was {s}. {n} was the first to see it. From that day on, nobody was bored."]


def story(r):
    s, n = subject(r), wide.first_name(r)
    return frame(r, "story.about", subject=s)[0], r.choice(STORIES).format(s=s, n=n)


def definition(r):
    if r.random() < 0.6:
        category = r.choice([one for one in plainly.CATEGORIES if one not in plainly._BARE])
        word = r.choice(plainly.CATEGORIES[category])
        if article(word) in MEANINGS:
            return definition(r)
        return frame(r, "define.word", word=word, a_word=article(word))[0], f"{sentence(article(word))} is {article(category)}."
    if r.random() < 0.6:
        a_word, meaning = r.choice([(thing, meaning) for thing, meaning in MEANINGS.items() if thing.startswith(("a ", "an "))])
        return frame(r, "define.word", word=a_word.split(" ", 1)[1], a_word=a_word)[0], f"{sentence(a_word)} is {meaning}."
    word = made_up(r).lower()
    return frame(r, "define.word", word=word, a_word=article(word))[0], f"I do not know the word {word}."


def about_word(r):
    """Opposites, synonyms, rhymes, plurals and past tenses; words outside the tables are declined."""
    table, name, full, unknown = r.choice([(OPPOSITES, "word.opposite", "The opposite of {x} is {y}.", "I do not know the opposite of {x}."), (SYNONYMS, "word.synonym", "A synonym of {x} is {y}.", "I do not know another word for {x}."), (RHYMES, "rhyme.with", "{X} rhymes with {y}.", "I do not know a rhyme for {x}."),
                                           (PLURALS, "word.plural", "The plural of {x} is {y}.", None), (PAST, "word.past_tense", "The past tense of {x} is {y}.", None)])
    if unknown and r.random() < 0.12:
        x = made_up(r).lower()
        return frame(r, name, word=x)[0], unknown.format(x=x)
    x = r.choice(list(table))
    return frame(r, name, **{"verb" if name == "word.past_tense" else "word": x})[0], full.format(x=x, X=sentence(x), y=table[x])


def letters(r):
    word = r.choice(COMMON) if r.random() < 0.8 else made_up(r).lower()
    if r.random() < 0.5:
        return frame(r, "word.first_letter", word=word)[0], f"The first letter of {word} is {word[0].upper()}."
    return frame(r, "word.count_letters", word=word)[0], f"{shown_letters(word)}, {len(word)} letters."


def alphabetical(r):
    words = r.sample([word for word in COMMON if len(word) < 8], r.randint(3, 5))
    return frame(r, "word.alphabetical", words=", ".join(words))[0], ", ".join(sorted(words))


def opposites(r):
    words = r.sample(list(OPPOSITES), r.randint(2, 4))
    return frame(r, "list.opposites", words=r.choice([", ".join(words), listed(words)]))[0], "\n".join(f"{word}: {OPPOSITES[word]}" for word in words)


_SINGLE = {"countries": "country", "cities": "city", "berries": "berry"}


def with_letter(r):
    kind = r.choice(["animals", "fruits", "countries", "cities", "colors", "vegetables", "jobs", "birds", "flowers", "sports"])
    pool = POOLS[kind]
    letter = r.choice(pool)[0]
    item = next(one for one in pool if one[0].lower() == letter.lower())
    single = _SINGLE.get(kind, kind[:-1])
    return frame(r, "list.with_letter", category=single, letter=letter.upper() if r.random() < 0.7 else letter.lower())[0], f"{sentence(item)}."


def sequence(r):
    step, at, count = r.choice([1, 1, 2, 2, 3, 5, 10, 10, 4, 100, -1, -2]), r.randint(1, 30), r.randint(3, 5)
    at = at if step > 0 else at + 12
    found = [at + i * step for i in range(count + 1)]
    return frame(r, "number.next_in_sequence", sequence=", ".join(map(str, found[:-1])))[0], f"After {found[-2]} comes {found[-1]}."


def compared(r):
    a, b = r.sample(range(1, 100) if r.random() < 0.7 else range(1, 3000), 2)
    ask, wording = frame(r, "number.compare", a=a, b=b)
    less = any(word in wording.lower() for word in ("less", "smaller", "smallest", "lower", "least", "comes first", "fewer", "min"))
    return ask, f"{min(a, b) if less else max(a, b)} is {'less' if less else 'more'} than {max(a, b) if less else min(a, b)}."


def weekday(r):
    day, n = r.choice(DAYS), r.randint(2, 6)
    ask, wording = frame(r, "date.weekday_after", day=day, n=n)
    n = n if "{n}" in wording else 1
    at = DAYS.index(day)
    passed = [DAYS[(at + i) % 7] for i in range(1, n + 1)]
    if n == 1:
        return ask, f"After {day} comes {passed[0]}."
    return ask, f"{n} days after {day}: {', '.join(passed)}. It is {passed[-1]}."


UNITS = [("weeks", "days", 7), ("hours", "minutes", 60), ("minutes", "seconds", 60), ("days", "hours", 24), ("years", "months", 12), ("meters", "centimeters", 100), ("kilometers", "meters", 1000), ("kilograms", "grams", 1000), ("dollars", "cents", 100), ("dozens", "eggs", 12), ("decades", "years", 10), ("centuries", "years", 100)]


def unit(r):
    big, small, factor = r.choice(UNITS)
    n = r.choice([2, 2, 3, 3, 4, 5, 5, 6, 10])
    if factor in (24, 12) and n > 5:
        n = 2
    return frame(r, "unit.simple", n=n, big=big, small=small)[0], f"{n} x {factor} = {n * factor}, so {n} {big} are {n * factor} {small}."


def clock(r):
    hour, n = r.randint(1, 12), r.randint(1, 5)
    if r.random() < 0.6:
        half = r.choice(["am", "pm"])
        end = hour + n
        other = {"am": "pm", "pm": "am"}[half] if hour % 12 + n >= 12 else half
        return frame(r, "time.arithmetic", time=f"{hour} {half}", n=n, unit="hours" if n > 1 else "hour")[0], f"It is {(end - 1) % 12 + 1} {other}."
    hour, minutes, more = r.randint(6, 21), r.choice([0, 10, 15, 20, 30]), r.choice([5, 10, 15, 20, 30])
    total = minutes + more
    return frame(r, "time.arithmetic", time=f"{hour}:{minutes:02d}", n=more, unit="minutes")[0], f"It is {hour + total // 60}:{total % 60:02d}."


# Questions about things that nobody can know or that do not exist. The answers repeat words of the question.
_UNKNOWN = [("[what is|what's|whats] the capital of {m}", "I do not know a country called {m}."), ("who is {n}", "I do not know who {n} is."), ("who was {n}", "I do not know who {n} was."), ("what happened in {y}", "I do not know what happened in {y}."), ("how tall is {n}", "I do not know how tall {n} is."), ("where does {n} live", "I do not know where {n} lives."),
            ("how old is {n}", "I do not know how old {n} is."), ("what is {m}", "I do not know what {m} is."), ("where is {m}", "I do not know where {m} is."), ("how many people live [on the moon|on Mars|on the Sun|under the sea]", "Nobody lives there, as far as I know."), ("how many people live in {t}", "I do not know how many people live in {t}."), ("what is the weather in {t}", "I cannot see the weather in {t}."),
            ("what time is it in {t}", "I have no clock, so I do not know the time in {t}."), ("who is the mayor of {t}", "I do not know the mayor of {t}."), ("[what is the best|whats a good] [restaurant|hotel|museum] in {t}", "I do not know the [restaurants|hotels|museums] in {t}."), ("when was {n} born", "I do not know when {n} was born."), ("what is {n}'s [phone number|address|email|birthday]", "I do not know that about {n}."),
            ("what is in my {o}", "I cannot see your {o}."), ("where is my {o}", "You did not tell me where."), ("how much does a {o} cost", "I do not know what {a} costs."), ("who invented the {o}", "I do not know who invented the {o}."), ("which {o} should i buy", "I cannot say which {o} is best for you."), ("how do i repair my {o}", "I do not know how to repair {a}. Please ask somebody who can look at it."),
            ("[can you|could you] [buy|order|bring] me a {o}", "I can only write, so I cannot do that."), ("call {n} for me", "I cannot call anybody. I can only write."), ("send an email to {n}", "I cannot send messages. I can only write here."), ("what did {n} say [yesterday|to you|about me]", "I do not know what {n} said."), ("translate my letter to {m}", "I cannot translate texts."), ("what does {m} mean", "I do not know the word {m}.")]


def unsure(r):
    t, o, n = wide.town(r), wide.thing(r), f"{r.choice(wide.FIRST)} {r.choice(wide.SURNAMES)}" if r.random() < 0.7 else made_up(r)
    ask, said = r.choice(_UNKNOWN)
    given = dict(m=made_up(r, 2), n=n, y=r.randint(1100, 1900), t=t, o=o, a=article(o))
    if "[restaurant|" in ask:
        kind = r.choice(["restaurant", "hotel", "museum"])
        ask, said = ask.replace("[restaurant|hotel|museum]", kind), said.replace("[restaurants|hotels|museums]", kind + "s")
    return noisy(r, sentence(pick(r, ask).format(**given)) + "?" * (r.random() < 0.6), prefix=r.random() < 0.2) if r.random() < 0.3 else pick(r, ask).format(**given) + r.choice(["?", "?", ""]), said.format(**given)


def sums(r):
    ask, _, full, _, _ = plainly.arithmetic(r)
    return ask, full


MAKERS = [(translation, 6), (verse, 5), (story, 2), (definition, 3), (about_word, 5), (letters, 3), (alphabetical, 2), (opposites, 2), (with_letter, 2), (sequence, 3), (compared, 3), (weekday, 3), (unit, 2), (clock, 1.5), (sums, 3), (unsure, 7)]


def asked(r):
    return r.choices(*zip(*MAKERS))[0](r)
