"""Small tasks with words beyond those in requests.py, also with computed answers. A word whose letters matter is
spelled out first."""
import re

from .facts import ORDER, PAST
from .phrases import sentence
from .requests import COMMON, EVERYDAY, POOLS, _around, backwards_of, changed, line, shown_letters, spelled, turned_word, word_of
from .words import NAMES, listed, made_up


def quoted(r, text):
    return r.choice(["{}", "{}", "{}", "'{}'", '"{}"']).format(text)


PHRASES = ["hello world", "good morning", "thank you", "i love you", "happy birthday", "hello there", "see you soon", "well done", "i am here", "the cat", "good night", "hello my friend", "how are you", "stop", "no way"]


def case(r):
    """Upper and lower case."""
    text = r.choice([word_of(r), word_of(r), word_of(r), word_of(r), f"{word_of(r)} {word_of(r)}", r.choice(PHRASES), r.choice(PHRASES), line(r), r.choice(NAMES).lower()])
    if r.random() < 0.7:
        ask = r.choice(["{} in uppercase", "{} in capital letters", "{} in upper case", "{} in caps", "write {} in capital letters", "write {} in uppercase", "write {} in caps", "write {} in big letters", "turn {} into capital letters", "make {} uppercase", "make {} all caps", "put {} in capitals", "uppercase {}", "convert {} to uppercase", "change {} to capital letters", "say {} in all caps",
                        "can you write {} in capital letters?", "please write {} in uppercase", "can you make {} uppercase?", "capital letters: {}", "to uppercase: {}", "all caps: {}", "type {} in capital letters", "what is {} in capital letters?", "how does {} look in capital letters?", "i want {} in capital letters"])
        return _around(r, ask, quoted(r, text)), changed(text, text.upper())
    ask = r.choice(["{} in lowercase", "{} in small letters", "{} in lower case", "write {} in small letters", "write {} in lowercase", "make {} lowercase", "turn {} into small letters", "convert {} to lowercase", "lowercase {}", "can you write {} in lowercase?", "please write {} in small letters", "small letters: {}", "to lowercase: {}", "change {} to lower case"])
    return _around(r, ask, quoted(r, text.upper())), changed(text.upper(), text.lower())


def first_letter(r):
    text = r.choice([word_of(r), word_of(r), r.choice(NAMES).lower()])
    return _around(r, r.choice(["capitalize {}", "capitalize the word {}", "write {} with a capital letter", "make the first letter of {} big", "capitalize the first letter of {}", "{} with a capital letter"]), quoted(r, text)), changed(text, sentence(text))


def backwards(r):
    short = turned_word(r)
    ask = r.choice(["{} backwards", "{} spelled backwards", "{} in reverse", "what is the reverse of {}?", "what is {} spelled backwards?", "turn {} around", "turn the word {} around", "flip the word {}", "mirror {}", "can you reverse {}?", "can you spell {} backwards?", "write {} in reverse", "write the word {} backwards", "reverse the letters of {}", "reverse this word: {}", "reverse: {}", "backwards: {}", "say the word {} backwards",
                    "please reverse {}", "how do you spell {} backwards?", "how do you write {} backwards?", "put the letters of {} in reverse order", "read {} from the end", "what does {} look like backwards?"])
    return _around(r, ask, quoted(r, short)), backwards_of(short)


def nth_letter(r):
    word = word_of(r)
    at = r.randrange(min(len(word), 5))
    n = ORDER[at] if r.random() < 0.8 else f"{at + 1}{'st nd rd th th'.split()[at]}"
    return _around(r, r.choice([f"what is the {n} letter of {{}}?", f"what is the {n} letter in {{}}?", f"{n} letter of {{}}", f"which letter is the {n} in {{}}?", f"tell me the {n} letter of {{}}", f"what's the {n} letter in the word {{}}?"]), quoted(r, word)), f"{shown_letters(word)}, the {ORDER[at]} letter is {word[at].upper()}."


def vowels(r):
    word = word_of(r)
    found = [letter.upper() for letter in word if letter in "aeiou"]
    if not found:
        return vowels(r)
    ask = r.choice(["how many vowels are in {}?", "how many vowels does {} have?", "count the vowels in {}", "what are the vowels in {}?", "which vowels are in {}?", "vowels in {}"])
    return _around(r, ask, quoted(r, word)), f"{shown_letters(word)}, the {'vowels are' if len(found) > 1 else 'vowel is'} {listed(found)}, so {len(found)}."


def contains(r):
    word, letter = word_of(r), r.choice("aeioutsrnlmbcdghkpwxz")
    has = letter in word
    shown = letter.upper() if r.random() < 0.5 else letter
    ask = r.choice([f"is there a {shown} in {{}}?", f"does {{}} contain the letter {shown}?", f"does {{}} have a {shown}?", f"is the letter {shown} in {{}}?", f"is {shown} in the word {{}}?", f"does the word {{}} contain {shown}?"])
    return _around(r, ask, quoted(r, word)), f"{shown_letters(word)}, {'yes' if has else 'no'}, the letter {letter.upper()} is {'' if has else 'not '}in {word}."


def unspelled(r):
    word = word_of(r)
    letters = r.choice([spelled(word), "-".join(word), " ".join(word), " ".join(word.upper()), ", ".join(word.upper())])
    return _around(r, r.choice(["what word is {}?", "what does {} spell?", "which word is spelled {}?", "put these letters together: {}", "what word do you get from {}?", "{} spells what?", "join these letters: {}", "read this word: {}", "the letters {} make which word?"]), letters), word


def words_counted(r):
    text = r.choice([line(r), line(r), " ".join(r.sample(EVERYDAY, r.randint(2, 5))), f"i like {r.choice(EVERYDAY)}"])
    words = text.split()
    return _around(r, r.choice(["how many words are in this: {}", "how many words are in {}?", "count the words: {}", "count the words in {}", "how many words does this have: {}", "number of words: {}", "how many words: {}"]), f'"{text}"' if r.random() < 0.5 else text), f"{', '.join(words)}: {len(words)} words."


def at_the_end(r):
    text = line(r)
    words = text.split()
    first = r.random() < 0.4
    return _around(r, r.choice(["what is the {n} word of: {}", "what is the {n} word in {}?", "the {n} word of {}", "which word is {n}: {}", "tell me the {n} word: {}"]).replace("{n}", "first" if first else "last"), f'"{text}"' if r.random() < 0.4 else text), f"The {'first' if first else 'last'} word is {words[0 if first else -1]}."


def replaced(r):
    old, new = r.sample(["cat", "dog", "bird", "horse", "boy", "girl", "teacher", "king", "doctor", "baker", "fox"], 2)
    rest = r.choice(["sleeps on the sofa", "eats an apple", "reads a book", "likes music", "runs to school", "sings a song", "lives in Paris", "drinks milk", "is happy", "is in the garden", "sees the moon"])
    return _around(r, r.choice([f"replace {old} with {new}: {{}}", f"replace {old} with {new} in: {{}}", f"replace the word {old} with {new}: {{}}", f"change {old} to {new}: {{}}", f"write {new} for {old}: {{}}", f"swap {old} for {new} in: {{}}"]), f"The {old} {rest}."), f"The {new} {rest}."


_NOT = {"sleeps": "sleep", "eats": "eat", "reads": "read", "likes": "like", "plays": "play", "drinks": "drink", "runs": "run", "sings": "sing", "opens": "open", "lives": "live", "walks": "walk", "buys": "buy", "looks": "look"}


def negative(r):
    text = line(r)
    verb = next(word for word in text.split() if word in _NOT)
    who, rest = text.split(f" {verb} ", 1)
    return _around(r, r.choice(["make this negative: {}", "say the opposite: {}", "negate: {}", "put not into this sentence: {}", "make it negative: {}", "write the negative of: {}", "turn this into a negative sentence: {}"]), f"{sentence(who)} {verb} {rest}."), f"{sentence(who)} does not {_NOT[verb]} {rest}."


def past(r):
    base, then = r.choice([(verb, form) for verb, form in PAST.items() if verb in "go see eat run take give make write read sing drink buy find drive sleep play walk sit".split()])
    rest = {"go": "to school", "see": "a bird", "eat": "an apple", "run": "fast", "take": "the bus", "give": "me a book", "make": "a cake", "write": "a letter", "read": "a book", "sing": "a song", "drink": "tea", "buy": "bread", "find": "a coin", "drive": "to work", "sleep": "well", "play": "football", "walk": "home", "sit": "here"}[base]
    who = r.choice(["I", "we", "they", "you"])
    text = f"{sentence(who)} {base} {rest}."
    return _around(r, r.choice(["put this in the past: {}", "past tense: {}", "change to past tense: {}", "write this in the past tense: {}", "make this past tense: {}", "put into past tense: {}", "rewrite in the past: {}"]), text), f"{sentence(who)} {then} {rest}."


def longer(r):
    a, b = r.sample(COMMON, 2)
    if len(a) == len(b):
        return longer(r)
    long = r.random() < 0.7
    one = (max if long else min)((a, b), key=len)
    return r.choice(["which word is {n}, {a} or {b}?", "which is the {n} word: {a} or {b}?", "{n} word: {a} or {b}?", "is {a} or {b} {n}?"]).format(n="longer" if long else "shorter", a=a, b=b), f"{one} is {'longer' if long else 'shorter'}."


def sooner(r):
    a, b = r.sample(COMMON, 2)
    return r.choice(["which comes first in the alphabet, {a} or {b}?", "what comes first in the dictionary, {a} or {b}?", "which word comes first, {a} or {b}?"]).format(a=a, b=b), f"{min(a, b)} comes first."


def palindrome(r):
    word = r.choice("level noon radar civic kayak madam refer eye wow mom dad pop deed racecar".split()) if r.random() < 0.5 else r.choice([word for word in COMMON if len(word) <= 6])
    same = word == word[::-1]
    return _around(r, r.choice(["is {} a palindrome?", "is the word {} a palindrome?", "is {} the same backwards?", "does {} read the same backwards?"]), quoted(r, word)), f"{shown_letters(word)}, backwards {spelled(word[::-1])}: {'yes' if same else 'no'}, {word} is {'' if same else 'not '}a palindrome."


def said(r):
    """Repeats the user's words, with different quotation marks and commands from those in requests.rewrite."""
    text = r.choice([word_of(r), f"{word_of(r)} {word_of(r)}", line(r), made_up(r), r.choice(NAMES), str(r.randint(1, 999)), r.choice(["hello world", "good morning", "i love you", "abc", "yes", "no", "ok", "test", "one two three"])])
    return _around(r, r.choice(["say {}", "just say {}", "repeat {}", "please repeat {}", "repeat after me: {}", "can you say {}?", "can you repeat {}?", "answer only with {}", "reply only with {}", "respond with {}", "only say {}", "write only {}", "say exactly {}", "print {}", "output {}", "return {}", "write {} and nothing else", "say {} and nothing else", "please write {}", "type {}", "echo {}"]), quoted(r, text)), text


# which thing is of which kind, as nearly everybody would answer
KINDS = {"fruit": "apple banana orange pear cherry grape lemon peach mango".split(), "animal": "dog cat horse cow lion tiger bear fox mouse sheep bird fish".split(), "color": "red blue green yellow purple black white pink".split(), "vehicle": "car bus train bicycle truck plane boat".split(),
         "vegetable": "carrot potato onion tomato cucumber cabbage".split(), "piece of clothing": "shirt hat jacket dress coat scarf".split(), "piece of furniture": "table chair bed sofa desk lamp".split(), "body part": "head arm leg hand foot nose".split(), "drink": "water tea coffee milk juice".split(), "tool": "hammer saw drill knife".split(),
         "country": "France Germany Italy Spain Japan Egypt".split(), "city": "Paris London Rome Berlin Tokyo Madrid".split(), "day": "Monday Tuesday Friday Sunday".split(), "number": "one two three four five seven".split(), "instrument": "piano guitar violin flute".split(), "planet": "Mars Venus Jupiter Saturn".split(), "flower": "rose tulip daisy lily".split(), "sport": "football tennis hockey golf".split(), "month": "January March May July".split()}
_KIND_NAMES = list(KINDS)


def _a(word):
    return ("an " if word[0].lower() in "aeiou" else "a ") + word


def odd_one(r):
    kind, other = r.sample(_KIND_NAMES, 2)
    words = r.sample(KINDS[kind], r.choice([2, 3, 3])) + [r.choice(KINDS[other])]
    odd = words[-1]
    r.shuffle(words)
    return r.choice(["which word does not belong: {}", "which one does not belong: {}?", "which does not fit: {}?", "find the odd one out: {}", "odd one out: {}", "what is the odd one out: {}?", "which word is different: {}?", "which one is not like the others: {}?", "which of these does not belong: {}?", "what does not belong here: {}?", "which does not belong, {}?"]).format(r.choice([", ".join(words), listed(words, "or"), " ".join(words), ", ".join(words)])), f"{odd} does not belong. It is {_a(other)}."


def which_is(r):
    kind, *others = r.sample(_KIND_NAMES, 3)
    word = r.choice(KINDS[kind])
    words = [word] + [r.choice(KINDS[other]) for other in others[:r.choice([1, 2, 2])]]
    r.shuffle(words)
    return r.choice([f"which of these is {_a(kind)}: {{}}?", f"which is {_a(kind)}: {{}}?", f"which one is {_a(kind)}, {{}}?", f"which word is {_a(kind)}: {{}}?", f"find the {kind}: {{}}", f"pick the {kind} from this list: {{}}", f"which of these words is {_a(kind)}: {{}}", f"which is the {kind}: {{}}?", f"what is {_a(kind)} here: {{}}?"]).format(r.choice([", ".join(words), listed(words, "or")])), f"{word} is {_a(kind)}."


def what_kind(r):
    kind, other = r.sample(_KIND_NAMES, 2)
    word = r.choice(KINDS[kind])
    thing = word if kind in ("color", "country", "city", "day", "number", "planet", "sport", "month", "drink") else _a(word)
    return r.choice([f"is {thing} {_a(kind)} or {_a(other)}?", f"is {thing} {_a(other)} or {_a(kind)}?", f"what kind of thing is {thing}?", f"what is {thing}, {_a(kind)} or {_a(other)}?", f"{word}: {kind} or {other}?", f"which category is {word}?", f"what category does {word} belong to?", f"is {thing} {_a(kind)}?"]), f"{word} is {_a(kind)}."


def several_times(r):
    n = r.choice([2, 2, 3, 3, 3, 3, 4, 5, 5])
    word = r.choice(["hello", "hi", "yes", "no", "test", "cat", "dog", "apple", "banana", "ok", "thanks", "bye", "love", "ping", "la", "ha", "hey", "please", "sorry", "word"]) if r.random() < 0.8 else word_of(r)
    count = r.choice([f"{n} times", f"{'zero one two three four five'.split()[n]} times"] + (["twice"] if n == 2 else []))
    return r.choice([f"say {{}} {count}", f"write {{}} {count}", f"repeat {{}} {count}", f"repeat the word {{}} {count}", f"say the word {{}} {count}", f"can you say {{}} {count}?", f"please write {{}} {count}", f"type {{}} {count}", f"write the word {{}} {count}", f"print {{}} {count}"]).replace("{}", quoted(r, word)), " ".join([word] * n)


GRADES = {"big": "bigger biggest", "small": "smaller smallest", "good": "better best", "bad": "worse worst", "fast": "faster fastest", "tall": "taller tallest", "happy": "happier happiest", "old": "older oldest", "hot": "hotter hottest", "cold": "colder coldest", "long": "longer longest", "short": "shorter shortest", "strong": "stronger strongest", "easy": "easier easiest", "nice": "nicer nicest", "high": "higher highest", "new": "newer newest", "young": "younger youngest", "slow": "slower slowest", "warm": "warmer warmest"}


def graded(r):
    word = r.choice(list(GRADES))
    more, most = GRADES[word].split()
    if r.random() < 0.5:
        return r.choice(["what is the comparative of {}?", "comparative of {}", "comparative form of {}", "the comparative of {}?", "give me the comparative of {}"]).replace("{}", quoted(r, word)), f"The comparative of {word} is {more}."
    return r.choice(["what is the superlative of {}?", "superlative of {}", "superlative form of {}", "the superlative of {}?", "give me the superlative of {}"]).replace("{}", quoted(r, word)), f"The superlative of {word} is {most}."


GRAMMAR = {"he go to school": "He goes to school.", "she go home": "She goes home.", "she dont like it": "She does not like it.", "he dont know": "He does not know.", "i has a dog": "I have a dog.", "i has an apple": "I have an apple.", "he have a car": "He has a car.", "she have two cats": "She has two cats.", "they was here": "They were here.", "we was happy": "We were happy.", "you was late": "You were late.", "i is tired": "I am tired.", "i are happy": "I am happy.", "he are nice": "He is nice.", "they is my friends": "They are my friends.", "me like pizza": "I like pizza.",
           "i goed to the park": "I went to the park.", "he eated an apple": "He ate an apple.", "i seen a bird": "I saw a bird.", "she buyed a book": "She bought a book.", "he runned fast": "He ran fast.", "two mouses": "Two mice.", "two childs": "Two children.", "three foots": "Three feet.", "i want a apple": "I want an apple.", "this is a orange": "This is an orange.", "she sing well": "She sings well.", "he like music": "He likes music.", "the cat sleep": "The cat sleeps.", "the dogs runs": "The dogs run.", "there is two books": "There are two books.", "what is you name": "What is your name?", "how are you doing today i am fine": "How are you doing today? I am fine.",
           "i dont have no money": "I do not have any money.", "your nice": "You are nice.", "its a nice day": "It is a nice day.", "we goes home": "We go home.", "he can sings": "He can sing.", "she is more big": "She is bigger.", "i am go home": "I am going home.", "where you are from": "Where are you from?", "he not like tea": "He does not like tea."}


def grammar(r):
    bad = r.choice(list(GRAMMAR))
    ask = r.choice(["fix the grammar: {}", "correct the grammar: {}", "correct this sentence: {}", "fix this sentence: {}", "correct my grammar: {}", "fix my grammar: {}", "is this correct: {}", "correct: {}", "fix: {}", "what is wrong with this: {}", "correct my english: {}", "make this correct: {}", "check my grammar: {}", "grammar check: {}", "can you fix this: {}", "please correct this sentence: {}", "rewrite correctly: {}"])
    return _around(r, ask, quoted(r, r.choice([bad, sentence(bad), sentence(bad) + "."]))), GRAMMAR[bad]


def about_a(r):
    """A sentence about a thing."""
    kind = r.choice(["animal", "animal", "animal", "fruit", "vehicle", "drink", "piece of furniture", "flower"])
    word = r.choice(KINDS[kind])
    said = {"animal": "The {} sleeps in the sun.", "fruit": "The {} is sweet and fresh.", "vehicle": "The {} is fast and red.", "drink": "I drink {} in the morning.", "piece of furniture": "The {} is in my room.", "flower": "The {} is red and smells good."}[kind].format(word)
    return r.choice([f"write a sentence about {_a(word)}", f"write one sentence about {word}s", f"a sentence about {_a(word)}", f"make a sentence about {_a(word)}", f"write a short sentence about {_a(word)}", f"give me a sentence about {_a(word)}", f"can you write a sentence about {_a(word)}?", f"say something about {_a(word)}", f"write something about {_a(word)}"]), said


OF_LENGTH = {"two": "to", "three": "cat", "four": "book", "five": "apple", "six": "garden", "seven": "morning", "eight": "elephant"}


def of_length(r):
    n = r.choice(list(OF_LENGTH))
    shown = n if r.random() < 0.6 else str("zero one two three four five six seven eight".split().index(n))
    return r.choice([f"give me a word with {shown} letters", f"a word with {shown} letters", f"a {shown} letter word", f"a {shown}-letter word", f"tell me a {shown} letter word", f"name a word with {shown} letters", f"do you know a word with {shown} letters?", f"write a word with {shown} letters", f"say a {shown}-letter word", f"think of a word that has {shown} letters"]), f"{OF_LENGTH[n]}: {spelled(OF_LENGTH[n])}, {n} letters."


INITIALS = dict(zip("abcdefghijklmnopqrstuvwyz", "apple banana cat dog elephant fish garden house ice juice king lemon mouse night orange pizza queen rain sun tree umbrella violin water yellow zebra".split()))


def initial(r):
    letter = r.choice(list(INITIALS))
    shown = letter.upper() if r.random() < 0.6 else letter
    return r.choice([f"a word that starts with {shown}", f"give me a word that starts with {shown}", f"tell me a word that begins with {shown}", f"word with {shown}", f"a word with the letter {shown}", f"name a word that starts with the letter {shown}", f"say a word beginning with {shown}", f"which word starts with {shown}?", f"do you know a word that starts with {shown}?", f"write a word starting with {shown}", f"one word that starts with {shown}"]), f"{sentence(INITIALS[letter])}."


_STARTS = {}
for _word in sorted({*COMMON, *EVERYDAY}, key=lambda w: (len(w), w)):
    if 3 <= len(_word) <= 6 and _word.isalpha():
        _STARTS.setdefault(_word[0], []).append(_word)


def initials(r):
    """Several words with the same first letter: always the same words, in the same order."""
    letter = r.choice([c for c in _STARTS if len(_STARTS[c]) >= 5])
    n = r.choice([2, 3, 3, 3, 4, 5])
    shown = letter.upper() if r.random() < 0.5 else letter
    count = "zero one two three four five".split()[n] if r.random() < 0.6 else n
    return r.choice([f"give me {count} words that start with {shown}", f"{count} words that start with {shown}", f"name {count} words beginning with {shown}", f"list {count} words that begin with the letter {shown}", f"tell me {count} words with {shown}", f"write {count} words starting with {shown}", f"can you say {count} words that start with {shown}?", f"{count} words with the letter {shown}"]), sentence(listed(_STARTS[letter][:n])) + "."


def several(r):
    """Plurals by rule."""
    word = r.choice("box bus fox dish watch class glass dress church brush kiss wish match bench cat dog car book house tree apple banana cup table bed pen ball star hand door shoe day key boy toy city baby story lady party country family cherry potato tomato hero".split())
    many = word + "es" if word.endswith(("x", "s", "sh", "ch", "o")) else word[:-1] + "ies" if word.endswith("y") and word[-2] not in "aeo" else word + "s"
    return r.choice(["plural of {}", "what is the plural of {}?", "what's the plural of {}?", "make {} plural", "make a plural of {}", "the plural form of {}", "write the plural of {}", "more than one {} is called?", "one {}, two ...?", "put {} in the plural"]).replace("{}", quoted(r, word)), f"The plural of {word} is {many}."


SUCH = {"fruit": {"red": "cherry", "yellow": "banana", "green": "lime", "orange": "orange", "sour": "lemon", "small": "grape", "sweet": "mango"}, "vegetable": {"green": "cucumber", "orange": "carrot", "red": "tomato"}, "animal": {"big": "elephant", "small": "mouse", "wild": "lion", "slow": "turtle", "fast": "cheetah", "grey": "elephant", "white": "swan"},
        "bird": {"white": "swan", "black": "crow", "big": "ostrich", "green": "parrot"}, "drink": {"hot": "tea", "cold": "juice", "white": "milk"}, "thing": {"round": "ball", "soft": "pillow", "hot": "fire", "cold": "ice", "sharp": "knife", "red": "rose", "heavy": "stone", "blue": "sky"}, "animal ": {"flies": "bird", "swims": "fish", "barks": "dog", "jumps": "frog", "says moo": "cow", "gives milk": "cow", "lives in the sea": "whale", "can fly": "bird", "lives in water": "fish", "eats grass": "sheep"}}


def such(r):
    """One thing of a kind with the requested property."""
    kind = r.choice(list(SUCH))
    how, thing = r.choice(list(SUCH[kind].items()))
    which = f"that {how}" if kind.endswith(" ") else f"that is {how}"
    kind = kind.strip()
    return r.choice([f"name {_a(kind)} {which}", f"{_a(kind)} {which}", f"tell me {_a(kind)} {which}", f"which {kind} {which.removeprefix('that ')}?", f"give me {_a(kind)} {which}", f"do you know {_a(kind)} {which}?", f"can you name {_a(kind)} {which}?", f"what is {_a(kind)} {which}?"]), f"{sentence(thing)}."


_TIRED = [("was tired", "went to sleep"), ("was hungry", "ate an apple"), ("was late", "took the bus"), ("was cold", "put on a coat"), ("was happy", "sang a song"), ("was sick", "stayed at home"), ("was bored", "read a book"), ("was thirsty", "drank water"), ("lost the key", "waited outside"), ("liked music", "learned the piano"), ("heard a noise", "opened the window"), ("had no money", "walked home")]


def summed_up(r):
    """A sentence with two parts, in fewer words."""
    who, (was, did) = r.choice(["the dog", "the cat", "the boy", "my sister", "the teacher", "the old man", "the girl", "my friend", "Anna", "Ben", "the king", "the farmer"]), r.choice(_TIRED)
    it = {"the dog": "it", "the cat": "it", "the boy": "he", "the old man": "he", "Ben": "he", "the king": "he", "my sister": "she", "the girl": "she", "Anna": "she"}.get(who, "they")
    text = r.choice([f"{who} {was} so {it} {did}", f"{who} {was}, so {it} {did}", f"because {who} {was}, {it} {did}", f"{who} {was} and because of that {it} {did}", f"{who} {was}. then {it} {did}"])
    return _around(r, r.choice(["summarize: {}", "summarize this: {}", "sum this up: {}", "make this shorter: {}", "shorten: {}", "in short: {}", "say this in fewer words: {}", "summarise: {}", "give me a summary: {}", "tl;dr: {}", "shorten this sentence: {}"]), sentence(text) + r.choice([".", ""])), f"{sentence(who)} {was} and {did}."


def alphabet_part(r):
    n = r.randint(2, 7)
    count, last = ("zero one two three four five six seven".split()[n] if r.random() < 0.6 else n), r.random() < 0.25
    letters = list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[-n:] if last else "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:n])
    where = "last" if last else "first"
    return r.choice([f"what are the {where} {count} letters of the alphabet?", f"the {where} {count} letters of the alphabet", f"name the {where} {count} letters of the alphabet", f"write the {where} {count} letters of the alphabet", f"{where} {count} letters of the alphabet?", f"tell me the {where} {count} letters in the alphabet"]), ", ".join(letters)


def without(r):
    """Removes one of a few words."""
    words = r.sample(COMMON, r.randint(3, 4))
    gone = r.choice(words)
    return r.choice([f"remove {gone} from this list: {{}}", f"remove the word {gone}: {{}}", f"leave out {gone}: {{}}", f"delete {gone} from: {{}}", f"take {gone} out of this list: {{}}"]).replace("{}", ", ".join(words)), ", ".join(word for word in words if word != gone)


SHORTER = {"do not": "don't", "I am": "I'm", "it is": "it's", "cannot": "can't", "we are": "we're", "you are": "you're", "they are": "they're", "is not": "isn't", "are not": "aren't", "will not": "won't", "I will": "I'll", "she is": "she's", "he is": "he's", "that is": "that's", "did not": "didn't", "does not": "doesn't", "I have": "I've", "let us": "let's"}


def contracted(r):
    long = r.choice(list(SHORTER))
    if r.random() < 0.7:
        return _around(r, r.choice(["what is the short form of {}?", "short form of {}", "contraction of {}", "what is the contraction of {}?", "write {} shorter", "shorten {}", "make a contraction of {}", "contract {}"]), quoted(r, long)), SHORTER[long]
    return _around(r, r.choice(["what is the long form of {}?", "long form of {}", "what does {} mean?", "what is {} short for?", "write {} in full"]), quoted(r, SHORTER[long])), long


JOINED = "sun flower,rain bow,foot ball,snow man,tooth brush,book shop,water melon,butter fly,rain coat,note book,moon light,sun shine,air port,bed room,class room,cup cake,pan cake,key board,news paper,birth day,week end,fire man,star fish,gold fish,hand bag,bath room".split(",")


def joined(r):
    a, b = r.choice(JOINED).split()
    if r.random() < 0.6:
        return r.choice([f"combine {a} and {b}", f"join {a} and {b}", f"put {a} and {b} together", f"what word do {a} and {b} make?", f"{a} + {b} = ?", f"{a} plus {b} makes which word?", f"combine the words {a} and {b}", f"what do you get from {a} and {b}?", f"make one word of {a} and {b}"]), a + b
    return r.choice([f"which two words are in {a}{b}?", f"split {a}{b} into two words", f"what words are in {a}{b}?", f"the two words in {a}{b}?", f"break {a}{b} into two words"]), f"{a} and {b}"


PAIRS = dict(pair.split(":") for pair in "king:queen,prince:princess,man:woman,boy:girl,father:mother,brother:sister,uncle:aunt,son:daughter,husband:wife,grandfather:grandmother,actor:actress,bull:cow,rooster:hen,lion:lioness,dad:mom,waiter:waitress,sir:madam".split(","))


def paired(r):
    male, female = r.choice(list(PAIRS.items()))
    if r.random() < 0.55:
        return r.choice([f"what is the female of {male}?", f"feminine of {male}", f"what is the feminine form of {male}?", f"female form of {male}", f"female version of {male}?", f"what do you call a female {male}?", f"{male} is to man as what is to woman?"]), f"The female of {male} is {female}."
    return r.choice([f"what is the male of {female}?", f"masculine of {female}", f"what is the masculine form of {female}?", f"male form of {female}", f"male version of {female}?", f"what do you call a male {female}?"]), f"The male of {female} is {male}."


WORD_KINDS = {"noun": "dog house table book city water friend school car apple".split(), "verb": "run eat sleep write sing walk jump read speak buy".split(), "adjective": "big red happy small fast beautiful old cold clever sad".split(), "adverb": "quickly slowly loudly often".split(), "pronoun": "he she they we".split(), "preposition": "under between".split()}


def word_kind(r):
    kind, other = r.choice(["noun", "noun", "verb", "verb", "adjective", "adjective", "adverb", "pronoun", "preposition"]), r.choice(["noun", "verb", "adjective"])
    word, other = r.choice(WORD_KINDS[kind]), other if other != kind else "adverb"
    return r.choice(["what part of speech is {}?", "what type of word is {}?", "what kind of word is {}?", f"is {{}} {_a(kind)} or {_a(other)}?", f"is {{}} {_a(other)} or {_a(kind)}?", f"is {{}} {_a(kind)}?", "which word class is {}?", f"is the word {{}} {_a(other)} or {_a(kind)}?"]).replace("{}", quoted(r, word)), f"{word} is {_a(kind)}."


def title(r):
    word = r.choice(KINDS["animal"] + ["king", "queen", "robot", "girl", "boy", "dragon", "house", "garden", "ship", "moon"])
    return r.choice([f"give me a title for a story about {_a(word)}", f"title for a story about {_a(word)}", f"suggest a title for a book about {_a(word)}", f"what is a good title for a story about {_a(word)}?", f"i need a title for a book about {_a(word)}", f"name a story about {_a(word)}", f"make a title for a poem about {_a(word)}"]), f"The Little {sentence(word)}"


MAKERS = [(case, 36), (backwards, 22), (nth_letter, 4), (vowels, 3), (contains, 1), (unspelled, 3), (words_counted, 3), (at_the_end, 3), (replaced, 3), (negative, 3), (past, 4), (longer, 1), (sooner, 0.5), (palindrome, 0.5), (first_letter, 3), (said, 14),
          (odd_one, 3), (which_is, 5), (what_kind, 3), (several_times, 9), (graded, 4), (grammar, 10), (about_a, 4), (of_length, 1), (initial, 4), (contracted, 1.5), (joined, 1.5), (paired, 1), (word_kind, 4), (title, 0.7), (initials, 4), (several, 4), (without, 1.5), (such, 5), (summed_up, 4), (alphabet_part, 1.5)]


def wordplay(r):
    """(question, answer)"""
    ask, answer = r.choices(*zip(*MAKERS))[0](r)
    if r.random() < 0.3 and re.search(r"\w[?.]$", ask) and not ask.endswith('."'):
        ask = ask[:-1] if ask[-1] == "?" else ask
    style = r.random()
    if style < 0.2 and ask[1:2].islower():
        ask = ask[0].lower() + ask[1:]
    elif 0.2 < style < 0.3 and ask[1:2].islower():
        ask = r.choice(["hi, ", "hey, ", "ok, ", "please ", "now ", "hello, ", "and now: "]) + ask[0].lower() + ask[1:]
    return ask, answer
