"""The held-out test of first conversations: sends 200 typical first prompts to a running server.

  score.py --url http://127.0.0.1:8080 --key KEY --model tycho-1.0 [--out FILE.json] [--show]

Every prompt is sent without and with the system prompt "You are a helpful assistant." (--system), with greedy
sampling unless --temperature is set, and with the model's default for thinking, as a first client would send it. The
prompt's `accept` in held_out.jsonl and the rules below, which apply to all prompts, decide whether a response is
sensible.

Authors of training records must not read held_out.jsonl or test_conversation.py: they run this program without
--show."""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import time
import urllib.error
import urllib.request

HELD_OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "held_out.jsonl")
SYSTEM = "You are a helpful assistant."
MAX_CHARS = 600

# Names that `accept` may use in braces.
NAMED = {
    # the response states, in any wording, that something is not known or not possible
    "honest": r"(\b(i|we|me|my|models?|toy|assistant|program|that|this|it|which|is|am|are)\b.{0,60}?(\b(can ?not|can't|could(n't| not)|unable|not able|do(n't| not)|does(n't| not)|did(n't| not)|have(n't| not)|has(n't| not)|have no\b|has no\b|know no|know nothing|see no|know only|only (know|see|read|work|have|do|write|talk|understand|text|a text)|too (small|little|tiny|simple|hard|big|long|much|difficult)|beyond|more than (i|a|my|any|this)\b|have none|not (sure|something|enough|trained|made|built|good|connected|what i|for me|possible|certain|familiar|one i|in what i)|never|unsure|unknown to|outside|out of)\b|n't (know|see|have))"
              r"|\b(no (clock|internet|access|eyes|way|idea|memory|connection|calendar|news|camera|hands|answer|information|data)|without (the |an |any )?internet|over my head|beg your pardon|(afraid|sorry,? (but )?)(i|that|this|no)|unfortunately)\b|^(sorry|no\b|not (yet|really|possible)))",
    "ai": r"\b(ai|artificial|language model|model|program|software|computer|machine|robot|bot|assistant|toy|{model})\b",
    "hello": r"\b(hi|hiya|hello|hey|heya|yo|howdy|greetings|(?<!are )(?<!'re )welcome|good (morning|day|evening|afternoon)|(nice|good|glad|great|pleased|lovely|happy) to (meet|see|hear|chat|talk)|pleasure|(what|how) (can|could|may|shall|would|should|do) (i|we|you) |how are you|what's up|sup|i('m| am) (here|ready|{model})|at your service|ask me|tell me)\b",
    "gladly": r"\b(you('re| are) (very |most |so )?welcome|welcome|glad|happy|any ?time|no (problem|worries|trouble)|(my )?pleasure|sure|of course|don't mention|not at all|thank(s| you)|cheers|enjoy|good to (hear|know)|kind|nice of you|here (if|when|to))\b",
    "bye": r"\b(bye|goodbye|see (you|ya)|take care|later|good ?night|farewell|have (a|fun)|so long|until|cheers|ciao|sleep well|sweet dreams|come back|all the best|till|soon|nice (talking|chatting|to)|thank(s| you) for|rest well)\b",
    "acknowledged": r"(\b(ok|okay|great|good|glad|nice|sure|alright|all right|happy|fine|cool|anything (else|more)|(what|how) (can|else|would|next|shall|about|do|may|are)|let me know|tell me|ask( me)?|help|ready|i('m| am) here|else|ha(ha)+|thanks|thank you|fun|welcome|smile|funny|laugh|got it|understood|perfect|enjoy(ed)?|like|pleasure|no (problem|worries))\b|:\)|[\U0001F600-\U0001F64F👍])",
    "fine": r"\b(good|well|fine|great|ok|okay|all right|alright|feel(s|ings?)?|ready|happy|glad|not bad|thank(s| you)|running|run|working|wonderful|splendid|cheerful|(i am|i'm|all good) here)\b",
    "able": r"\b(answer|chat|talk|sums?|add(ing)?|plus|minus|numbers?|math|arithmetic|calculat\w+|extract\w*|classif\w+|sort\w*|labels?|label\w+|tools?|functions?|json|lists?|questions?|facts?|capitals?|summar\w+|greet\w*|rewrit\w+|opposites?|jokes?|names?|words?|texts?|code|messages?|rout\w+|sentences?|spell\w*|data|colou?rs?|animals?)\b",
    "overclaim": r"(\bi (can|could|know|will)( do| answer| help( you)? with| solve| write)? (anything|everything|all things|any question|all questions)|\b(as smart|smarter) (as|than)|\bi can (book|browse|search the|order|pay|call|drive|see (images|pictures|photos)))",
    "yes": r"\b(yes|yep|yeah|sure|of course|certainly|indeed|i (do|am|can|will|would))\b",
    "fruit": r"\b(apples?|bananas?|orange|oranges|pears?|cherry|cherries|grapes?|mango(e?s)?|kiwis?|plums?|peach|peaches|lemons?|limes?|strawberry|strawberries|raspberry|raspberries|blueberry|blueberries|blackberry|blackberries|cranberry|cranberries|melons?|watermelons?|pineapples?|apricots?|figs?|dates|papayas?|coconuts?|pomegranates?|grapefruits?|guavas?|lychees?|nectarines?|tangerines?|mandarins?|currants?|avocados?|quinces?)\b",
    "animal": r"\b(dogs?|cats?|horses?|cows?|pigs?|sheep|goats?|lions?|tigers?|bears?|elephants?|monkeys?|giraffes?|zebras?|rabbits?|hares?|mouse|mice|rats?|fox|foxes|wolf|wolves|deer|birds?|ducks?|hens?|chickens?|geese|goose|swans?|owls?|eagles?|crows?|parrots?|penguins?|fish|sharks?|whales?|dolphins?|seals?|frogs?|toads?|snakes?|lizards?|turtles?|tortoises?|crocodiles?|camels?|donkeys?|kangaroos?|koalas?|pandas?|bees?|ants?|spiders?|butterfly|butterflies|squirrels?|hedgehogs?|hamsters?|otters?|beavers?|badgers?|bats?|moles?|leopards?|cheetahs?|hippos?|rhinos?|gorillas?|octopus|crabs?|salmon|robins?|sparrows?|pigeons?|buffalo|bulls?|lambs?|pony|ponies|moose|apes?|llamas?)\b",
    "colour": r"\b(red|blue|green|yellow|orange|purple|pink|brown|black|white|gr[ae]y|violet|turquoise|gold|silver|cyan|magenta|beige|indigo|teal|maroon|navy|lilac)\b",
    "vegetable": r"\b(carrots?|potato(es)?|tomato(es)?|onions?|garlic|peas?|beans?|cabbage|broccoli|cauliflower|spinach|lettuce|cucumbers?|peppers?|corn|leeks?|celery|radish(es)?|beets?|beetroots?|turnips?|pumpkins?|squash|zucchinis?|courgettes?|eggplants?|aubergines?|kale|asparagus|mushrooms?|artichokes?|parsnips?|fennel|sprouts)\b",
    "country": r"\b(france|germany|italy|spain|portugal|england|britain|united kingdom|uk|ireland|scotland|wales|netherlands|belgium|austria|switzerland|poland|sweden|norway|denmark|finland|iceland|greece|hungary|czech republic|czechia|slovakia|slovenia|croatia|serbia|romania|bulgaria|ukraine|estonia|latvia|lithuania|luxembourg|malta|cyprus|albania|turkey|russia|moldova|belarus|bosnia|montenegro|monaco)\b",
}

# A response that matches one of these patterns is wrong: template and tool markers, and template slots that were not
# filled.
MARKERS = re.compile(r"</?think\b|<\|[\w ]*|\|>|</?tool_(call|response)|</?(tools?|function|s|unk|pad|bos|eos)>|\[/?INST\]|�|(^|\n)\s*(user|assistant|system|human)\s*:|\{\{|\}\}|\{[a-z_]+\}|\[(your )?(name|model|topic)\]|\"\w+\":\s*[\"{\[]", re.I)
NEVER = re.compile(
    r"\bi('m| am) (really |actually |just |also )?(a |an )?(real |normal |living )?(human|person|man|woman|boy|girl|guy)\b(?!-)"
    r"|\b(i('m| am)|my name is|call me|i am called) (chat ?gpt|gpt|claude|gemini|siri|alexa|bard|copilot|llama|mistral|qwen|deepseek|grok)\b"
    r"|(?<!not )(?<!n't )(?<!never )\b(made|created|built|developed|trained|designed) by (openai|open ai|anthropic|google|meta|facebook|microsoft|apple|amazon|alibaba)\b"
    r"|\bi (was born|went to school|have a (wife|husband|brother|sister|mother|father|dog|cat|body|job in))\b", re.I)

WORDS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
VALUE = {word: i for i, word in enumerate(WORDS)} | {word: 20 + 10 * i for i, word in enumerate(TENS)} | {"hundred": 100, "a hundred": 100, "one hundred": 100}
SPELLED = re.compile(rf"\b(?:({'|'.join(TENS)})[- ]({'|'.join(WORDS[1:10])})|((?:a |one )?hundred|{'|'.join(WORDS + TENS)}))\b", re.I)
NUMBER = r"(?<![\w.])-?\d+(?:\.\d+)?(?![\d]|[a-z]{2})"
SIGN = r"\s*(?:\+|-|\*|x|×|plus|minus|times|and)\s*"
TERM = rf"-?\d+(?:\.\d+)?(?:{SIGN}\d+(?:\.\d+)?)*"
EQUATION = re.compile(rf"(?<![\w.]){TERM}(?:\s*(?:=|equals|is|makes)\s*{TERM})+", re.I)


def plain(text):
    """Normalizes quotes, dashes and spaces, so that rules need only one form of each."""
    for odd, usual in (("’", "'"), ("‘", "'"), ("“", '"'), ("”", '"'), ("−", "-"), ("–", "-"), ("—", "-"), ("\u00a0", " "), ("*" * 2, "")):
        text = text.replace(odd, usual)
    return " ".join(text.split())


def pattern(text, model):
    """The regular expression with its {names} filled in. Other braces, such as those in {1,3}, are unchanged."""
    name = re.escape(model.split("-")[0])
    while True:
        filled = re.sub(r"\{([a-z]+)\}", lambda m: name if m[1] == "model" else f"(?:{NAMED[m[1]]})", text)
        if filled == text:
            return re.compile(text, re.I)
        text = filled


def sentences(text):
    return [part.strip() for part in re.split(r"(?<=[.!?])\s+|\n+", text) if part.strip()]


def loop(text):
    """Whether three or more words, or 12 or more characters, occur three times in a row, or one sentence occurs three
    times."""
    words = re.findall(r"\w+", text.lower())
    for size in range(3, len(words) // 3 + 1):
        for i in range(len(words) - 3 * size + 1):
            if words[i:i + size] == words[i + size:i + 2 * size] == words[i + 2 * size:i + 3 * size]:
                return True
    if re.search(r"(.{12,200}?)\1\1", text, re.S):
        return True
    said = collections.Counter(part.lower() for part in sentences(text) if len(part.split()) > 1)
    return any(count >= 3 for count in said.values())


def digits(text):
    """Writes number words as digits: "Forty-two" becomes 42."""
    return SPELLED.sub(lambda m: str(VALUE[m[1].lower()] + VALUE[m[2].lower()] if m[1] else VALUE[m[3].lower()]), text)


def numbers(text):
    return [float(n) for n in re.findall(NUMBER, re.sub(r"(?<=\d)\s*-\s*(?=\d)", " - ", text).replace("- ", " "))]


def value(term):
    parts = re.split(rf"({SIGN})", term.strip(), flags=re.I) if not term.strip().startswith("-") else [term.strip()]
    total = float(re.match(r"-?[\d.]*\d", parts[0])[0])
    for sign, other in zip(parts[1::2], parts[2::2]):
        sign, other = sign.strip().lower(), float(other)
        total = total - other if sign in ("-", "minus") else total * other if sign in ("*", "x", "×", "times") else total + other
    return total


def sum_is(result, answer, question):
    """Whether every equation is true and every number up to the sentence with the result is in the question."""
    text, given = digits(plain(answer)), set(numbers(digits(plain(question))))
    # "20 and 5 is 15" may be a difference: "and" means plus only if no other operator is possible
    for equation in EQUATION.findall(text):
        sides = [value(side) for side in re.split(r"=|equals|is|makes", equation, flags=re.I)]
        if len(set(sides)) > 1 and not (re.search(r"\band\b", equation) and sides[-1] == result):
            return False
    until, said = [], []
    for part in sentences(text):
        until.append(part)
        said = numbers(part)
        if result in said and not (part.endswith("?") and len(until) > 1):
            break
    else:
        return False
    outside = numbers(EQUATION.sub(" ", " ".join(until)))
    return all(number == result or number in given for number in outside)


def wrong(item, answer, finish, model):
    """The reason why the response is not sensible, or None if it is."""
    accept, text = item["accept"], plain(answer)
    question = item["messages"][-1]["content"]
    if not text:
        return "empty"
    if finish != "stop":
        return f"finish_reason {finish}"
    if MARKERS.search(answer):
        return "marker"
    if loop(answer):
        return "loop"
    if len(answer) > accept.get("max_chars", MAX_CHARS):
        return "too long"
    if NEVER.search(text):
        return "false claim"
    if text.lower() == plain(question).lower() and not accept.get("echo"):
        return "echo"
    if item["kind"] not in ("sums", "facts", "words"):
        begins = [re.sub(r"\W", "", part.lower())[:15] for part in (text, question)]
        if len(begins[1]) == 15 and begins[0] == begins[1]:
            return "echo"
    if "any" in accept and not any(pattern(one, model).search(text) for one in accept["any"]):
        return "none of any"
    for one in accept.get("none", ()):
        if pattern(one, model).search(text):
            return f"none: {one[:40]}"
    if "sum" in accept and not sum_is(accept["sum"], answer, question):
        return "sum"
    if "number" in accept:
        given = numbers(digits(plain(question)))
        if [n for n in numbers(digits(text)) if n not in given or n == accept["number"]][:1] != [accept["number"]]:
            return "number"
    if "distinct" in accept:
        found = {re.sub(r"ies$", "y", m[0].lower()).rstrip("s") for m in pattern(accept["distinct"]["of"], model).finditer(text)}
        if len(found) != accept["distinct"]["exactly"]:
            return f"{len(found)} items"
    return None


def load(path=HELD_OUT):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def ask(args, item, system):
    messages = ([{"role": "system", "content": SYSTEM}] if system else []) + item["messages"]
    body = {"model": args.model, "messages": messages, "max_completion_tokens": args.tokens, "temperature": args.temperature}
    if args.effort:
        body["reasoning_effort"] = args.effort
    request = urllib.request.Request(args.url.rstrip("/") + "/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json", "authorization": "Bearer " + args.key})
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            choice = json.load(response)["choices"][0]
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{args.url} returned {error.code} for {item['id']}: {error.read().decode(errors='replace')[:500]}")
    except urllib.error.URLError as error:
        raise SystemExit(f"{args.url}: {error.reason}")
    if choice["message"].get("tool_calls"):
        return {"answer": "<tool_call>", "finish": choice["finish_reason"]}
    return {"answer": choice["message"].get("content") or "", "finish": choice["finish_reason"]}


def rates(results):
    """{kind: [correct, total]}, and the percentages that are of interest on their own."""
    kinds = {}
    for result in results:
        of = kinds.setdefault(result["kind"], [0, 0])
        of[0] += result["wrong"] is None
        of[1] += 1
    share = {name: round(100 * sum(found(r) for r in results) / len(results), 1) for name, found in (
        ("right", lambda r: r["wrong"] is None), ("loops", lambda r: loop(r["answer"])),
        ("markers", lambda r: bool(MARKERS.search(r["answer"]))), ("cut off", lambda r: r["finish"] != "stop"))}
    share["the most frequent answer"] = round(100 * collections.Counter(plain(r["answer"]) for r in results).most_common(1)[0][1] / len(results), 1)
    return {"kinds": kinds, "percent": share}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--key", default="")
    parser.add_argument("--model", required=True)
    parser.add_argument("--temperature", type=float, default=0)
    parser.add_argument("--system", choices=("without", "with", "both"), default="both", help=f'send prompts without or with the system prompt "{SYSTEM}"')
    parser.add_argument("--effort", help="reasoning_effort to send; by default, the field is not sent")
    parser.add_argument("--tokens", type=int, default=400, help="max_completion_tokens")
    parser.add_argument("--parallel", type=int, default=8)
    parser.add_argument("--show", action="store_true", help="show every failure; not for authors of training records")
    parser.add_argument("--out", help="JSON file for the scores and the responses by id")
    args = parser.parse_args()
    items, begin, made = load(), time.time(), {}
    for system in {"without": (False,), "with": (True,), "both": (False, True)}[args.system]:
        name = "with system prompt" if system else "without system prompt"
        with concurrent.futures.ThreadPoolExecutor(args.parallel) as threads:
            replies = list(threads.map(lambda item: ask(args, item, system), items))
        results = [{"id": item["id"], "kind": item["kind"], **reply, "wrong": wrong(item, reply["answer"], reply["finish"], args.model)} for item, reply in zip(items, replies)]
        made[name] = rates(results) | {"results": results}
        print(f"{args.model}, {name}")
        for kind, (right, count) in made[name]["kinds"].items():
            print(f"  {kind:14} {right:3}/{count}")
        print("  " + ", ".join(f"{key} {share}%" for key, share in made[name]["percent"].items()), flush=True)
        if args.show:
            for item, result in zip(items, results):
                if result["wrong"]:
                    print(f"--- {item['id']}: {result['wrong']}\n" + "\n".join(f"{m['role']}: {m['content']}" for m in item["messages"]) + f"\n-> {result['answer']}")
    everything = [result for one in made.values() for result in one["results"]]
    print(f"total {sum(r['wrong'] is None for r in everything)}/{len(everything)}")
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump({"model": args.model, "temperature": args.temperature, "seconds": round(time.time() - begin), "scores": made}, file, indent=1, ensure_ascii=False)


if __name__ == "__main__":
    main()
