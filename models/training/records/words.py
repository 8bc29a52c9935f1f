"""Word pools, and made-up names: a name without a fixed spelling can only be copied from the prompt."""

NAMES = ("Ana Ben Carla Deepak Elena Farid Grace Hugo Ines Jonas Kira Liam Mei Noor Omar Priya Quinn Rosa Samir Tara Umar Vera Wei Yara Zoe "
         "Alice Bob Maria Peter Tom Anna Lucas Emma Sofia Noah Ivan Olga Paul Laura David Sarah Mark Julia Kevin Nina Felix Clara Leo Ruth Max Eva "
         "Amir Layla Hana Kenji Yuki Diego Lucia Pablo Marta Nils Freya Erik Astrid Oscar Ingrid Tariq Zainab Kofi Ama Chloe Hassan Leila Victor Irene").split()
CITIES = ("Lisbon Oslo Nairobi Lima Kyoto Cairo Toronto Hanoi Berlin Quito Dublin Prague Accra Seoul Austin Perth Turin Malmo Bergen Tunis Paris London Rome "
          "Madrid Vienna Boston Chicago Denver Seattle Dallas Munich Hamburg Lyon Porto Ghent Zurich Geneva Athens Sofia Warsaw Krakow Riga Delhi Mumbai Tokyo Osaka "
          "Sydney Bogota Havana Dakar Lagos Doha Dubai Helsinki Leeds Bristol").split()
ITEMS = ("lamp kettle jacket keyboard backpack headset blender chair router monitor tent camera bottle notebook scooter phone tablet toaster printer desk "
         "sofa bicycle watch speaker charger mug pillow blanket umbrella guitar drone heater fan vacuum mirror rug clock helmet laptop mouse").split()
COLORS = "red blue green yellow black white purple orange grey brown pink silver".split()
ANIMALS = "fox rabbit bear owl mouse frog cat dog duck squirrel hedgehog turtle crow deer badger goat".split()
MONTHS = "January February March April May June July August September October November December".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
WEATHER = "sunny cloudy rainy windy snowy foggy stormy clear".split()
JOBS = "teacher doctor engineer baker farmer pilot nurse painter writer lawyer driver chef gardener plumber tailor judge".split()
FOODS = "pizza soup bread rice apples cheese pasta salad cake honey beans tea coffee milk eggs bananas tomatoes onions carrots butter".split()
LANGUAGES = "French German Spanish Italian Japanese Portuguese Dutch Polish Greek Arabic".split()

_ONSETS = "b c d f g h j k l m n p r s t v w z br ch cl dr fr gr kr pl pr sh st th tr".split()
_VOWELS = "a e i o u a e i o ai ea ia oo".split()
_CODAS = ["", "", "n", "r", "l", "s", "t", "m", "k", "nd", "x"]


def made_up(r, syllables=None):
    return "".join(r.choice(_ONSETS) + r.choice(_VOWELS) + r.choice(_CODAS) for _ in range(syllables or r.choice([1, 2, 2, 3]))).capitalize()


def person(r):
    return r.choice(NAMES) if r.random() < 0.7 else made_up(r)


def people(r, count):
    found = []
    while len(found) < count:
        name = person(r)
        if name not in found:
            found.append(name)
    return found


def city(r):
    return r.choice(CITIES) if r.random() < 0.75 else made_up(r)


def cities(r, count):
    found = []
    while len(found) < count:
        name = city(r)
        if name not in found:
            found.append(name)
    return found


def clock(r):
    return f"{r.randint(0, 23):02d}:{r.choice([0, 5, 10, 15, 20, 30, 40, 45, 50]):02d}"


def email(r, name):
    return f"{name.lower()}@{r.choice(['example.com', 'mail.org', 'post.net', made_up(r, 2).lower() + '.com'])}"


def code(r):
    return r.choice(["", "A-", "B", "#", "INV-", "K"]) + str(r.randint(100, 99999))


def listed(words, last="and"):
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" {last} " + words[-1]


def article(word):
    return ("an " if word[0] in "aeiou" else "a ") + word
