"""Values from wide ranges, so that they can only be copied and not be known: names, addresses, numbers, dates, objects
and places."""
from .words import CITIES, COLORS, DAYS, ITEMS, JOBS, MONTHS, NAMES, made_up

SURNAMES = ("Smith Jones Brown Miller Wilson Moore Taylor Clark Lewis Walker Hall Young King Wright Hill Green Adams Baker Nelson Carter Mitchell Perez Roberts Turner Phillips Campbell Parker Evans Edwards Collins Stewart "
            "Sanchez Morris Rogers Reed Cook Morgan Bell Murphy Bailey Rivera Cooper Cox Howard Ward Peterson Gray Ramirez Watson Brooks Kelly Price Bennett Wood Barnes Ross Henderson Jenkins Perry Powell Long Hughes "
            "Weber Fischer Rossi Novak Silva Costa Tanaka Sato Kim Park Chen Singh Patel Khan Ali Hansen Larsen Kowalski Popov Dubois Moreau Garcia Lopez Okafor Mensah Haddad").split()
FIRST = sorted({*NAMES, *("Aaron Abel Ada Adam Agnes Aida Alan Albert Alex Alma Amelia Amy Andre Andrea Angela Anton Arthur Asha Ava Barbara Beatrice Bella Bernard Bianca Boris Brian Bruno Caleb Camille Carl Carmen Cecilia Charles "
         "Charlotte Chris Claire Colin Cora Daisy Dana Daniel Daphne Denis Diana Dominic Dora Dylan Edgar Edith Elias Elise Ella Ellen Elsa Emil Emily Eric Esther Ethan Fatima Fiona Flora Frank Frida Gabriel Gemma George Gina Gloria Greta Gustav Hannah Harold Harry Heidi Helen Henry Hilda Holly Ian Ida Isabel Isaac Ivy Jack Jacob James Jane Jasmine "
         "Jason Joan Joel John Jorge Joseph Joy Judith Karl Kate Keith Klara Lara Leon Leonard Lena Lily Linda Lisa Lola Louis Lucy Luke Lydia Magnus Marcus Margaret Martin Mary Mateo Matilda Maya Mia Michael Milo Mina Miriam Monica Nadia Naomi Natalie Nathan Nora Oliver Olivia Otto Patrick Paula Pedro Penny Petra Philip Rachel Ralph Raymond Rebecca Richard Rita Robert Robin Roland Roy Ruby Sally Sam Sandra Sara Scott Simon Stella Stephen Susan Theo Thomas Tim Tina Tobias Tony Tracy Ursula Valerie Vincent Viola Walter Wendy William Xavier Yusuf").split()})
TOWNS = sorted({*CITIES, *("Amsterdam Antwerp Ankara Auckland Baghdad Baltimore Bangkok Barcelona Basel Beirut Belfast Belgrade Bilbao Birmingham Bombay Bordeaux Brisbane Brussels Bucharest Budapest Calgary Cardiff Casablanca Cologne Copenhagen Cordoba Cork Dresden Durban Edinburgh Florence Frankfurt Gdansk Genoa Glasgow Granada Graz Houston Istanbul Jakarta Karachi Kiev Kigali Leipzig Lille Linz Liverpool Lucerne Luxembourg Malaga Manchester Manila Marseille Melbourne Memphis Miami Milan Minsk Montreal Moscow Nantes Naples Nice Odessa Orlando Oxford Palermo Phoenix Portland Quebec Rabat Reykjavik Rotterdam Salzburg Santiago Seville Shanghai Singapore Stockholm Stuttgart Tallinn Tampa Tirana Toulouse Utrecht Valencia Vancouver Venice Verona Vilnius Winnipeg Zagreb").split()})
OBJECTS = sorted({*ITEMS, *("keys key wallet passport ticket ring scarf gloves glasses sunglasses hat umbrella book diary letter envelope photo map coin purse belt shoes boots socks ball doll kite puzzle cake bread cookies apples cheese milk butter honey jam soup scissors hammer screwdriver ladder rope bucket broom sponge soap towel brush comb razor candle matches flashlight battery cable remote camera radio violin trumpet flute paint pencil pen ruler stapler glue tape folder contract invoice medicine pills bandage thermometer spoon fork knife plate bowl cup pan pot lid basket box suitcase backpack helmet skates racket whistle medal trophy bone leash seeds shovel hose flowers vase spare tire toolbox necklace bracelet earrings crown sword shield lantern compass treasure").split()})
WHERE = ["in the {}", "under the {}", "on the {}", "behind the {}", "next to the {}", "near the {}", "inside the {}", "above the {}", "in front of the {}", "beside the {}"]
SPOTS = ("drawer kitchen cupboard garage garden shed attic cellar bathroom bedroom hallway fridge oven wardrobe closet shelf bookshelf table desk bed sofa chair bench box basket suitcase backpack car trunk glove compartment mailbox piano fireplace window door stairs bathtub washing machine dryer sink microwave toolbox locker safe tent barn stable tree fence fountain pond bridge well statue oak chimney roof balcony terrace carpet pillow blanket mattress curtain mirror lamp clock radio television printer flowerpot bucket barrel red box blue bag green chest white cabinet").replace("glove compartment", "glove_compartment").replace("washing machine", "washing_machine").replace("red box", "red_box").replace("blue bag", "blue_bag").replace("green chest", "green_chest").replace("white cabinet", "white_cabinet").split()
WORK = sorted({*JOBS, *("cook waiter clerk dentist vet barber florist butcher fisherman miner sailor soldier singer dancer actor drummer poet editor reporter photographer architect carpenter electrician mechanic welder roofer bricklayer janitor librarian scientist chemist astronomer biologist geologist accountant banker cashier secretary manager salesman translator guide firefighter paramedic surgeon pharmacist therapist programmer designer tester analyst student teacher coach referee lifeguard beekeeper shepherd blacksmith potter weaver jeweler locksmith postman detective").split()})
PETS = "dog cat bird horse rabbit hamster parrot goldfish turtle lizard snake mouse rat ferret goat pony duck hen canary spider frog hedgehog pig donkey".split()
HUES = COLORS + "turquoise violet gold beige crimson navy teal maroon lavender ivory magenta cyan indigo olive lime peach".split()
DISHES = "pizza,pasta,rice,sushi,soup,lasagna,curry,tacos,pancakes,dumplings,noodles,salad,steak,burgers,fried fish,ice cream,chocolate,cheese,apple pie,pumpkin soup,paella,risotto,falafel,hummus,ramen,goulash,couscous,omelets,waffles,popcorn,strawberries,mangoes,potato salad,garlic bread,roast chicken,lentils,baked beans,kebab,gnocchi,cherry cake".split(",")
KIN = "brother sister uncle aunt cousin son daughter mother father grandmother grandfather nephew niece boss neighbor teacher".split()
DO = "visit the zoo,go swimming,paint the fence,call the dentist,buy a bike,clean the garage,meet my sister,play tennis,bake bread,fix the roof,plant roses,watch a film,go to the museum,wash the car,write to my aunt,learn the guitar,see the doctor,go fishing,climb a hill,cook for my friends,sell my car,return the books,cut the grass,go to a concert,feed the ducks,pick up the parcel,renew my passport,ride to the lake,sort the photos,get a haircut".split(",")
WHEN = "tomorrow,tonight,next week,this evening,on Saturday,on Sunday,on Monday,on Tuesday,on Wednesday,on Thursday,on Friday,next month,this weekend,in the morning,this afternoon,next summer,in spring,after lunch".split(",")
DOMAINS = "example.com example.org example.net mail.org post.net webmail.com".split()


def name(r):
    x = r.random()
    return r.choice(FIRST) if x < 0.55 else f"{r.choice(FIRST)} {r.choice(SURNAMES)}" if x < 0.7 else made_up(r)


def first_name(r):
    return r.choice(FIRST) if r.random() < 0.65 else made_up(r)


def town(r):
    return r.choice(TOWNS) if r.random() < 0.7 else made_up(r, r.choice([2, 2, 3]))


def place(r):
    spot = r.choice(WHERE + ["on top of the {}", "between the {} and the door", "at the back of the {}"]).format(r.choice(SPOTS).replace("_", " "))
    style = r.random()
    if style < 0.7:
        return spot
    if style < 0.85:
        return r.choice([f"{spot} in the {r.choice('kitchen bedroom office garage cellar attic hall bathroom garden'.split())}", f"{spot} at {r.choice(['home', 'work', 'school'])}", f"{spot} in room {r.randint(1, 99)}"])
    return r.choice([f"in room {r.randint(1, 400)}", f"at {first_name(r)}'s house", f"on the {r.choice('first second third fourth fifth'.split())} floor", f"with {first_name(r)}", f"in {r.choice(['box', 'locker', 'drawer'])} {r.randint(1, 60)}", f"in {town(r)}", f"on {made_up(r)} Street {r.randint(1, 99)}", "at the office", "in my left pocket"])


def thing(r):
    return r.choice(OBJECTS) if r.random() < 0.75 else f"{r.choice(HUES)} {r.choice(OBJECTS)}"


def digits(r, count):
    return "".join(r.choice("0123456789") for _ in range(count))


def number(r):
    return str(r.randint(1, 10 ** r.choice([1, 2, 2, 3, 4, 5, 6])))


def code(r):
    letters = "ABCDEFGHJKLMNPQRSTUVWXYZ"
    return r.choice([lambda: digits(r, r.randint(3, 6)), lambda: r.choice(letters) + digits(r, r.randint(2, 4)), lambda: "".join(r.choice(letters) for _ in range(2)) + "-" + digits(r, r.randint(2, 4)), lambda: "".join(r.choice(letters + "0123456789") for _ in range(r.randint(4, 7))), lambda: made_up(r).lower() + digits(r, 2)])()


def phone(r):
    return r.choice([lambda: f"{digits(r, 3)}-{digits(r, 4)}", lambda: f"555-{digits(r, 4)}", lambda: f"0{digits(r, 3)} {digits(r, 6)}", lambda: f"+{r.randint(1, 99)} {digits(r, 3)} {digits(r, 4)}", lambda: f"({digits(r, 3)}) {digits(r, 3)}-{digits(r, 4)}", lambda: f"0{digits(r, 2)} {digits(r, 3)} {digits(r, 3)}"])()


def email(r, who=None):
    first = (who or first_name(r)).split()[0].lower()
    last = r.choice(SURNAMES).lower()
    user = r.choice([first, f"{first}.{last}", f"{first[0]}.{last}", f"{first}{r.randint(1, 99)}", f"{first}_{last}", f"{last}", f"{first}-{made_up(r, 1).lower()}", made_up(r).lower(), r.choice(["info", "office", "sales", "support", "contact", "hello"])])
    host = r.choice(DOMAINS) if r.random() < 0.4 else made_up(r, r.choice([1, 2, 2])).lower() + r.choice([".com", ".org", ".net", ".de", ".io", ".co.uk", ".eu", ".edu", "-" + r.choice(["shop", "media", "group"]) + ".com"])
    return f"{user}@{host}"


def date(r):
    day, month = r.randint(1, 28), r.choice(MONTHS)
    return r.choice([f"{month} {day}", f"{month} {day}", f"{day} {month}", f"{month} {day}, {r.randint(1950, 2030)}", f"{r.randint(1990, 2030)}-{r.randint(1, 12):02d}-{day:02d}"])


def birthday(r):
    return r.choice([f"{r.choice(MONTHS)} {r.randint(1, 28)}", f"{r.randint(1, 28)} {r.choice(MONTHS)}"])


def amount(r):
    whole = r.randint(1, 10 ** r.choice([1, 2, 2, 3, 4]))
    return r.choice([f"${whole}", f"${whole}.{digits(r, 2)}", f"{whole} dollars", f"{whole} euros", f"{whole}.{digits(r, 2)} euros", f"{whole} USD", f"{whole} pounds"])


def order(r):
    return r.choice(["", "A-", "B", "#", "INV-", "K", "ORD-", "X", "SO"]) + digits(r, r.randint(3, 6))


def product(r):
    return thing(r)


def clock(r):
    return r.choice([f"{r.randint(1, 12)} {r.choice(['am', 'pm'])}", f"{r.randint(6, 23)}:{r.choice(['00', '15', '30', '45', '10', '20'])}", f"{r.randint(1, 12)}:{r.choice(['00', '15', '30', '45'])} {r.choice(['am', 'pm'])}"])


def day(r):
    return r.choice(DAYS)
