"""Small tasks with words beyond those of requests.py, whose answers are computed too. A word whose letters matter is spelled first."""
import re

from .facts import ORDER, PAST
from .phrases import sentence
from .requests import COMMON, EVERYDAY, FIRST_WORDS, _around, line, spelled, word_of
from .words import NAMES, listed, made_up


def quoted(r, text):
    return r.choice(["{}", "{}", "{}", "'{}'", '"{}"']).format(text)


def case(r):
    """Capital and small letters."""
    text = r.choice([word_of(r), word_of(r), f"{word_of(r)} {word_of(r)}", r.choice(["hello world", "good morning", "thank you", "i love you", "happy birthday", "hello there", "see you soon", "well done"]), line(r), r.choice(NAMES).lower()])
    if r.random() < 0.7:
        ask = r.choice(["{} in uppercase", "{} in capital letters", "{} in upper case", "{} in caps", "write {} in capital letters", "write {} in uppercase", "write {} in caps", "write {} in big letters", "turn {} into capital letters", "make {} uppercase", "make {} all caps", "put {} in capitals", "uppercase {}", "convert {} to uppercase", "change {} to capital letters", "say {} in all caps",
                        "can you write {} in capital letters?", "please write {} in uppercase", "can you make {} uppercase?", "capital letters: {}", "to uppercase: {}", "all caps: {}", "type {} in capital letters", "what is {} in capital letters?", "how does {} look in capital letters?", "i want {} in capital letters"])
        return _around(r, ask, quoted(r, text)), text.upper()
    ask = r.choice(["{} in lowercase", "{} in small letters", "{} in lower case", "write {} in small letters", "write {} in lowercase", "make {} lowercase", "turn {} into small letters", "convert {} to lowercase", "lowercase {}", "can you write {} in lowercase?", "please write {} in small letters", "small letters: {}", "to lowercase: {}", "change {} to lower case"])
    return _around(r, ask, quoted(r, text.upper())), text.lower()


def first_letter(r):
    text = r.choice([word_of(r), word_of(r), r.choice(NAMES).lower()])
    return _around(r, r.choice(["capitalize {}", "capitalize the word {}", "write {} with a capital letter", "make the first letter of {} big", "capitalize the first letter of {}", "{} with a capital letter"]), quoted(r, text)), sentence(text)


def backwards(r):
    short = r.choice([word for word in (FIRST_WORDS if r.random() < 0.65 else EVERYDAY if r.random() < 0.3 else COMMON) if len(word) <= 7])
    ask = r.choice(["{} backwards", "{} spelled backwards", "{} in reverse", "what is the reverse of {}?", "what is {} spelled backwards?", "turn {} around", "turn the word {} around", "flip the word {}", "mirror {}", "can you reverse {}?", "can you spell {} backwards?", "write {} in reverse", "write the word {} backwards", "reverse the letters of {}", "reverse this word: {}", "reverse: {}", "backwards: {}", "say the word {} backwards",
                    "please reverse {}", "how do you spell {} backwards?", "how do you write {} backwards?", "put the letters of {} in reverse order", "read {} from the end", "what does {} look like backwards?"])
    return _around(r, ask, quoted(r, short)), f"{spelled(short)}, backwards {spelled(short[::-1])}: {short[::-1]}"


def nth_letter(r):
    word = word_of(r)
    at = r.randrange(min(len(word), 5))
    n = ORDER[at] if r.random() < 0.8 else f"{at + 1}{'st nd rd th th'.split()[at]}"
    return _around(r, r.choice([f"what is the {n} letter of {{}}?", f"what is the {n} letter in {{}}?", f"{n} letter of {{}}", f"which letter is the {n} in {{}}?", f"tell me the {n} letter of {{}}", f"what's the {n} letter in the word {{}}?"]), quoted(r, word)), f"{spelled(word)}: the {ORDER[at]} letter of {word} is {word[at].upper()}."


def vowels(r):
    word = word_of(r)
    found = [letter.upper() for letter in word if letter in "aeiou"]
    if not found:
        return vowels(r)
    ask = r.choice(["how many vowels are in {}?", "how many vowels does {} have?", "count the vowels in {}", "what are the vowels in {}?", "which vowels are in {}?", "vowels in {}"])
    return _around(r, ask, quoted(r, word)), f"{spelled(word)}: the {'vowels are' if len(found) > 1 else 'vowel is'} {listed(found)}, so {len(found)}."


def contains(r):
    word, letter = word_of(r), r.choice("aeioutsrnlmbcdghkpwxz")
    has = letter in word
    shown = letter.upper() if r.random() < 0.5 else letter
    ask = r.choice([f"is there a {shown} in {{}}?", f"does {{}} contain the letter {shown}?", f"does {{}} have a {shown}?", f"is the letter {shown} in {{}}?", f"is {shown} in the word {{}}?", f"does the word {{}} contain {shown}?"])
    return _around(r, ask, quoted(r, word)), f"{spelled(word)}: {'yes' if has else 'no'}, the letter {letter.upper()} is {'' if has else 'not '}in {word}."


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
    return _around(r, r.choice(["is {} a palindrome?", "is the word {} a palindrome?", "is {} the same backwards?", "does {} read the same backwards?"]), quoted(r, word)), f"{spelled(word)}, backwards {spelled(word[::-1])}: {'yes' if same else 'no'}, {word} is {'' if same else 'not '}a palindrome."


def said(r):
    """The user's words back, with other quotes and orders than in requests.rewrite."""
    text = r.choice([word_of(r), f"{word_of(r)} {word_of(r)}", line(r), made_up(r), r.choice(NAMES), str(r.randint(1, 999)), r.choice(["hello world", "good morning", "i love you", "abc", "yes", "no", "ok", "test", "one two three"])])
    return _around(r, r.choice(["say {}", "just say {}", "repeat {}", "please repeat {}", "repeat after me: {}", "can you say {}?", "can you repeat {}?", "answer only with {}", "reply only with {}", "respond with {}", "only say {}", "write only {}", "say exactly {}", "print {}", "output {}", "return {}", "write {} and nothing else", "say {} and nothing else", "please write {}", "type {}", "echo {}"]), quoted(r, text)), text


MAKERS = [(case, 26), (backwards, 16), (nth_letter, 4), (vowels, 2), (contains, 2), (unspelled, 6), (words_counted, 2), (at_the_end, 2), (replaced, 4), (negative, 3), (past, 4), (longer, 3), (sooner, 2), (palindrome, 2), (first_letter, 3), (said, 12)]


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
