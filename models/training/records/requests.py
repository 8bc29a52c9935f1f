"""Small requests in a conversation, with computed answers: sums as people write them, lists, spelling, rewriting,
choices. Each maker returns (question, answer, text in the question that must not change): the words to work on stay
unchanged, and only the text around them is noisy."""
import re

from .facts import DAYS, MONTHS, NUMBERS, PLANETS
from .language import story
from .phrases import noisy, pick, sentence, weighted
from .words import ANIMALS, CITIES, COLORS, FOODS, ITEMS, NAMES, article, listed, made_up, person

_SIGNS = {"+": ["plus", "and", "added to"], "-": ["minus", "less"], "x": ["times", "multiplied by"]}


def worked(x, sign, y):
    """The answer to a sum: small sums directly, larger ones with tens and ones in separate steps."""
    z = x + y if sign == "+" else x - y if sign == "-" else x * y
    line = f"{x} {sign} {y} = {z}"
    if z < 0:
        return f"{worked(y, sign, x)}, so {line}"
    tens, ones = y // 10 * 10, y % 10
    if sign == "x" or max(x, y) <= 20 or not tens or not ones:
        return line
    half = x + tens if sign == "+" else x - tens
    return f"{x} {sign} {tens} = {half} and {half} {sign} {ones} = {z}, so {line}"


def sum_of_two(r):
    sign = r.choice("+++++---xx")
    small = r.random() < 0.75
    if sign == "x":
        x, y = (r.randint(0, 5), r.randint(0, 5)) if r.random() < 0.3 else (r.randint(2, 10), r.randint(2, 10)) if r.random() < 0.85 else (r.randint(1, 12), r.randint(1, 12))
    elif small and r.random() < 0.5:   # single-digit sums, of which all others consist, are memorized
        x, y = r.randint(1, 10), r.randint(1, 10)
        if sign == "-":
            x = x + y
    elif small:
        x = r.randint(0, 20)
        y = r.randint(0, 20 - x) if sign == "+" else r.randint(0, x)
    else:
        x, y = r.randint(1, 99), r.randint(1, 99)
        if sign == "+" and x + y > 100 and r.random() < 0.7:
            x, y = x // 2 + 1, y // 2 + 1
        if sign == "-" and x < y:
            x, y = y, x
    said = worked(x, sign, y)
    form = r.random()
    if form < 0.45:
        shown = {"x": r.choice(["x", "*", "x"])}.get(sign, sign)
        line = r.choice([f"{x}{shown}{y}", f"{x} {shown} {y}", f"{x} {shown} {y}", f"{x}{shown} {y}"])
        ask = r.choice(["{}", "{}=", "{} =", "{}=?", "{} = ?", "{}?", "what is {}?", "what is {}?", "What's {}?", "whats {}", "calculate {}", "compute {}", "how much is {}?", "solve {}", "can you calculate {}?", "{} is?", "{} please", "and {}?", "tell me {}", "do you know {}?", "what does {} equal?", "what do you get for {}?", "answer: {}", "result of {}", "quick: {}"]).format(line)
    else:
        wordy = r.random() < 0.4 and max(x, y) <= 20
        a, b = (NUMBERS[x], NUMBERS[y]) if wordy else (x, y)
        line = f"{a} {_SIGNS[sign][0] if r.random() < 0.85 or sign == '-' else r.choice(_SIGNS[sign])} {b}"
        asks = ["what is {}?", "what's {}?", "whats {}", "how much is {}?", "{}", "{}?", "can you tell me what {} is?", "tell me {}", "calculate {}", "do you know what {} is?", "{} is what?", "what does {} make?", "how much makes {}?", "please calculate {}", "hey what is {}?", "{} equals?", "what do you get if you do {}?"]
        asks = [ask.format(line) for ask in asks]
        if sign == "+":
            asks += [f"add {a} and {b}", f"what is the sum of {a} and {b}?", f"sum of {a} and {b}", f"can you add {a} and {b}?", f"please add {a} and {b}"]
        elif sign == "-":
            asks += [f"subtract {b} from {a}", f"take {b} from {a}", f"what is the difference of {a} and {b}?", f"what is {b} less than {a}?", f"take away {b} from {a}"]
        else:
            asks += [f"multiply {a} by {b}", f"multiply {a} and {b}", f"what is the product of {a} and {b}?"]
        ask = r.choice(asks)
    ask = sentence(ask) if r.random() < 0.5 else ask
    return (r.choice(["hi, ", "hey ", "hello! ", "quick question: ", "ok, "]) if r.random() < 0.1 else "") + ask, said


def division(r):
    y, z = r.randint(1, 10), r.randint(1, 10)
    x = y * z
    a, b = (NUMBERS[x], NUMBERS[y]) if x <= 20 and r.random() < 0.25 else (x, y)
    ask = r.choice([f"{x}/{y}", f"{x} / {y}", f"what is {x}/{y}?", f"what is {x} / {y}?", f"{a} divided by {b}", f"what is {a} divided by {b}?", f"what's {a} divided by {b}?", f"divide {a} by {b}", f"{x} : {y}", f"how much is {a} divided by {b}?", f"calculate {x} / {y}", f"{x} ÷ {y}", f"how many times does {b} go into {a}?", f"whats {x} divided by {y}"])
    return sentence(ask) if r.random() < 0.5 else ask, f"{x} / {y} = {z}"


def double_half(r):
    x = r.randint(1, 20) if r.random() < 0.7 else r.choice([25, 30, 35, 40, 45, 50, 100, 500])
    if r.random() < 0.5:
        return r.choice([f"what is double {x}?", f"double {x}", f"what is twice {x}?", f"what is {x} doubled?", f"two times {x}", f"what's the double of {x}?", f"twice {x}"]), f"{x} x 2 = {2 * x}"
    return r.choice([f"what is half of {2 * x}?", f"half of {2 * x}", f"what's half of {2 * x}?", f"{2 * x} in half?", f"what is the half of {2 * x}?", f"half {2 * x}"]), f"{2 * x} / 2 = {x}"


def three_terms(r):
    x, y, z = r.randint(1, 9), r.randint(1, 9), r.randint(1, 9)
    ask = r.choice([f"{x}+{y}+{z}", f"{x} + {y} + {z}", f"what is {x} + {y} + {z}?", f"what is {x}+{y}+{z}?", f"{x} plus {y} plus {z}", f"add {x}, {y} and {z}", f"what is {x} plus {y} plus {z}?", f"sum of {x}, {y} and {z}"])
    return ask, f"{x} + {y} = {x + y} and {x + y} + {z} = {x + y + z}"


def asked_sum(r, line):
    """A line of arithmetic, worded as people would ask for it."""
    return r.choice(["{}", "{}", "{} =", "{}=?", "{} = ?", "{}?", "what is {}?", "what is {}?", "What's {}?", "whats {}", "calculate {}", "how much is {}?", "solve {}", "can you calculate {}?", "please compute {}", "tell me {}"]).format(line if r.random() < 0.6 or "s " in line else line.replace(" ", ""))


def mixed(r):
    """Two operators, one after another or with the product first."""
    if r.random() < 0.6:
        x, y, first, second = r.randint(2, 20), r.randint(1, 9), r.choice("+-"), r.choice("+-")
        x = max(x, y)
        half = x + y if first == "+" else x - y
        z = r.randint(1, max(1, min(9, half)))
        if half < z and second == "-":
            second = "+"
        total = half + z if second == "+" else half - z
        line = f"{x} {first} {y} {second} {z}"
        said = f"{x} {first} {y} = {half} and {half} {second} {z} = {total}"
        if r.random() < 0.25:
            words = {"+": "plus", "-": "minus"}
            line = f"{x} {words[first]} {y} {words[second]} {z}"
        return asked_sum(r, line), said
    x, y, z = r.randint(1, 10), r.randint(2, 5), r.randint(2, 5)
    sign = r.choice("x*")
    line = f"{x} + {y} {sign} {z}" if r.random() < 0.6 else f"{y} {sign} {z} + {x}"
    return asked_sum(r, line), f"{y} x {z} = {y * z} and {y * z} + {x} = {y * z + x}"


def rounds(r):
    """Tens and hundreds, which are as easy as single digits."""
    unit = r.choice([10, 10, 10, 100, 100, 1000, 5, 25, 50])
    x, y = r.randint(1, 9), r.randint(1, 9)
    sign = r.choice("++-")
    if sign == "-" and x < y:
        x, y = y, x
    a, b = x * unit, y * unit
    if unit == 100 and r.random() < 0.25:
        a, b, sign = 100, r.randint(1, 99), "-"
    z = a + b if sign == "+" else a - b
    shown = {"+": " plus ", "-": " minus "}[sign] if r.random() < 0.2 else f" {sign} "
    return asked_sum(r, f"{a}{shown}{b}"), f"{a} {sign} {b} = {z}"


def tens_times(r):
    """Two digits times one digit, tens and ones separately."""
    x, y = r.randint(11, 50), r.randint(2, 9)
    tens, ones = x // 10 * 10, x % 10
    line = f"{x} x {y} = {x * y}"
    said = f"{tens} x {y} = {tens * y} and {ones} x {y} = {ones * y}, so {line}" if ones else line
    return asked_sum(r, f"{x} {r.choice('x*')} {y}" if r.random() < 0.8 else f"{x} times {y}"), said


def squared(r):
    x = r.randint(1, 12)
    return sentence(r.choice([f"what is {x} squared?", f"{x} squared", f"{x}^2", f"what is {x}^2?", f"the square of {x}", f"what's {x} to the power of 2?", f"{x}²", f"calculate {x} squared", f"square {x}"])), f"{x} x {x} = {x * x}"


def root(r):
    x = r.randint(1, 12)
    return sentence(r.choice([f"what is the square root of {x * x}?", f"square root of {x * x}", f"the root of {x * x}?", f"sqrt({x * x})", f"sqrt {x * x}", f"what's the square root of {x * x}?", f"√{x * x}", f"calculate the square root of {x * x}"])), f"The square root of {x * x} is {x}."


def compared(r):
    """Which of two numbers is larger, and what kind of number it is."""
    a, b = r.sample(range(1, 100) if r.random() < 0.7 else [10, 50, 100, 200, 500, 1000, 15, 51, 99, 101], 2)
    style = r.random()
    if style < 0.4:
        return sentence(r.choice([f"which is more, {a} or {b}?", f"which is bigger, {a} or {b}?", f"which number is larger, {a} or {b}?", f"what is more, {a} or {b}?", f"what is bigger: {a} or {b}?", f"{a} or {b}, which is greater?", f"which is the bigger number, {a} or {b}?"])), f"{max(a, b)} is more than {min(a, b)}."
    if style < 0.65:
        return sentence(r.choice([f"is {a} [more|bigger|larger|greater] than {b}?".replace("[more|bigger|larger|greater]", r.choice(["more", "bigger", "larger", "greater"])), f"is {a} > {b}?"])), f"Yes, {a} is more than {b}." if a > b else f"No, {a} is less than {b}."
    even = a % 2 == 0
    return sentence(r.choice([f"is {a} even or odd?", f"is {a} odd or even?", f"is {a} an even number?", f"is {a} an odd number?", f"is {a} even?", f"is {a} odd?", f"{a}: even or odd?"])), f"{a} is {'even' if even else 'odd'}."


def percent(r):
    share, whole = r.choice([(10, 10), (10, 10), (20, 5), (25, 4), (50, 2), (50, 2), (100, 1), (5, 20), (75, 4)])
    part = r.randint(1, 10)
    total = part * whole if share != 75 else 4 * part
    found = total * share // 100
    return sentence(r.choice([f"what is {share}% of {total}?", f"{share}% of {total}", f"what is {share} percent of {total}?", f"{share} percent of {total}", f"how much is {share}% of {total}?", f"calculate {share}% of {total}", f"whats {share}% of {total}"])), f"{share}% of {total} is {found}."


TOO_BIG = "That is too big for me. I am a small model and can only do small sums."


def too_big(r):
    x, y, sign = r.randint(101, 99_999), r.randint(11, 99_999), r.choice("+-*x/")
    word = {"+": "plus", "-": "minus", "*": "times", "x": "times", "/": "divided by"}[sign]
    x, y = x + (x % 10 == 0), y + (y % 10 == 0)
    return r.choice([f"{x}{sign}{y}", f"{x} {sign} {y}", f"what is {x} {sign} {y}?", f"what is {x} {word} {y}?", f"calculate {x} {sign} {y}", f"how much is {x} {word} {y}?", f"{x} {word} {y}", f"{x} {sign} {y} = ?", f"solve {x}{sign}{y}"]), TOO_BIG


def sort(r):
    if r.random() < 0.6:
        found = r.sample(range(1, 50), r.randint(3, 5))
        up = r.random() < 0.7
        text = r.choice([", ", " "]).join(map(str, found))
        if r.random() < 0.4:
            largest = r.random() < 0.6
            return r.choice([f"which is the {'biggest' if largest else 'smallest'}: {text}?", f"what is the {'largest' if largest else 'smallest'} number: {text}?", f"{'maximum' if largest else 'minimum'} of {text}", f"the {'biggest' if largest else 'smallest'} of {text}?"]), f"{(max if largest else min)(found)} is the {'biggest' if largest else 'smallest'}."
        return r.choice(["sort {}", "sort these numbers: {}", "put in order: {}", "order these numbers: {}", "sort from small to big: {}", "arrange: {}"] if up else ["sort from big to small: {}", "sort backwards: {}", "sort descending: {}"]).format(text), ", ".join(map(str, sorted(found, reverse=not up)))
    found = r.sample([word for word in EVERYDAY if len(word) < 7], 3)
    return r.choice(["sort alphabetically: {}", "put in alphabetical order: {}", "alphabetical order: {}", "sort these words: {}", "sort by the alphabet: {}"]).format(", ".join(found)), ", ".join(sorted(found))


def begins_with(r):
    """One thing of a kind that starts with a given letter."""
    kind = r.choice(["animals", "fruits", "countries", "cities", "colors", "vegetables", "jobs", "birds", "flowers", "sports", "names", "foods"])
    single = {"countries": "country", "cities": "city"}.get(kind, kind[:-1])
    item = r.choice(POOLS[kind])
    item = next(one for one in POOLS[kind] if one[0].lower() == item[0].lower())
    letter = item[0].upper() if r.random() < 0.6 else item[0].lower()
    return sentence(re.sub(r"\ba (?=[aeiou])", "an ", r.choice([f"name a {single} that starts with {letter}", f"a {single} with {letter}", f"name a {single} that begins with {letter}", f"tell me a {single} with the letter {letter}", f"which {single} starts with {letter}?", f"a {single} starting with {letter}", f"give me a {single} that starts with {letter}", f"do you know a {single} that starts with {letter}?"]))), sentence(item) + "."


def letter_count(r):
    word = r.choice(["strawberry", "banana", "apple", "mississippi", "letter", "coffee", "hello", "butter", "raspberry", "cheese", "summer", "book", "tree", "happy"]) if r.random() < 0.5 else word_of(r)
    letter = r.choice(sorted(set(word)))
    n = word.count(letter)
    shown = letter.upper() if r.random() < 0.3 else letter
    ask = r.choice([f"how many {shown} are in {word}?", f"how many {shown}'s are in {word}?", f"how many {shown}s are in {word}?", f"how many times is {shown} in {word}?", f"how often is {shown} in {word}?", f"count the {shown} in {word}", f"how many {shown}'s does {word} have?", f"how many letters {shown} are in {word}?"])
    return sentence(ask), f"{shown_letters(word)}, the letter {letter} is {n} times in {word}." if n > 1 else f"{shown_letters(word)}, the letter {letter} is 1 time in {word}."


UNITS = {("hours", "minutes"): 60, ("minutes", "seconds"): 60, ("days", "hours"): 24, ("weeks", "days"): 7, ("years", "months"): 12, ("meters", "centimeters"): 100, ("kilometers", "meters"): 1000, ("kilograms", "grams"): 1000, ("euros", "cents"): 100, ("dollars", "cents"): 100, ("dozens", "pieces"): 12}


def units(r):
    (large, small), factor = r.choice(list(UNITS.items()))
    n = r.randint(1, 5) if factor != 7 else r.randint(1, 10)
    shown = large if n > 1 else large[:-1]
    return sentence(r.choice([f"how many {small} are in {n} {shown}?", f"how many {small} are {n} {shown}?", f"{n} {shown} in {small}", f"convert {n} {shown} to {small}", f"what is {n} {shown} in {small}?", f"how many {small} in {n} {shown}?", f"{n} {shown} are how many {small}?"])), f"{n} {shown} {'are' if n > 1 else 'is'} {n * factor} {small}."


def things_sum(r):
    """A sum of apples or other objects."""
    n, thing = person(r), r.choice(["apples", "books", "eggs", "balls", "cookies", "coins", "cats", "pens", "oranges", "cars", "flowers", "candies", "bananas", "dogs", "stones", "euros"])
    more = r.random() < 0.55
    x = r.randint(1, 20)
    y = r.randint(1, max(1, 20 - x)) if more else r.randint(1, x)
    who = r.choice(["I have", f"{n} has", "You have", "We have"])
    has = {"I have": "do I have", "You have": "do you have", "We have": "do we have"}.get(who, f"does {n} have")
    them = {"I have": "I", "You have": "you", "We have": "we"}.get(who, n)
    s = "s" if them == n else ""
    if r.random() < 0.25:
        a, b = r.randint(2, 9), r.randint(2, 6)
        return r.choice([f"I buy {a} {thing} for {b} dollars each. How much do I pay?", f"{a} {thing} cost {b} euros each, how much is that?", f"If one of the {thing} costs {b} dollars, how much are {a}?", f"{n} has {a} boxes with {b} {thing} each. How many {thing} is that?", f"if i buy {a} {thing} for {b} dollars each, how much is it?", f"There are {a} bags with {b} {thing} in each. How many {thing} are there?"]), f"{a} x {b} = {a * b}"
    if more:
        ask = r.choice([f"{who} {x} {thing} and {'gets' if s else 'get'} {y} more. How many {thing} {has}?", f"If {who if them in (n, 'I') else who.lower()} {x} {thing} and {'buys' if s else 'buy'} {y} more, how many {has}?", f"{who} {x} {thing}. Then {them} {'finds' if s else 'find'} {y}. How many are there now?"])
        return ask, f"{x} + {y} = {x + y}"
    ask = r.choice([f"{who} {x} {thing} and {'loses' if s else 'lose'} {y}. How many {thing} are left?", f"{who} {x} {thing}. {them[0].upper() + them[1:]} {'gives' if s else 'give'} away {y}. How many {thing} {has} now?", f"{who} {x} {thing} and {'sells' if s else 'sell'} {y}. How many are left?"])
    return ask, f"{x} - {y} = {x - y}"


POOLS = {
    "fruits": "apple,banana,orange,pear,cherry,grape,lemon,peach,plum,mango,strawberry,kiwi".split(","), "animals": "dog,cat,horse,cow,lion,tiger,bear,elephant,rabbit,fox,mouse,sheep".split(","), "colors": "red,blue,green,yellow,orange,purple,black,white,pink,brown,grey".split(","),
    "vegetables": "carrot,potato,onion,tomato,cucumber,cabbage,spinach,broccoli,pea,bean,pepper".split(","), "countries": "France,Germany,Italy,Spain,Japan,Brazil,Canada,Egypt,India,China,Mexico,Norway".split(","), "cities": "Paris,London,Rome,Berlin,Madrid,Tokyo,New York,Cairo,Lima,Oslo,Vienna,Dublin".split(","),
    "days of the week": DAYS, "months": MONTHS, "planets": PLANETS, "sports": "football,tennis,basketball,swimming,running,hockey,golf,cycling,volleyball,boxing,skiing".split(","), "instruments": "piano,guitar,violin,drums,flute,trumpet,cello,harp,saxophone,organ".split(","),
    "tools": "hammer,saw,screwdriver,drill,knife,axe,pliers,ladder,wrench,shovel".split(","), "pieces of furniture": "table,chair,bed,sofa,desk,shelf,lamp,wardrobe,mirror,bench".split(","), "drinks": "water,tea,coffee,milk,juice,lemonade,beer,wine,cocoa,soda".split(","), "foods": "bread,cheese,rice,pasta,soup,pizza,salad,eggs,fish,cake".split(","),
    "clothes": "shirt,trousers,dress,jacket,hat,socks,shoes,coat,scarf,gloves".split(","), "jobs": "teacher,doctor,baker,farmer,pilot,nurse,driver,cook,lawyer,painter,engineer".split(","), "birds": "eagle,owl,duck,crow,swan,robin,parrot,penguin,sparrow,pigeon".split(","), "trees": "oak,pine,maple,birch,beech,willow,ash,elm,fir,palm".split(","), "flowers": "rose,tulip,lily,daisy,sunflower,violet,orchid,poppy,iris,carnation".split(","),
    "languages": "English,French,Spanish,German,Italian,Chinese,Japanese,Russian,Arabic,Greek".split(","), "shapes": "circle,square,triangle,rectangle,star,oval,pentagon,hexagon,cube,heart".split(","), "body parts": "head,arm,leg,hand,foot,eye,ear,nose,mouth,knee".split(","), "family members": "mother,father,sister,brother,aunt,uncle,cousin,grandmother,grandfather,son".split(","),
    "vehicles": "car,bus,train,bicycle,truck,plane,boat,ship,tram,motorcycle".split(","), "metals": "iron,gold,silver,copper,lead,zinc,tin,nickel".split(","), "insects": "ant,bee,fly,beetle,butterfly,wasp,mosquito,grasshopper".split(","), "seasons": "spring,summer,autumn,winter".split(","), "oceans": "Pacific Ocean,Atlantic Ocean,Indian Ocean,Arctic Ocean,Southern Ocean".split(","), "continents": "Africa,Asia,Europe,North America,South America,Australia,Antarctica".split(","),
    "hobbies": "reading,cooking,painting,dancing,singing,swimming,fishing,gardening,chess,photography".split(","), "school subjects": "math,history,science,music,art,English,geography,biology,physics,chemistry".split(","), "names": "Anna,Ben,Maria,Tom,Emma,Paul,Laura,David,Sarah,Mark,Lucas".split(","), "girls' names": "Anna,Maria,Emma,Laura,Sarah,Julia,Nina,Clara,Eva,Alice".split(","), "boys' names": "Ben,Tom,Paul,David,Mark,Lucas,Noah,Leo,Max,Peter".split(","),
    "things in a kitchen": "knife,fork,spoon,plate,pot,pan,cup,bowl,oven,fridge".split(","), "toys": "ball,doll,kite,puzzle,teddy bear,toy car,blocks,robot,train,yo-yo".split(","), "letters": "A,B,C,D,E,F,G,H,I,J,K,L".split(","), "words": "tree,house,sun,water,book,friend,music,garden,river,light".split(","), "even numbers": "2,4,6,8,10,12,14,16,18,20".split(","), "odd numbers": "1,3,5,7,9,11,13,15,17,19".split(","), "numbers": "1,2,3,4,5,6,7,8,9,10".split(","), "prime numbers": "2,3,5,7,11,13,17,19,23,29".split(","),
    "programming languages": "Python,JavaScript,Java,C,Rust,Go,Ruby,Swift,Kotlin".split(","), "European countries": "France,Germany,Italy,Spain,Portugal,Norway,Sweden,Poland,Greece,Austria,Ireland".split(","), "sea animals": "whale,shark,dolphin,seal,octopus,crab,turtle,squid,lobster".split(","), "pets": "dog,cat,rabbit,hamster,goldfish,parrot,turtle,mouse".split(","), "wild animals": "lion,tiger,bear,wolf,elephant,fox,giraffe,zebra,monkey".split(","), "farm animals": "cow,pig,horse,sheep,goat,hen,duck,donkey".split(","), "rooms": "kitchen,bedroom,bathroom,living room,hall,cellar,office,garage".split(","), "berries": "strawberry,raspberry,blueberry,blackberry,cranberry,gooseberry".split(","), "desserts": "cake,ice cream,pudding,pie,cookies,chocolate,pancakes,waffles".split(","), "feelings": "joy,anger,fear,love,sadness,pride,hope,surprise".split(","),
}
_SAME = {"colors": ["colors", "colours"], "countries": ["countries", "countries in the world"], "cities": ["cities", "big cities", "famous cities"], "months": ["months", "months of the year"], "instruments": ["instruments", "musical instruments"], "words": ["words", "english words", "random words"], "girls' names": ["girls' names", "girl names", "names for girls"], "boys' names": ["boys' names", "boy names", "names for boys"], "European countries": ["European countries", "countries in Europe"], "animals": ["animals", "animals", "animals you know"], "foods": ["foods", "things to eat"], "drinks": ["drinks", "things to drink"], "names": ["names", "first names"]}
# requested more often than the rest
_OFTEN = ["fruits", "animals", "colors", "vegetables", "countries", "European countries", "cities", "days of the week", "months", "planets", "sports", "birds", "flowers"]


def shown_list(r, items, style, what=None):
    if style == "counted":
        return f"{len(items)} {what}:\n" + shown_list(r, items, "numbers")
    if style == "lines":
        return "\n".join(items)
    if style == "bullets":
        return "\n".join("- " + item for item in items)
    if style == "numbers":
        return "\n".join(f"{i}. {item}" for i, item in enumerate(items, 1))
    return sentence(listed(items)) + "."


def list_of(r):
    """This many things of a kind, in the pool's order, so that none occurs twice."""
    kind = r.choice(_OFTEN[:7] if r.random() < 0.5 else _OFTEN) if r.random() < 0.75 else r.choice(list(POOLS))
    items = POOLS[kind]
    n = min(r.choice([2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 6, 6, 7, 8, 10, 10]), len(items))
    start = 0 if r.random() < 0.9 else r.randint(0, len(items) - n)
    what = r.choice(_SAME.get(kind, [kind]))
    style = "sentence" if n < 4 else "counted"   # lists of more than three are numbered, up to the number in the first line
    if r.random() < 0.1:
        style, n, how, start = "sentence", min(3, len(items)), r.choice(["some", "a few"]), 0
    else:
        how = NUMBERS[n] if r.random() < 0.55 else str(n)
    ask = pick(r, r.choice([f"[name|list|tell me|give me|say|write] {how} [different |||]{what}[ please||]", f"[can you|could you] [name|list|give me|tell me] {how} {what}?", f"{how} {what}[ please||]", f"[name|give] me {how} {what}", f"[i need|i want|please name|please list] {how} {what}", f"what are {how} {what}?", f"{how} {what} that you know", f"think of {how} {what}", f"do you know {how} {what}?", f"give me a list of {how} {what}", f"list of {how} {what}", f"give me {how} [examples of|kinds of|] {what}".replace("  ", " ")]))
    if r.random() < 0.08:
        style, tail = r.choice([("lines", "one per line"), ("bullets", "as a bullet list"), ("bullets", "with bullets"), ("numbers", "as a numbered list"), ("numbers", "numbered")])
        ask = ask.rstrip("?") + ", " + tail
    elif r.random() < 0.1:
        ask = ask.rstrip("?") + r.choice([" and nothing else", ", nothing else", " for me", " only", ", just the names", " for my homework", " you know", " quickly", " please", ", thanks", " in a list", " off the top of your head"])
    return sentence(ask) + r.choice(["", ".", "."] if ask[-1] != "?" else [""]), shown_list(r, items[start:start + n], style, what)


WHOLE = {"the days of the week": DAYS, "the months of the year": MONTHS, "the planets": PLANETS, "the planets of the solar system": PLANETS, "the seasons": POOLS["seasons"], "the four seasons": POOLS["seasons"], "the continents": POOLS["continents"], "the seven continents": POOLS["continents"], "the oceans": POOLS["oceans"], "the vowels": list("aeiou"), "the colors of the rainbow": "red orange yellow green blue indigo violet".split(), "all months": MONTHS, "all days of the week": DAYS, "all planets": PLANETS, "the primary colors": ["red", "blue", "yellow"], "the five senses": "sight hearing smell taste touch".split()}


def whole_list(r):
    what = r.choice(list(WHOLE))
    ask = pick(r, r.choice([f"[name|list|tell me|say|write|give me] {what}[ please||]", f"what are {what}?", f"[can you|could you] [name|list|tell me] {what}?", f"{what}", f"what are {what} called?", f"do you know {what}?"]))
    return sentence(ask), sentence(listed(WHOLE[what])) + "."


def one_thing(r):
    kind = r.choice([k for k in POOLS if k[-1] == "s" and " " not in k and "'" not in k])
    single = {"countries": "country", "cities": "city", "months": "month", "hobbies": "hobby", "berries": "berry", "clothes": "piece of clothing", "foods": "food"}.get(kind, kind[:-1])
    item = POOLS[kind][0]
    ask = pick(r, r.choice([f"[name|tell me|give me|say|think of|pick|choose] [a|one|any] {single}[ please||]", f"[tell me|give me|say|pick|name] a random {single}", f"[can you|could you] [name|say|pick] {article(single)}?", f"an example of {article(single)}", f"[a|one|random] {single}[, please||]"]))
    return sentence(re.sub(r"\ba (?=[aeiou])", "an ", ask)), sentence(item) + "."


EVERYDAY = sorted(set(word for pool in POOLS.values() for word in pool if word.isalpha() and word.islower() and 2 < len(word) < 9) | set("school happy window summer winter friend family kitchen door street paper letter number green night morning water bread heart hello world banana thank you please sorry mouse".split()) - {"you"})


# words that people use when they try this
COMMON = sorted(set("""ability about above across action actor adult advice afternoon again airport alarm album alone angel angry animal answer apartment arm army around artist autumn baby back bad bag bank basket bath beach bean beautiful bed bedroom
bee before bell below best better bicycle big bike birthday black blanket blood blue board body bone bottle bottom bowl box boy brain branch brave breakfast bridge bright brother brown brush building business busy butter button cake camera
camp candle candy captain card careful carpet castle century chance change cheap child children chocolate church circle city class clean clear clever clock cloud coat coffee cold color computer cookie corner correct cotton country cousin
cow cream crowd cup daily dance danger dark daughter day dear deep desert dinner doctor doll dollar dragon dream dress drink driver dry early earth east easy egg eight elephant email empty energy engine evening everyone exam eye face
factory false farm farmer fast father favorite fear feather field finger fire first five flag floor flower food foot forest forever forget fork four free fresh friday fruit fun funny future game gift giraffe girl give glass glove gold
good grandmother grass great ground group guitar hair half hammer happiness hard hat head health heavy help hero high hill history hobby holiday home honest honey hope horse hospital hot hotel hour hungry husband ice idea important
inside internet iron island jacket jelly job joke journey juice jump jungle kangaroo keyboard kind king kiss kite knife knowledge lady lake lamp language large last late laugh leader leaf learn leave left leg lemon lesson letter level
library life line lion lip list little long lost lovely low lucky lunch machine magic mail man many map market math meal meat medicine meeting member message metal middle midnight minute mirror model moment monday money monkey month
mountain mouth movie museum mushroom nature necklace need neighbor nest never new newspaper nice nine noise north nose nothing number ocean office often old onion open orange other outside owner page paint pan paper parent park part
party path peace pen pencil penguin people pepper perfect person phone photo picture pig pilot pizza place plan planet plant plastic plate player pocket poem point police pool poor popular potato power present president pretty price
prince princess prize problem program promise puppy purple queen question quick quiet rabbit radio rain rainbow ready red restaurant rice rich right ring river road robot rock roof room rose round sad safe salt sand sandwich saturday
scared science scissors sea season second secret seven shadow shape sheep shelf ship shirt shoe shop short shoulder simple sister six skin sky sleep slow small smart smile snake snow soap soccer sock soft soldier son song soup south
space special spider spoon sport spring square stair start station stone store storm story strange strawberry street strong student sugar suit sunday sunny sweater sweet table tail tall tea teacher team telephone television ten thing
think thursday ticket tiger time tired tomato tomorrow tongue tooth top towel tower town toy train travel treasure triangle trip trouble truck true tuesday turtle twelve two umbrella uncle under university vacation vegetable village
violin voice wait walk wall wallet war warm watch weather wednesday week welcome west wet wheel white wife wild wind wing wise wolf woman wood word work wrong year yellow yesterday young zebra zero zoo""".split()))


def spelled(word):
    return "-".join(word.upper())


def shown_letters(word):
    """The word, followed by its letters, because finding the word in the question and knowing its letters are learned
    separately."""
    return f"{word}: {spelled(word)}"


FIRST_WORDS = ("cat dog house apple banana hello tree book water sun moon star car bird fish bread school friend cheese happy orange table window garden mouse summer world light music coffee name love "
               "computer elephant strawberry flower pizza tea lemon horse lion tiger rabbit mother father sister brother baby boy girl red blue green yellow black white one two three four five six seven eight nine ten big small good bad day night winter rain snow "
               "sky sea river mountain chair door bed lamp pen paper letter word phone train bus plane ship ball game king queen robot science beautiful chocolate butterfly monkey orange kitchen bottle doctor teacher city street welcome because people").split()


def word_of(r):
    return r.choice(FIRST_WORDS) if r.random() < 0.8 else r.choice(EVERYDAY if r.random() < 0.35 else COMMON)


# words that people reverse; the result has to be memorized, because it is not a word
TURNED = "cat dog hello apple house tree book water sun moon star car bird fish word world love name red blue green one two good day night table bread music pizza happy banana lemon school mouse horse stop live pot ten top tea door smile light stone".split()


def turned_word(r):
    return r.choice(TURNED) if r.random() < 0.85 else r.choice([w for w in FIRST_WORDS if len(w) <= 6])


def backwards_of(word):
    return f"{shown_letters(word)}, backwards {spelled(word[::-1])}: {word[::-1]}"


def spell(r):
    word = word_of(r) if r.random() < 0.9 else made_up(r)
    ask = r.choice(["spell {}", "how do you spell {}?", "spell the word {}", "can you spell {}?", "how is {} spelled?", "please spell {}", "spelling of {}", "spell out {}", "what is the spelling of {}?", "spell '{}'", "spell \"{}\""])
    return _around(r, ask, word), shown_letters(word)


def spell_many(r):
    """Several words in one request: each letter is something to learn, and the question is processed only once."""
    words = [word_of(r) for _ in range(r.randint(2, 4))]
    ask = r.choice(["spell these words: {}", "spell {}", "how do you spell {}?", "spell the words {}", "please spell: {}", "spell each word: {}", "can you spell {}?", "the letters of {}?", "spell out: {}"])
    return _around(r, ask, ", ".join(words) if r.random() < 0.6 else listed(words)), ", ".join(f"{word}: {spelled(word)}" for word in words)


def letters(r):
    word = word_of(r)
    which = r.randrange(5)
    if which == 0:
        return _around(r, r.choice(["how many letters are in {}?", "how many letters does {} have?", "how many letters in {}", "how many letters has the word {}?", "count the letters in {}", "number of letters in {}", "how long is the word {}?"]), word), f"{shown_letters(word)}, {len(word)} letters."
    if which == 1:
        return _around(r, r.choice(["what is the first letter of {}?", "first letter of {}", "with which letter does {} begin?", "what letter does {} start with?", "which letter is the first in {}?", "what does {} start with?", "tell me the first letter of {}"]), word), f"{shown_letters(word)}, the first letter is {word[0].upper()}."
    if which == 2:
        return _around(r, r.choice(["what is the last letter of {}?", "last letter of {}", "with which letter does {} end?", "what letter does {} end with?", "which letter is the last in {}?", "tell me the last letter of {}"]), word), f"{shown_letters(word)}, the last letter is {word[-1].upper()}."
    if which == 3:
        short = turned_word(r)
        return _around(r, r.choice(["reverse {}", "reverse the word {}", "spell {} backwards", "write {} backwards", "what is {} backwards?", "say {} backwards", "{} backwards"]), short), backwards_of(short)
    letter = chr(ord("a") + r.randrange(25))
    up = r.random() < 0.5
    letter = letter.upper() if r.random() < 0.6 else letter
    other = chr(ord(letter.upper()) + 1)
    return _around(r, r.choice(["which letter comes after {}?", "what letter comes after {}?", "what comes after {} in the alphabet?", "letter after {}", "what is the letter after {}?", "what comes after the letter {}?"]), letter), f"After {letter.upper()} comes {other}."


def count_up(r):
    style = r.randrange(6)
    n = r.choice([3, 4, 5, 5, 5, 6, 7, 8, 10, 10, 10, 12, 15, 20])
    if style < 2:
        shown = NUMBERS[n] if r.random() < 0.4 else n
        return sentence(r.choice([f"count to {shown}", f"count to {shown} please", f"can you count to {shown}?", f"please count to {shown}", f"count up to {shown}", f"count from 1 to {n}", f"count from one to {shown}", f"count to {shown} for me", f"write the numbers from 1 to {n}", f"say the numbers to {shown}"])), " ".join(str(i) for i in range(1, n + 1))
    if style == 2:
        return sentence(r.choice([f"count down from {n}", f"count backwards from {n}", f"countdown from {n}", f"count from {n} to 1", f"count down from {n} please", f"can you count down from {n}?"])), " ".join(str(i) for i in range(n, 0, -1))
    k = r.randint(0, 99)
    if style == 3:
        return sentence(r.choice([f"what comes after {k}?", f"what number comes after {k}?", f"which number comes after {k}?", f"what is the next number after {k}?", f"{k}, and then?", f"what follows {k}?"])), f"After {k} comes {k + 1}."
    if style == 4:
        return sentence(r.choice([f"is {k} even or odd?", f"is {k} odd or even?", f"{k}: even or odd?", f"is {k} an even or an odd number?", f"tell me if {k} is even or odd"])), f"{k} is {'odd' if k % 2 else 'even'}."
    m = r.choice([i for i in range(100) if i != k])
    word = r.choice(["bigger", "larger", "greater", "smaller", "more", "less"])
    one = min(k, m) if word in ("smaller", "less") else max(k, m)
    return sentence(r.choice([f"which is {word}, {k} or {m}?", f"what is {word}, {k} or {m}?", f"which number is {word}, {k} or {m}?", f"{word}: {k} or {m}?", f"is {k} or {m} {word}?"])), f"{one} is {word}."


def alphabet(r):
    return sentence(pick(r, "[say|write|tell me|recite|do you know|give me|list|what is|can you say|name] [the alphabet|the abc|the letters of the alphabet|all letters|the abcs]")), "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z"


_SUBJECTS = ["the cat", "the dog", "my sister", "the teacher", "the old man", "a bird", "the boy", "my friend", "the girl", "the king", "the doctor", "our neighbor"]
_DOES = ["sleeps on the sofa", "eats an apple", "reads a book", "likes music", "plays in the garden", "drinks a cup of tea", "runs to school", "sings a song", "opens the door", "lives in Paris", "walks in the rain", "buys a red hat", "looks at the moon"]
_WANTS = {"give me the book": "give me the book", "send me the file": "send me the file", "close the door": "close the door", "help me": "help me", "wait here": "wait here", "call me back": "call me back", "be quiet": "be quiet", "come here": "come here", "sit down": "sit down", "answer my email": "answer my email", "fix this now": "fix this", "open the window": "open the window", "tell me the price": "tell me the price", "bring me some water": "bring me some water", "pay the bill": "pay the bill", "show me the way": "show me the way", "send the report today": "send the report today", "stop talking": "stop talking", "turn down the music": "turn down the music", "move your car": "move your car", "hurry up": "hurry up", "give me my money back": "give me my money back"}
_LONG = [("Because of the fact that it was raining, we did not go out of the house.", "It rained, so we stayed home."), ("I would like to ask you if you could please send me the report.", "Please send me the report."), ("The meeting that was planned for Monday will now be on Tuesday.", "The meeting is now on Tuesday."), ("At this point in time we do not have any money.", "We have no money now."), ("I am writing to you in order to say thank you for your help.", "Thank you for your help."), ("The dog, which was very big and also brown, ran to the door.", "The big brown dog ran to the door."), ("It is my opinion that this book is very good.", "I think this book is very good."), ("He went to the shop in order to buy some milk and some bread.", "He went to buy milk and bread."), ("She is a person who likes to read a lot of books.", "She likes to read."), ("We had a very long and very nice walk in the park yesterday.", "We had a nice walk in the park."), ("There are many people who like to drink coffee in the morning.", "Many people drink coffee in the morning."), ("In the event that it snows, the school will be closed.", "If it snows, the school is closed.")]
_WRONG = {"teh": "the", "recieve": "receive", "freind": "friend", "becuase": "because", "wierd": "weird", "tommorow": "tomorrow", "definately": "definitely", "beautifull": "beautiful", "adress": "address", "scool": "school", "langauge": "language", "realy": "really", "untill": "until", "wich": "which", "seperate": "separate", "begining": "beginning", "happend": "happened", "probaly": "probably", "hous": "house", "watter": "water", "moring": "morning", "peple": "people", "litle": "little", "beleive": "believe", "thier": "their", "goverment": "government", "calender": "calendar", "neighbur": "neighbor", "choclate": "chocolate", "excelent": "excellent"}


def line(r):
    return f"{r.choice(_SUBJECTS)} {r.choice(_DOES)}"


def changed(text, into):
    """For one or two words, the given form precedes the changed one, because, as with letters, finding the words and
    changing them are learned separately."""
    return f"{text}: {into}" if text.count(" ") < 2 else into


def wish(r):
    """A request without "please"."""
    thing = r.choice("the book,a pen,some water,the salt,your phone,the report,a chair,some bread,the keys,that cup,your notes,a ticket,the bill,some time,a hand,the map,my bag,an apple,the paper,your number".split(","))
    return r.choice([f"give me {thing}", f"bring me {thing}", f"show me {thing}", f"pass me {thing}", f"get me {thing}", f"hand me {thing}", f"send me {thing}", f"buy {thing}", f"move {thing}", f"take {thing}", f"look at {thing}"])


def rewrite(r):
    style = r.randrange(9)
    text = sentence(line(r)) + "." if r.random() < (0.25 if style < 3 else 0.6) else r.choice([line(r), word_of(r), word_of(r), word_of(r), " ".join(r.sample(EVERYDAY, r.randint(1, 3))), f"{r.choice(['hello', 'good morning', 'i love'])} {word_of(r)}", person(r)])
    if style < 2:
        return _around(r, r.choice(["make this uppercase: {}", "uppercase: {}", "write in capital letters: {}", "put this in capital letters: {}", "change to upper case: {}", "capitalize every letter: {}", "convert to uppercase: {}", "in caps: {}", "write this in all caps: {}", "make it uppercase: {}"]), text), changed(text, text.upper())
    if style == 2:
        given = text.upper() if r.random() < 0.7 else text
        return _around(r, r.choice(["make this lowercase: {}", "lowercase: {}", "write in small letters: {}", "put this in lower case: {}", "change to lower case: {}", "convert to lowercase: {}", "make it lowercase: {}"]), given), changed(given, text.lower())
    if style == 3:
        raw = r.choice(list(_WANTS)) if r.random() < 0.5 else wish(r)
        shown = sentence(raw) + r.choice([".", "!", ""]) if r.random() < 0.6 else raw
        return _around(r, r.choice(["make this more polite: {}", "say this politely: {}", "make it polite: {}", "polite version: {}", "rewrite politely: {}", "how do i say this politely: {}", "how can i say politely: {}", "more polite: {}", "say it in a polite way: {}", "make this friendlier: {}"]), shown), f"Could you please {_WANTS.get(raw, raw)}?"
    if style == 4:
        text, short = r.choice(_LONG)
        return _around(r, r.choice(["make this shorter: {}", "shorten: {}", "shorten this: {}", "say it shorter: {}", "shorter please: {}", "make it short: {}", "write this in fewer words: {}", "rewrite this shorter: {}", "simplify: {}", "summarize: {}"]), text), short
    if style == 5:
        bad = r.choice(list(_WRONG))
        if r.random() < 0.5:
            return _around(r, r.choice(["correct the spelling: {}", "fix the spelling: {}", "how do you spell {} correctly?", "what is the right spelling of {}?", "is {} right?", "spell check: {}", "correct this word: {}", "correct: {}", "fix: {}"]), bad), _WRONG[bad]
        before, after = r.choice([("I like the word ", "."), ("This is ", "."), ("Do you know ", "?"), ("She said ", "."), ("We talk about ", ".")])
        return _around(r, r.choice(["correct the spelling: {}", "fix the spelling: {}", "fix this sentence: {}", "correct this: {}", "spell check: {}", "fix the mistake: {}", "correct my sentence: {}"]), before + bad + after), before + _WRONG[bad] + after
    if style == 6:
        if r.random() < 0.5:
            (who, be), rest = r.choice([("you", "are"), ("he", "is"), ("she", "is"), ("they", "are"), ("we", "are"), ("the cat", "is"), ("the dog", "is"), ("my friend", "is"), ("it", "is"), ("the shop", "is")]), r.choice(["happy", "tired", "at home", "late", "ready", "hungry", "here", "cold", "in the garden", "right", "sick", "busy", "from Paris", "very old", "nice"])
            return _around(r, r.choice(["make this a question: {}", "turn this into a question: {}", "as a question: {}", "make it a question: {}", "write this as a question: {}", "change this to a question: {}"]), f"{sentence(who)} {be} {rest}." if r.random() < 0.6 else f"{who} {be} {rest}"), f"{sentence(be)} {who} {rest}?"
        s, (verb, base) = r.choice(_SUBJECTS), r.choice([("likes music", "like music"), ("reads a book", "read a book"), ("eats an apple", "eat an apple"), ("lives in Paris", "live in Paris"), ("plays the piano", "play the piano"), ("sings a song", "sing a song")])
        return _around(r, r.choice(["make this a question: {}", "turn this into a question: {}", "as a question: {}", "make it a question: {}", "write this as a question: {}"]), f"{sentence(s)} {verb}."), f"Does {s} {base}?"
    if style == 7:
        text = r.choice([made_up(r), text, " ".join(r.sample(EVERYDAY, r.randint(1, 4)))])
        return _around(r, r.choice(["repeat: {}", "repeat after me: {}", "say: {}", "repeat this: {}", "say this: {}", "write: {}", "just say: {}", "echo: {}", "copy this: {}", "please say: {}", "type: {}"]), text), text
    word = word_of(r)
    return sentence(r.choice([f"say {word}", f"say the word {word}", f"please say {word}", f"can you say {word}?", f"say '{word}'", f"write the word {word}", f"write {word}", f"just say {word}", f"answer with the word {word}", f"reply with {word}", f"say \"{word}\""])), word


def with_word(r):
    """A sentence with a given word, or about something."""
    word = r.choice(EVERYDAY)
    s = f"I like the word {word}."
    return _around(r, r.choice(["write a sentence with the word {}", "make a sentence with {}", "use {} in a sentence", "a sentence with {}", "write a sentence with {}", "give me a sentence with the word {}", "use the word {} in a sentence", "can you make a sentence with {}?"]), word), s


def choose(r):
    a, b = r.sample(r.choice([["cats", "dogs"], ["tea", "coffee"], ["pizza", "pasta"], ["summer", "winter"], ["the sea", "the mountains"], ["red", "blue"], ["books", "movies"], ["day", "night"], ["apples", "bananas"], ["football", "tennis"], ["Mac", "Windows"], ["bus", "train"], ["milk", "juice"], ["salt", "sugar"], ["city", "village"], ["sun", "rain"], ["black", "white"], ["rice", "bread"], ["left", "right"], FOODS, COLORS, ANIMALS]), 2)
    if r.random() < 0.25:
        a, b = r.sample(CITIES, 2)
    ask = r.choice([f"{a} or {b}?", f"do you prefer {a} or {b}?", f"what is better, {a} or {b}?", f"which do you like more, {a} or {b}?", f"{a} or {b}", f"{a} vs {b}?", f"would you choose {a} or {b}?", f"choose: {a} or {b}", f"should i take {a} or {b}?", f"what do you like better: {a} or {b}?", f"pick one: {a} or {b}", f"are you more {a} or {b}?"])
    return sentence(ask), f"I am a program, but I would choose {a}."


def greeting_card(r):
    n = person(r)
    what, text = r.choice([("birthday message", "Happy birthday, {n}! I wish you a wonderful day."), ("thank you note", "Dear {n}, thank you very much for your help."), ("thank-you message", "Dear {n}, thank you very much for your help."), ("get well message", "Dear {n}, I hope you feel better soon."), ("short email", "Dear {n}, I hope you are well. Best wishes."), ("welcome message", "Welcome, {n}! We are glad that you are here."), ("goodbye message", "Goodbye, {n}! We will miss you."), ("invitation", "Dear {n}, please come to my party on Saturday."), ("birthday card", "Happy birthday, {n}! I wish you a wonderful day."), ("love letter", "Dear {n}, I think of you every day."), ("christmas card", "Merry Christmas, {n}, and a happy new year!"), ("apology", "Dear {n}, I am very sorry. Please forgive me.")])
    ask = r.choice([f"write a {what} for {n}", f"write {article(what)} to {n}", f"write a {what} to {n}", f"can you write a {what} for {n}?", f"i need a {what} for {n}", f"please write a {what} for {n}", f"a {what} for {n}, please"])
    return sentence(re.sub(r"\ba (?=[aeiou])", "an ", ask)), text.format(n=n)


_LINES = {"twinkle twinkle little": "star", "roses are red, violets are": "blue", "to be or not to": "be", "an apple a day keeps the doctor": "away", "once upon a": "time", "the early bird catches the": "worm", "the sky is": "blue", "the grass is": "green", "ready, steady,": "go", "one, two,": "three", "1, 2, 3,": "4", "a, b, c,": "d", "monday, tuesday,": "Wednesday", "mary had a little": "lamb", "happy birthday to": "you", "better late than": "never", "home sweet": "home", "row, row, row your": "boat", "humpty dumpty sat on a": "wall", "time is": "money", "practice makes": "perfect", "the sun is": "hot", "snow is": "white", "fire is": "hot", "ice is": "cold", "2, 4, 6,": "8", "red, yellow,": "green", "peanut butter and": "jelly", "fish and": "chips", "black and": "white", "salt and": "pepper", "cats and": "dogs", "marco": "Polo!"}


def finish(r):
    start = r.choice(list(_LINES))
    ask = start + r.choice(["...", "", " ...", "", " ___", "?"]) if r.random() < 0.4 else r.choice(["finish the sentence: {}", "complete: {}", "complete the sentence: {}", "what comes next: {}", "finish: {}", "fill in the word: {} ..."]).format(start)
    return ask if r.random() < 0.5 else sentence(ask), sentence(_LINES[start]) if _LINES[start] != "Polo!" else "Polo!"


def joke_about(r):
    animal = r.choice(ANIMALS)
    return sentence(r.choice([f"tell me a joke about {article(animal)}", f"do you know a joke about {animal}s?", f"a joke about {article(animal)}", f"joke about {article(animal)} please"])), f"Why did the {animal} cross the road? To get to the other side."


def tale(r):
    """A short story, as in the older records, but requested in more ways."""
    made = story(r)
    text = made["messages"][-1]["content"]
    ask = made["messages"][0]["content"]
    if r.random() < 0.6:
        ask = sentence(weighted(r, ["[tell|write|give|read] [me |me |][a story|a short story|a little story|a bedtime story|a fairy tale|a nice story|a very short story][ please||]", "[can you|could you|please] [tell|write] [me |][a story|a short story|a bedtime story]?",
                                    "[a story|story|a short story please|i want a story|story please|once upon a time|make up a story|story time]"]))
    return ask, text


def _around(r, ask, payload):
    """Adds noise to the text around the words to work on."""
    left, right = ask.split("{}", 1) if "{}" in ask else (ask, "")
    style = r.random()
    if style < 0.6:
        left = sentence(left)
    if right == "?" and r.random() < 0.3 or not payload:
        right = ""
    if right.strip() == "" and left.rstrip().endswith(":") and r.random() < 0.1:
        left = left.rstrip() + "\n"
    if left == "":
        return payload + right
    return left + payload + right


def of_alphabet(r):
    at = r.randrange(26)
    nth = f"{at + 1}{'th' if at + 1 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get((at + 1) % 10, 'th')}"
    nth, at = ("last", 25) if r.random() < 0.15 else ("first second third fourth fifth sixth seventh eighth ninth tenth".split()[at], at) if at < 10 and r.random() < 0.6 else (nth, at)
    return sentence(r.choice([f"what is the {nth} letter of the alphabet?", f"which letter is the {nth} in the alphabet?", f"the {nth} letter of the alphabet", f"what's the {nth} letter in the alphabet?", f"tell me the {nth} letter of the alphabet"])), f"The {nth} letter of the alphabet is {chr(65 + at)}."


MAKERS = [(of_alphabet, 2), (sum_of_two, 90), (division, 12), (double_half, 9), (three_terms, 6), (mixed, 8), (rounds, 9), (tens_times, 3), (squared, 3), (root, 3), (compared, 6), (percent, 5), (too_big, 2.5), (sort, 14), (begins_with, 4), (letter_count, 8), (units, 1.5), (things_sum, 11), (list_of, 95), (whole_list, 4), (one_thing, 4), (spell, 22), (spell_many, 5), (letters, 24), (count_up, 10), (alphabet, 0.5), (rewrite, 26), (with_word, 4), (choose, 4), (greeting_card, 2.5), (finish, 5), (joke_about, 1), (tale, 3)]
# makers whose question consists only of words that noise may change
FREE = (whole_list, list_of, one_thing, alphabet, greeting_card, joke_about, choose, things_sum)


def request(r):
    """(question, answer)"""
    make = r.choices(*zip(*MAKERS))[0]
    ask, answer = make(r)
    if make in FREE:
        ask = noisy(r, ask, prefix=True)
    elif make not in (finish,) and r.random() < 0.3:
        ask = ask.rstrip("?.") if ask[-1:] in "?." and make is not rewrite else ask
    if make not in FREE and make is not rewrite and make not in (spell, spell_many) and r.random() < 0.3:
        ask = ask[0].lower() + ask[1:]
    return ask, answer
