"""Simple facts, most of them generated from short tables: what is asked, in which forms, and the answer."""
from .phrases import pick, sentence
from .words import article

CAPITALS = dict(pair.split(":") for pair in """France:Paris,Japan:Tokyo,Italy:Rome,Egypt:Cairo,Spain:Madrid,Peru:Lima,Germany:Berlin,Norway:Oslo,Portugal:Lisbon,Kenya:Nairobi,Greece:Athens,Austria:Vienna,Ireland:Dublin,Poland:Warsaw,England:London,
Sweden:Stockholm,Denmark:Copenhagen,Finland:Helsinki,Iceland:Reykjavik,Belgium:Brussels,the Netherlands:Amsterdam,Switzerland:Bern,Hungary:Budapest,Romania:Bucharest,Bulgaria:Sofia,Croatia:Zagreb,Serbia:Belgrade,Ukraine:Kyiv,Russia:Moscow,Turkey:Ankara,
China:Beijing,India:New Delhi,Thailand:Bangkok,Vietnam:Hanoi,Indonesia:Jakarta,Malaysia:Kuala Lumpur,the Philippines:Manila,South Korea:Seoul,Australia:Canberra,New Zealand:Wellington,Canada:Ottawa,the United States:Washington,Mexico:Mexico City,Cuba:Havana,
Brazil:Brasilia,Argentina:Buenos Aires,Chile:Santiago,Colombia:Bogota,Ecuador:Quito,Venezuela:Caracas,Uruguay:Montevideo,Morocco:Rabat,Algeria:Algiers,Tunisia:Tunis,Nigeria:Abuja,Ghana:Accra,Ethiopia:Addis Ababa,Senegal:Dakar,Israel:Jerusalem,Iran:Tehran,
Iraq:Baghdad,Saudi Arabia:Riyadh,Pakistan:Islamabad,Nepal:Kathmandu,Scotland:Edinburgh,Wales:Cardiff,the Czech Republic:Prague,Slovakia:Bratislava,Slovenia:Ljubljana,Estonia:Tallinn,Latvia:Riga,Lithuania:Vilnius,the United Kingdom:London,Bolivia:Sucre""".replace("\n", "").split(","))
CONTINENTS = {"Europe": "France,Italy,Spain,Germany,Norway,Portugal,Greece,Austria,Ireland,Poland,England,Sweden,Finland,Belgium,Hungary", "Asia": "Japan,China,India,Thailand,Vietnam,Nepal,Pakistan,Iran,South Korea", "Africa": "Egypt,Kenya,Morocco,Nigeria,Ghana,Ethiopia,Tunisia,Algeria",
              "South America": "Peru,Brazil,Argentina,Chile,Colombia,Ecuador,Uruguay", "North America": "Canada,Mexico,Cuba,the United States"}
SPOKEN = dict(France="French", Japan="Japanese", Italy="Italian", Egypt="Arabic", Spain="Spanish", Peru="Spanish", Germany="German", Norway="Norwegian", Portugal="Portuguese", Greece="Greek", Austria="German", England="English", Poland="Polish", Sweden="Swedish",
              Denmark="Danish", Finland="Finnish", Russia="Russian", China="Chinese", Brazil="Portuguese", Mexico="Spanish", Argentina="Spanish", Australia="English", Hungary="Hungarian", Turkey="Turkish", Thailand="Thai")
MONEY = dict(Japan="yen", England="pound", France="euro", Germany="euro", Italy="euro", Spain="euro", India="rupee", China="yuan", Russia="ruble", Switzerland="franc", Mexico="peso", Sweden="krona", Poland="zloty", Brazil="real")
MONEY["the United States"] = "dollar"
LEGS = {"two": "bird,duck,chicken,human,penguin,owl,ostrich,parrot", "four": "dog,cat,horse,cow,elephant,lion,tiger,mouse,pig,sheep,rabbit,bear,fox,goat,frog,camel,wolf,deer,turtle,table,chair", "six": "ant,bee,fly,beetle,butterfly,ladybug", "eight": "spider,octopus", "no": "snake,fish,worm,snail"}
SOUNDS = dict(dog="woof", cat="meow", cow="moo", sheep="baa", pig="oink", duck="quack", horse="neigh", lion="roar", bee="buzz", owl="hoot", frog="ribbit", mouse="squeak", rooster="cock-a-doodle-doo", snake="hiss", wolf="howl", bird="tweet", goat="meh", crow="caw")
BABIES = dict(dog="puppy", cat="kitten", cow="calf", sheep="lamb", pig="piglet", duck="duckling", horse="foal", lion="cub", bear="cub", frog="tadpole", goat="kid", kangaroo="joey", deer="fawn", goose="gosling", chicken="chick", owl="owlet", elephant="calf", fox="cub")
HOMES = dict(bird="nest", bee="hive", spider="web", dog="kennel", bear="den", rabbit="burrow", horse="stable", ant="anthill", lion="den", fox="den", pig="sty", beaver="lodge")
EATS = {"grass": "cow,sheep,horse,goat,zebra", "meat": "lion,tiger,wolf,eagle", "carrots": "rabbit", "bamboo": "panda", "nectar": "bee,butterfly", "cheese and seeds": "mouse", "nuts": "squirrel", "leaves": "giraffe,koala", "fish": "penguin,seal,pelican"}
COLORED = {"blue": "the sky,the sea,the ocean,a sapphire", "green": "grass,a leaf,a frog,spinach,a cucumber,broccoli,an emerald,a pea,a lime", "yellow": "a ripe banana,a banana,the sun,a lemon,a sunflower,corn,butter,cheese,a chick", "red": "blood,a tomato,a strawberry,a ripe tomato,a ruby,a fire truck,a cherry,a stop sign",
           "white": "snow,milk,salt,a swan,sugar,a polar bear,rice,flour", "black": "coal,a raven,the night,a crow", "orange": "a carrot,an orange,a pumpkin", "brown": "chocolate,coffee,a bear,wood,earth,a potato", "pink": "a flamingo,a pig", "grey": "an elephant,a cloud,a mouse,stone", "purple": "an eggplant,a plum,lavender", "gold": "gold,a gold coin"}
OPPOSITES = dict(pair.split(":") for pair in """hot:cold,big:small,fast:slow,day:night,up:down,left:right,good:bad,happy:sad,young:old,new:old,tall:short,long:short,high:low,light:dark,hard:soft,easy:difficult,rich:poor,strong:weak,clean:dirty,dry:wet,full:empty,open:closed,early:late,near:far,
loud:quiet,thick:thin,wide:narrow,deep:shallow,heavy:light,sweet:sour,true:false,right:wrong,first:last,begin:end,start:stop,love:hate,win:lose,buy:sell,give:take,push:pull,come:go,in:out,on:off,over:under,above:below,before:after,always:never,everything:nothing,more:less,many:few,
alive:dead,awake:asleep,safe:dangerous,summer:winter,north:south,east:west,man:woman,boy:girl,king:queen,yes:no,cold:hot,small:big,slow:fast,night:day,down:up,bad:good,sad:happy,old:young,short:long,low:high,dark:light,soft:hard,poor:rich,weak:strong,dirty:clean,wet:dry,
empty:full,late:early,far:near,quiet:loud,thin:thick,narrow:wide,wrong:right,last:first,end:beginning,lose:win,sell:buy,take:give,pull:push,out:in,off:on,under:over,never:always,south:north,west:east,black:white,white:black,friend:enemy,question:answer,smooth:rough,brave:afraid,
rise:fall,expensive:cheap,cheap:expensive,beautiful:ugly,ugly:beautiful,kind:mean,modern:old,large:small,little:big,noisy:quiet,warm:cool,inside:outside,hello:goodbye,laugh:cry,remember:forget,simple:complicated,tight:loose,sharp:blunt,sunrise:sunset,war:peace,winter:summer,light:dark""".replace("\n", "").split(","))
PLURALS = dict(pair.split(":") for pair in """mouse:mice,child:children,man:men,woman:women,foot:feet,tooth:teeth,goose:geese,person:people,sheep:sheep,fish:fish,deer:deer,ox:oxen,leaf:leaves,knife:knives,wife:wives,life:lives,wolf:wolves,half:halves,loaf:loaves,shelf:shelves,baby:babies,city:cities,
party:parties,story:stories,lady:ladies,cherry:cherries,berry:berries,family:families,country:countries,fly:flies,box:boxes,fox:foxes,bus:buses,dish:dishes,wish:wishes,church:churches,watch:watches,glass:glasses,class:classes,potato:potatoes,tomato:tomatoes,hero:heroes,piano:pianos,
cat:cats,dog:dogs,house:houses,book:books,tree:trees,car:cars,apple:apples,day:days,boy:boys,key:keys,girl:girls,bird:birds,cow:cows,horse:horses,table:tables,chair:chairs,flower:flowers,egg:eggs,pen:pens,cup:cups,shoe:shoes,cactus:cacti,lamp:lamps,toy:toys,star:stars,brush:brushes,peach:peaches,kiss:kisses,tax:taxes""".replace("\n", "").split(","))
PAST = dict(pair.split(":") for pair in """go:went,see:saw,eat:ate,run:ran,come:came,take:took,give:gave,make:made,write:wrote,read:read,say:said,sing:sang,swim:swam,drink:drank,think:thought,buy:bought,bring:brought,teach:taught,catch:caught,find:found,know:knew,fly:flew,drive:drove,sleep:slept,speak:spoke,
tell:told,sell:sold,stand:stood,sit:sat,win:won,lose:lost,begin:began,break:broke,build:built,choose:chose,do:did,be:was,have:had,feel:felt,forget:forgot,grow:grew,hear:heard,hide:hid,keep:kept,leave:left,meet:met,pay:paid,put:put,play:played,walk:walked,work:worked,talk:talked,like:liked,jump:jumped,look:looked,help:helped,want:wanted""".replace("\n", "").split(","))
SYNONYMS = dict(pair.split(":") for pair in "big:large,small:little,happy:glad,sad:unhappy,fast:quick,smart:clever,begin:start,end:finish,nice:kind,hard:difficult,easy:simple,angry:mad,tired:sleepy,rich:wealthy,quiet:silent,pretty:beautiful,beautiful:pretty,funny:amusing,scared:afraid,old:ancient,strong:powerful,house:home,car:automobile,buy:purchase,help:assist,speak:talk,shout:yell,quick:fast,large:big,glad:happy,wrong:incorrect,right:correct,gift:present,child:kid,sick:ill,rock:stone,road:street,job:work,dish:meal,brave:bold,important:significant,good:great,bad:awful".split(","))
RHYMES = dict(pair.split(":") for pair in "cat:hat,dog:fog,house:mouse,tree:bee,sun:fun,day:way,night:light,star:car,moon:spoon,rain:train,book:cook,ball:wall,king:ring,bear:chair,cake:lake,fish:dish,boat:coat,sky:fly,blue:shoe,red:bed,time:lime,love:dove,heart:art,snow:show,bell:well,nose:rose,hand:sand,ten:pen,two:shoe,three:tree,green:queen,fire:tire,sea:tea,bread:head,goat:boat,mouse:house,box:fox,light:night,hill:mill,pig:wig".split(","))
NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
PLANETS = "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune".split()
ORDER = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
SIZES = "an ant,a bee,a mouse,a bird,a rabbit,a cat,a dog,a sheep,a lion,a horse,an elephant,a whale".split(",")
SPEEDS = "a snail,a turtle,a human,a dog,a horse,a car,a train,a plane,a rocket".split(",")
MAKERS_OF = {"the telephone": "Alexander Graham Bell", "the light bulb": "Thomas Edison", "the steam engine": "James Watt", "the airplane": "the Wright brothers", "the printing press": "Johannes Gutenberg", "the World Wide Web": "Tim Berners-Lee", "dynamite": "Alfred Nobel", "the radio": "Guglielmo Marconi", "penicillin": "Alexander Fleming", "the theory of relativity": "Albert Einstein", "gravity": "Isaac Newton", "America": "Christopher Columbus", "Linux": "Linus Torvalds", "Python": "Guido van Rossum", "the car": "Karl Benz"}
WRITERS = {"Hamlet": "William Shakespeare", "Romeo and Juliet": "William Shakespeare", "Macbeth": "William Shakespeare", "Harry Potter": "J. K. Rowling", "Alice in Wonderland": "Lewis Carroll", "Peter Pan": "J. M. Barrie", "Oliver Twist": "Charles Dickens", "A Christmas Carol": "Charles Dickens", "The Hobbit": "J. R. R. Tolkien", "The Lord of the Rings": "J. R. R. Tolkien", "Don Quixote": "Miguel de Cervantes", "Faust": "Goethe", "The Jungle Book": "Rudyard Kipling", "Frankenstein": "Mary Shelley", "Pride and Prejudice": "Jane Austen", "Robinson Crusoe": "Daniel Defoe", "The Odyssey": "Homer", "1984": "George Orwell", "Moby Dick": "Herman Melville", "Dracula": "Bram Stoker", "Pinocchio": "Carlo Collodi", "Heidi": "Johanna Spyri", "War and Peace": "Leo Tolstoy", "2001: A Space Odyssey": "Arthur C. Clarke"}
PAINTERS = {"the Mona Lisa": "Leonardo da Vinci", "the Starry Night": "Vincent van Gogh", "Guernica": "Pablo Picasso", "the Scream": "Edvard Munch", "the Night Watch": "Rembrandt"}
SYMBOLS = dict(water="H2O", gold="Au", silver="Ag", iron="Fe", oxygen="O", hydrogen="H", carbon="C", helium="He", nitrogen="N", salt="NaCl", copper="Cu", lead="Pb", sodium="Na", calcium="Ca")
# noun phrase, answer to "what is ...?"; the phrases of the older table are among them
PHRASES = {
    "the largest planet": "Jupiter", "the red planet": "Mars", "the closest star to Earth": "the Sun", "the number of days in a week": "seven", "the number of months in a year": "twelve", "the number of hours in a day": "24", "the freezing point of water in Celsius": "0 degrees",
    "the number of sides of a triangle": "three", "the largest ocean": "the Pacific Ocean", "the highest mountain": "Mount Everest", "the animal that gives us milk": "the cow", "the smallest planet": "Mercury", "the planet closest to the Sun": "Mercury", "the hottest planet": "Venus",
    "the boiling point of water": "100 degrees Celsius", "the freezing point of water": "0 degrees Celsius", "the largest country": "Russia", "the smallest country": "Vatican City", "the largest continent": "Asia", "the smallest continent": "Australia", "the longest river": "the Nile", "the largest desert": "the Antarctic desert",
    "the tallest animal": "the giraffe", "the largest animal": "the blue whale", "the biggest animal": "the blue whale", "the fastest land animal": "the cheetah", "the fastest animal": "the falcon", "the king of the animals": "the lion", "the largest bird": "the ostrich", "the largest land animal": "the elephant", "the tallest mountain": "Mount Everest", "the biggest planet": "Jupiter", "the biggest ocean": "the Pacific Ocean", "the hardest stone": "the diamond",
    "the first letter of the alphabet": "A", "the last letter of the alphabet": "Z", "the first month of the year": "January", "the last month of the year": "December", "the coldest season": "winter", "the hottest season": "summer", "the shortest month": "February", "the first day of the week": "Monday", "the last day of the week": "Sunday",
    "the number of sides of a square": "four", "the number of sides of a hexagon": "six", "the number of sides of a pentagon": "five", "the value of pi": "about 3.14", "pi": "about 3.14", "the square root of 9": "3", "the square root of 16": "4", "the square root of 25": "5", "half of ten": "five", "a dozen": "twelve", "half of 100": "50", "the speed of light": "about 300,000 kilometers per second", "the largest organ of the body": "the skin",
    "the currency of Europe": "the euro", "the language of France": "French", "the biggest city in the United States": "New York", "the largest city in Japan": "Tokyo", "the river in London": "the Thames", "the river in Paris": "the Seine", "the color of an orange": "orange", "the home of the Eiffel Tower": "Paris", "the name of our galaxy": "the Milky Way", "the smallest prime number": "2",
}
HOW_MANY = {"days are in a week": "seven days in a week", "months are in a year": "twelve months in a year", "hours are in a day": "24 hours in a day", "minutes are in an hour": "60 minutes in an hour", "seconds are in a minute": "60 seconds in a minute", "days are in a year": "365 days in a year", "weeks are in a year": "52 weeks in a year", "years are in a century": "100 years in a century", "years are in a decade": "ten years in a decade",
            "letters are in the alphabet": "26 letters in the alphabet", "continents are there": "seven continents", "planets are in the solar system": "eight planets in the solar system", "planets are there": "eight planets", "oceans are there": "five oceans", "seasons are there": "four seasons", "colors are in a rainbow": "seven colors in a rainbow", "cents are in a dollar": "100 cents in a dollar", "cents are in a euro": "100 cents in a euro",
            "centimeters are in a meter": "100 centimeters in a meter", "meters are in a kilometer": "1000 meters in a kilometer", "grams are in a kilogram": "1000 grams in a kilogram", "eggs are in a dozen": "twelve eggs in a dozen", "players are in a football team": "eleven players in a football team", "states are in the United States": "50 states in the United States", "strings are on a guitar": "six strings on a guitar", "strings are on a violin": "four strings on a violin", "inches are in a foot": "twelve inches in a foot", "vowels are in the alphabet": "five vowels in the alphabet", "cards are in a deck": "52 cards in a deck", "sides are on a cube": "six sides on a cube"}
HAS = {"wheels": {"car": "four", "bicycle": "two", "tricycle": "three", "motorcycle": "two", "unicycle": "one"}, "fingers": {"hand": "five", "human": "ten"}, "toes": {"foot": "five"}, "eyes": {"human": "two", "dog": "two", "cat": "two"}, "sides": {"triangle": "three", "square": "four", "rectangle": "four", "pentagon": "five", "hexagon": "six", "octagon": "eight"}, "wings": {"bird": "two", "bee": "four"}, "arms": {"octopus": "eight", "human": "two"}, "ears": {"rabbit": "two", "human": "two"}, "horns": {"unicorn": "one", "cow": "two"}, "hearts": {"octopus": "three", "human": "one"}}
CAN = {"fly": ("a bird,a bee,an eagle,a butterfly,a bat,an owl,a duck", "a penguin,a dog,a cat,a fish,a pig,an elephant,a horse,an ostrich"), "swim": ("a fish,a duck,a whale,a shark,a penguin,a dolphin,a frog,a seal", "a stone,a hen,a snail"), "talk": ("a human", "a fish,a stone,a tree,a cow"), "bark": ("a dog", "a cat,a fish,a bird")}
IS_A = {"fruit": ("an apple,a banana,a cherry,a pear,an orange,a tomato,a mango", "a carrot,a dog,a potato,an onion"), "vegetable": ("a carrot,an onion,a potato,broccoli,spinach,a cabbage", "an apple,a banana,a car"), "animal": ("a dog,a cat,a whale,a bee,a spider,a snake,a bird", "a tree,a car,a house,a rose,a stone"), "mammal": ("a dog,a whale,a dolphin,a bat,a cow,a human", "a fish,a bird,a snake,a spider,a frog"), "planet": ("Mars,Venus,Earth,Jupiter,Saturn,Neptune", "the Sun,the Moon"), "star": ("the Sun", "the Earth,the Moon,Mars"), "color": ("red,blue,green,purple", "a dog,loud,a table"), "country": ("France,Japan,Canada,Egypt,Brazil", "Paris,London,Africa,Rome"), "bird": ("an owl,a penguin,an eagle,a duck", "a bat,a bee,a dog"), "insect": ("an ant,a bee,a fly", "a spider,a cat")}
YES_NO = {"is the earth [round|a ball]": "Yes, the Earth is round.", "is the earth flat": "No, the Earth is round.", "is water wet": "Yes, water is wet.", "is fire hot": "Yes, fire is hot.", "is ice cold": "Yes, ice is cold.", "is the sun hot": "Yes, the Sun is very hot.", "is snow white": "Yes, snow is white.", "is the moon made of cheese": "No, the Moon is made of rock.", "do cows give milk": "Yes, cows give milk.", "do bees make honey": "Yes, bees make honey.", "do hens lay eggs": "Yes, hens lay eggs.", "does ice float on water": "Yes, ice floats on water.", "do plants need [water|light]": "Yes, plants need water and light.", "is an elephant bigger than a mouse": "Yes, an elephant is bigger than a mouse.", "do dogs lay eggs": "No, dogs do not lay eggs.", "does the sun rise in the east": "Yes, the Sun rises in the east.", "is grass blue": "No, grass is green.", "is the sky green": "No, the sky is blue.", "is london in france": "No, London is in England.", "is paris in france": "Yes, Paris is in France.", "is sugar sweet": "Yes, sugar is sweet.", "is a lemon sour": "Yes, a lemon is sour."}
# what something is: the first words of the answer are the thing
MEANINGS = {"a dog": "an animal that lives with people and barks", "a cat": "a small animal that lives with people and says meow", "a horse": "a large animal that people ride", "a cow": "an animal that gives us milk", "a bird": "an animal with wings and feathers", "a fish": "an animal that lives in water", "a bee": "an insect that makes honey", "a tree": "a large plant with a trunk and leaves", "a flower": "the colorful part of a plant", "a house": "a building where people live", "a car": "a machine with four wheels that people drive",
            "a computer": "a machine that works with data and programs", "a book": "many pages with text to read", "a phone": "a device to talk with people far away", "a clock": "a device that shows the time", "a chair": "a thing to sit on", "a table": "a piece of furniture with a flat top", "a river": "a stream of water that flows to the sea", "a mountain": "a very high hill", "an island": "land with water all around it", "a city": "a large place where many people live", "a country": "a land with its own government", "a doctor": "a person who helps sick people", "a teacher": "a person who helps others learn",
            "a baker": "a person who makes bread", "a king": "a man who rules a country", "a school": "a place where children learn", "a hospital": "a place where sick people are helped", "a library": "a place with many books", "a planet": "a large ball that goes around a star", "a star": "a hot, bright ball of gas in space", "the sun": "the star that gives us light and warmth", "the moon": "the ball of rock that goes around the Earth", "the earth": "the planet on which we live", "water": "a clear liquid that we drink", "fire": "the heat and light of something that burns", "ice": "frozen water", "snow": "frozen water that falls from the sky", "rain": "water that falls from clouds", "wind": "moving air", "air": "the gas that we breathe",
            "gravity": "the force that pulls things to the ground", "electricity": "the energy that makes lamps and machines work", "photosynthesis": "how plants make food from light, water and air", "the internet": "a network that connects computers all over the world", "an algorithm": "a list of steps that solves a problem", "a language model": "a program that predicts the next word of a text", "machine learning": "a way for programs to learn from examples", "ai": "software that does tasks which need thinking", "artificial intelligence": "software that does tasks which need thinking", "a neural network": "a program with many small units that learn from examples", "a robot": "a machine that can do work on its own", "software": "the programs that run on a computer", "a program": "a list of instructions for a computer", "python": "a programming language that is easy to read", "javascript": "a programming language for web pages", "json": "a text format for data with names and values", "html": "the language in which web pages are written", "a database": "a place where a program keeps its data", "an api": "a way for programs to talk to each other", "a server": "a computer that answers requests of others", "a token": "a piece of text that a language model reads", "a prompt": "the text that you give to a language model", "linux": "a free operating system", "a website": "a set of pages on the internet", "an email": "a letter that is sent by computer", "a password": "a secret word that protects an account", "music": "sounds put together so that people like to hear them", "a song": "a short piece of music with words", "a story": "a text that tells what happened", "a poem": "a short text with rhythm and often rhymes", "a joke": "a short text that makes people laugh", "football": "a game in which two teams play with a ball", "chess": "a board game for two players", "bread": "a food made from flour and water", "cheese": "a food made from milk", "chocolate": "a sweet food made from cocoa", "honey": "a sweet food that bees make", "coffee": "a hot drink made from beans", "tea": "a hot drink made from leaves", "pizza": "a flat bread with tomatoes and cheese", "an apple": "a round fruit that grows on trees", "a banana": "a long yellow fruit", "a friend": "a person you like and trust", "a family": "a group of people like parents and children", "a noun": "a word for a person, place or thing", "a verb": "a word for something you do", "an adjective": "a word that describes a noun", "a vowel": "one of the letters a, e, i, o and u", "a triangle": "a shape with three sides", "a circle": "a round shape", "a square": "a shape with four equal sides", "a prime number": "a number that only 1 and itself divide", "a volcano": "a mountain from which hot rock can flow", "a desert": "a dry place with little rain", "an ocean": "a very large sea", "a rainbow": "a colorful arc in the sky after rain", "a dinosaur": "an animal that lived millions of years ago", "space": "the dark room between the stars", "money": "what people use to pay", "a bank": "a place that keeps money", "history": "what happened in the past", "science": "the way people learn how the world works", "math": "the science of numbers and shapes"}

NOUN_FORMS = ["what is {k}?", "what's {k}?", "whats {k}?", "{k}?", "{k}", "tell me {k}", "do you know {k}?", "can you tell me {k}?", "name {k}", "question: what is {k}?", "please tell me what {k} is", "what is {k} called?", "i forgot {k}", "do you know what {k} is?", "i want to know {k}", "what would be {k}?", "tell me what {k} is", "could you tell me what {k} is?", "give me {k}"]
OPEN_FORMS = ["{q}?", "{q}?", "{q}?", "tell me {q}", "do you know {q}?", "can you tell me {q}?", "question: {q}?", "please tell me {q}", "i want to know {q}", "{q}, please?", "just tell me {q}", "quick question: {q}?", "i wonder {q}", "any idea {q}?"]


def _noun(k, value):
    return [(form.replace("{k}", k), f"{sentence(k)} is {value}.") for form in NOUN_FORMS]


def _open(answer, *questions):
    return [(form.replace("{q}", q), answer) for q in questions for form in OPEN_FORMS]


def _each(table):
    return [(thing, value) for value, things in table.items() for thing in (things.split(",") if isinstance(things, str) else things)]


def _article(word):
    return word if word in ("grass", "coffee") else article(word)


def build():
    """{key: [(question, answer)]}: every fact with all its forms. A question starts in lower case unless a name begins it."""
    facts = {}
    for country, city in CAPITALS.items():
        facts["capital", country] = _noun(f"the capital of {country}", city) + _open(f"The capital of {country} is {city}.", f"which city is the capital of {country}") + [(form.format(c=country), f"The capital of {country} is {city}.") for form in ("capital of {c}", "capital of {c}?", "{c} capital", "the capital city of {c}?", "what is the capital city of {c}?", "capital city of {c}", "what is {c}'s capital?")]
        if city not in ("London", "Washington", "Lima"):
            facts["capital of what", city] = _open(f"{city} is the capital of {country}.", f"of which country is {city} the capital", f"{city} is the capital of which country", f"what country has the capital {city}") + _open(f"{city} is in {country}.", f"where is {city}", f"in which country is {city}", f"what country is {city} in")
    for country, continent in _each(CONTINENTS):
        facts["continent", country] = _open(f"{sentence(country)} is in {continent}.", f"where is {country}", f"on which continent is {country}", f"what continent is {country} in", f"in which part of the world is {country}")
    for country, language in SPOKEN.items():
        facts["spoken", country] = _open(f"People in {country} speak {language}.", f"what language do they speak in {country}", f"which language is spoken in {country}", f"what do people speak in {country}", f"what is the language of {country}")
    for country, money in MONEY.items():
        facts["money", country] = _open(f"The currency of {country} is the {money}.", f"what is the currency of {country}", f"what money do they use in {country}", f"how do you pay in {country}")
    for animal, count in _each(LEGS):
        reply = f"{sentence(_article(animal))} has {count} legs." if count != "no" else f"{sentence(_article(animal))} has no legs."
        if animal != "octopus":
            facts["legs", animal] = _open(reply, f"how many legs does {_article(animal)} have", f"how many legs has {_article(animal)}", f"how many legs do {PLURALS.get(animal, animal + 's')} have") + _noun(f"the number of legs of {_article(animal)}", count if count != "no" else "zero")
    for thing, colour in _each(COLORED):
        for word in ("color", "colour"):
            facts["color " + word, thing] = _noun(f"the {word} of {thing}", colour) + _open(f"{sentence(thing)} is {colour}.", f"what {word} is {thing}", f"which {word} is {thing}", f"which {word} does {thing} have")
    for animal, value in SOUNDS.items():
        facts["sound", animal] = _open(f"{sentence(article(animal))} says {value}.", f"what does {article(animal)} say", f"what sound does {article(animal)} make", f"how does {article(animal)} sound", f"what noise does {article(animal)} make", f"what do {PLURALS.get(animal, animal + 's')} say")
        facts["who says", value] = _open(f"{sentence(article(animal))} says {value}.", f"which animal says {value}", f"what animal says {value}", f"who says {value}")
    for animal, value in BABIES.items():
        facts["baby", animal] = _open(f"A baby {animal} is called {article(value)}.", f"what is a baby {animal} called", f"what do you call a baby {animal}", f"what is the name for a young {animal}", f"what is a baby {animal}")
    for animal, value in HOMES.items():
        facts["home", animal] = _open(f"{sentence(article(animal))} lives in {article(value)}.", f"where does {article(animal)} live", f"what is the home of {article(animal)} called", f"in what does {article(animal)} live")
    for animal, value in _each(EATS):
        facts["eats", animal] = _open(f"{sentence(article(animal))} eats {value}.", f"what does {article(animal)} eat", f"what do {PLURALS.get(animal, animal + 's')} eat", f"what is the food of {article(animal)}")
    for word, other in OPPOSITES.items():
        facts["opposite", word] = _noun(f"the opposite of {word}", other) + [(form.format(w=word), f"The opposite of {word} is {other}.") for form in ("opposite of {w}", "opposite of {w}?", "opposite: {w}", "give the opposite of {w}", "what is the antonym of {w}?", "antonym of {w}", "opposite of '{w}'", "what word means the opposite of {w}?", "what's the opposite of \"{w}\"?", "the opposite of {w}, please")]
    for word, plural in PLURALS.items():
        facts["plural", word] = _noun(f"the plural of {word}", plural) + [(form.format(w=word), f"The plural of {word} is {plural}.") for form in ("plural of {w}", "plural of {w}?", "plural: {w}", "what is more than one {w} called?", "one {w}, two what?", "give the plural of {w}", "plural form of {w}", "make {w} plural", "how do you write the plural of {w}?")]
        facts["singular", plural] = [(form.format(w=plural), f"The singular of {plural} is {word}.") for form in ("singular of {w}", "what is the singular of {w}?", "the singular of {w}?", "singular: {w}", "tell me the singular of {w}", "give the singular of {w}", "singular form of {w}", "make {w} singular", "do you know the singular of {w}?", "what's the singular of {w}?", "please give me the singular of {w}", "can you tell me the singular of {w}?")]
    for word, past in PAST.items():
        facts["past", word] = _noun(f"the past tense of {word}", past) + [(form.format(w=word), f"The past tense of {word} is {past}.") for form in ("past tense of {w}", "past of {w}", "past tense of {w}?", "past tense: {w}", "put {w} in the past tense", "what is the past of {w}?", "today i {w}, yesterday i what?")]
    for word, other in SYNONYMS.items():
        facts["synonym", word] = [(form.format(w=word), f"A synonym of {word} is {other}.") for form in ("what is a synonym of {w}?", "synonym of {w}", "synonym for {w}", "a synonym for {w}?", "another word for {w}", "what is another word for {w}?", "give me another word for {w}", "give me a synonym for {w}", "say {w} in another word", "what word means the same as {w}?", "tell me a synonym of {w}", "which word is like {w}?", "synonym: {w}")]
    for word, other in RHYMES.items():
        facts["rhyme", word] = [(form.format(w=word), f"{sentence(other)} rhymes with {word}.") for form in ("what rhymes with {w}?", "which word rhymes with {w}?", "a word that rhymes with {w}", "give me a rhyme for {w}", "rhyme for {w}", "find a rhyme for {w}", "rhymes with {w}?", "tell me a word that rhymes with {w}", "name a word that rhymes with {w}", "rhyme: {w}", "do you know a rhyme for {w}?", "what word rhymes with {w}", "something that rhymes with {w}")]
    for names, what in ((DAYS, "day"), (MONTHS, "month")):
        for i, name in enumerate(names):
            after, before = names[(i + 1) % len(names)], names[i - 1]
            facts["after", name] = _open(f"{after} comes after {name}.", f"what comes after {name}", f"which {what} comes after {name}", f"what {what} comes next after {name}", f"what {what} follows {name}") + _noun(f"the {what} after {name}", after)
            facts["before", name] = _open(f"{before} comes before {name}.", f"what comes before {name}", f"which {what} comes before {name}") + _noun(f"the {what} before {name}", before)
            if what == "day":
                facts["tomorrow", name] = [(form.format(d=name), f"Then tomorrow is {after}.") for form in ("today is {d}, what is tomorrow?", "if today is {d}, what day is tomorrow?", "it is {d} today. what day is tomorrow?", "when today is {d}, what is tomorrow?")]
                facts["yesterday", name] = [(form.format(d=name), f"Then yesterday was {before}.") for form in ("today is {d}, what was yesterday?", "if today is {d}, what day was yesterday?", "it is {d} today. what day was yesterday?", "when today is {d}, what was yesterday?")]
            else:
                facts["month days", name] = _open(f"{name} has {MONTH_DAYS[i]} days.", f"how many days are in {name}", f"how many days does {name} have", f"how long is {name}")
                facts["nth month", name] = _noun(f"the {ORDER[i]} month", name) + _open(f"The {ORDER[i]} month is {name}.", f"which month is the {ORDER[i]}", f"what is month number {i + 1}")
    for i, planet in enumerate(PLANETS):
        facts["planet", planet] = _noun(f"the {ORDER[i]} planet from the Sun", planet) + _open(f"The {ORDER[i]} planet from the Sun is {planet}.", f"which planet is the {ORDER[i]} from the sun")
    for table, words in ((SIZES, ("bigger", "larger", "smaller")), (SPEEDS, ("faster", "quicker", "slower"))):
        for i, low in enumerate(table):
            for high in table[i + 1:]:
                asks = []
                for word in words:
                    one = low if word in ("smaller", "slower") else high
                    for a, b in ((low, high), (high, low)):
                        asks += [(form.format(w=word, a=a, b=b), f"{sentence(one)} is {word}.") for form in ("which is {w}, {a} or {b}?", "what is {w}, {a} or {b}?", "who is {w}, {a} or {b}?", "{w}: {a} or {b}?", "tell me which is {w}, {a} or {b}")]
                facts["sizes", low, high] = asks
    for thing, who in MAKERS_OF.items():
        verb = {"gravity": "discovered", "America": "discovered", "penicillin": "discovered", "Linux": "created", "Python": "created", "the theory of relativity": "developed"}.get(thing, "invented")
        facts["made", thing] = _open(f"{sentence(who)} {verb} {thing}.", f"who {verb} {thing}", f"by whom was {thing} {verb}", f"who was the person who {verb} {thing}", f"which person {verb} {thing}")
    for work, who in WRITERS.items():
        facts["wrote", work] = _open(f"{who} wrote {work}.", f"who wrote {work}", f"who is the author of {work}", f"which author wrote {work}", f"by whom is {work}", f"who is the writer of {work}")
    for work, who in PAINTERS.items():
        facts["painted", work] = _open(f"{who} painted {work}.", f"who painted {work}", f"which artist painted {work}", f"who is the painter of {work}", f"by whom is {work}")
    for thing, symbol in SYMBOLS.items():
        facts["symbol", thing] = _noun(f"the chemical symbol for {thing}", symbol) + _noun(f"the chemical formula of {thing}" if thing in ("water", "salt") else f"the symbol of {thing}", symbol)
        if symbol != "NaCl":
            facts["symbol of what", symbol] = [(form.format(s=symbol), f"{symbol} is {thing}.") for form in ("what is {s}?", "what's {s}?", "what does {s} stand for?", "{s} is the symbol of what?", "what element is {s}?" if thing != "water" else "which liquid is {s}?", "which thing has the symbol {s}?", "what has the symbol {s}?", "{s} is what?", "what is meant by {s}?", "explain {s}", "tell me what {s} is", "do you know what {s} is?")]
    for animal in sorted(set(SOUNDS) & {one for one, _ in _each(LEGS)}):
        count = next(count for one, count in _each(LEGS) if one == animal)
        facts["about", animal] = [(form.format(a=animal, p=PLURALS.get(animal, animal + "s")), f"{sentence(article(animal))} has {count} legs and says {SOUNDS[animal]}.") for form in ("tell me a fact about {p}", "tell me something about {p}", "a fact about {p}", "give me a fact about {p}", "say something about {p}", "what do you know about {p}?", "tell me about {p}", "do you know something about {p}?", "what can you tell me about {p}?", "fun fact about {p}", "i want to know something about {p}", "an interesting fact about {p}", "talk about {p}")]
    for k, value in PHRASES.items():
        facts["phrase", k] = _noun(k, value) + [(f"which is {k}?", f"{sentence(k)} is {value}.")]
    for q, value in HOW_MANY.items():
        verb = "is" if value.startswith("one ") else "are"
        subject, rest = q.split(" are ", 1)
        facts["how many", q] = _open(f"There {verb} {value}.", f"how many {q}", f"how many {subject} {'does' if rest.startswith('the ') else 'are'} {rest + ' have' if rest.startswith('the ') else rest}".replace("in the ", "the ") if rest.startswith("the ") else f"how many {subject} {rest}")
    for part, table in HAS.items():
        for owner, count in table.items():
            facts["has", part, owner] = _open(f"{sentence(article(owner)) if owner != 'unicorn' and owner != 'unicycle' else 'A ' + owner} has {count} {part if count != 'one' else part[:-1]}.", f"how many {part} does {article(owner) if owner not in ('unicorn', 'unicycle') else 'a ' + owner} have", f"how many {part} are on {article(owner) if owner not in ('unicorn', 'unicycle') else 'a ' + owner}")
    for verb, (yes, no) in CAN.items():
        for who, reply in [(w, True) for w in yes.split(",")] + [(w, False) for w in no.split(",")]:
            facts["can", verb, who] = _open(f"{'Yes' if reply else 'No'}, {who} {'can' if reply else 'cannot'} {verb}.", f"can {who} {verb}")[:3] + [(f"is {who} able to {verb}?", f"{'Yes' if reply else 'No'}, {who} {'can' if reply else 'cannot'} {verb}."), (f"{who} can {verb}, right?", f"{'Yes' if reply else 'No'}, {who} {'can' if reply else 'cannot'} {verb}.")]
    for kind, (yes, no) in IS_A.items():
        for who, reply in [(w, True) for w in yes.split(",")] + [(w, False) for w in no.split(",")]:
            said = f"{'Yes' if reply else 'No'}, {who} is {'' if reply else 'not '}{article(kind)}."
            facts["is a", kind, who] = [(form.format(w=who, k=article(kind)), said) for form in ("is {w} {k}?", "is {w} {k}?", "is {w} {k} or not?", "{w} is {k}, right?", "do you know if {w} is {k}?", "can you tell me if {w} is {k}?", "tell me if {w} is {k}", "yes or no: is {w} {k}?", "is it true that {w} is {k}?", "would you say {w} is {k}?", "i wonder if {w} is {k}", "say if {w} is {k}", "question: is {w} {k}?")]
            facts["true", kind, who] = [(form.format(w=who, k=article(kind)), f"{'True' if reply else 'False'}: {who} is {'' if reply else 'not '}{article(kind)}.") for form in ("true or false: {w} is {k}", "true or false, {w} is {k}?", "{w} is {k}, true or false?", "{w} is {k}. true or false?", "true or false? {w} is {k}", "is this true or false: {w} is {k}")]
    for question, reply in YES_NO.items():
        facts["yes no", question] = [(f"{q}{end}", reply) for q in _alternatives(question) for end in ("?", "", " or not?", ", right?")] + [(f"{front}{q}?", reply) for q in _alternatives(question) for front in ("yes or no: ", "tell me: ", "do you know: ", "question: ", "quick question: ", "just asking: ", "hey, ", "tell me, ")]
    for thing, meaning in MEANINGS.items():
        said = f"{thing.upper() if thing in ('ai', 'json', 'html') else sentence(thing)} is {meaning}."
        said = said.replace("An api", "An API")
        facts["meaning", thing] = [(form.format(t=thing), said) for form in ("what is {t}?", "what is {t}?", "what's {t}?", "whats {t}", "explain {t}", "explain what {t} is", "define {t}", "describe {t}", "tell me what {t} is", "tell me about {t}", "what do you know about {t}?", "can you explain {t}?", "what does {t} mean?", "do you know what {t} is?", "what exactly is {t}?", "explain {t} to me", "in one sentence, what is {t}?", "give me a definition of {t}", "who or what is {t}?", "definition of {t}")]
    return facts


def _alternatives(template):
    from .phrases import wordings
    return sorted(wordings(template))


FACTS = build()
_KEYS = list(FACTS)
# tables of many small facts give way to those that people ask for, and capitals far away to those that everybody knows
_OFTEN = {"capital of what": 1, "phrase": 6, "how many": 8, "legs": 4, "meaning": 2, "sizes": 0.4, "yes no": 3, "opposite": 1.5, "wrote": 2, "singular": 0.3, "color color": 2, "true": 0.3, "is a": 0.7, "sound": 2, "made": 1.5, "after": 1.5}
_NEAR = frozenset(list(CAPITALS)[:30] + ["Russia", "China", "India", "Australia", "Canada", "the United States", "Mexico", "Brazil", "Argentina", "Turkey", "the United Kingdom", "Scotland"])
_WEIGHTS = [(6 if key[1] in _NEAR else 1) if key[0] == "capital" else _OFTEN.get(key[0], 1) for key in _KEYS]


def fact(r):
    """A question and its answer."""
    question, answer = r.choice(FACTS[r.choices(_KEYS, _WEIGHTS)[0]])
    return sentence(pick(r, question)), answer
