"""python3 -m unittest: the generated conversations are correct, have enough wordings, and contain nothing that does
not belong in them."""
import random
import re
import unittest

from plans import MODELS
from records import conversation, facts, intents, labels, phrases, requests, ruled, unknown, wordplay
from records.words import listed

MARKERS = re.compile(r"<\||\|>|</?think|tool_|\[[^\]]*\||\{[a-z]+\}|\]\(")


def sums(text):
    """Every equation in a text as (left, right), both computed."""
    for a, sign, b, z in re.findall(r"(\d+) ([-+x/]) (\d+) = (-?\d+)", text):
        yield {"+": int(a) + int(b), "-": int(a) - int(b), "x": int(a) * int(b), "/": int(a) / max(1, int(b))}[sign], int(z)


def talks(count, name, seed=1):
    r = random.Random(seed)
    return [conversation.chat(r, name) for _ in range(count)]


class Wordings(unittest.TestCase):
    def test_there_are_eighty_intents_and_each_has_forty_wordings(self):
        self.assertGreaterEqual(len(intents.INTENTS), 80)
        for name, (asks, answers) in intents.INTENTS.items():
            found = set().union(*(phrases.wordings(template) for template in asks))
            self.assertGreaterEqual(len(found), 40, name)
            self.assertTrue(answers, name)
            for text in [*found, *answers]:
                self.assertNotRegex(text.replace("[]", ""), r"[\[\]|]", name)

    def test_five_hundred_facts_have_twelve_forms(self):
        self.assertGreaterEqual(sum(len({question for question, _ in forms}) >= 12 for forms in facts.FACTS.values()), 500)

    def test_one_wording_of_a_template_is_among_all(self):
        r, template = random.Random(1), "[a|b [c|d]|] e[f|]"
        self.assertEqual(phrases.wordings(template), {"a e", "b c e", "b d e", " e", "a ef", "b c ef", "b d ef", " ef"})
        self.assertEqual({phrases.pick(r, template) for _ in range(500)}, phrases.wordings(template))

    def test_noise_comes_as_often_as_it_should(self):
        r, text = random.Random(2), "What is the Name of it?"
        found = [phrases.noisy(r, text) for _ in range(4000)]
        share = lambda accepts: sum(map(accepts, found)) / len(found)
        self.assertAlmostEqual(share(lambda t: t == t.lower()), 0.4, delta=0.03)
        self.assertAlmostEqual(share(lambda t: not t.endswith(("?", "!", "."))), 0.3, delta=0.03)
        self.assertAlmostEqual(share(lambda t: re.search(r"\w.*\bw\w*t ", t, re.I) is not None), 0.2, delta=0.03)
        self.assertAlmostEqual(share(lambda t: not re.search(r"what is the name of it", t, re.I)), 0.18, delta=0.03)
        self.assertIn("what is teh name of it", [t.lower().rstrip("?") for t in found])
        self.assertGreaterEqual(len(phrases.SYSTEM_PROMPTS), 50)

    def test_a_hasty_slip_is_one_and_comes_in_many_kinds(self):
        r = random.Random(2)
        found = {phrases.hasty(r, "good day bot") for _ in range(4000)}
        self.assertLessEqual({"good dayy bot", "goodday bot", "goo day bot", "gpod day bot", "good daybot", "god day bot", "good day botttt"}, found)
        self.assertNotIn("", found)
        for text in found:
            self.assertLessEqual(abs(len(text) - 12), 4, text)
        self.assertEqual(phrases.hasty(r, "?"), "?")


class Conversations(unittest.TestCase):
    def test_turns_alternate_and_none_is_empty_or_holds_a_marker(self):
        for name in MODELS:
            for record in talks(4000, name):
                messages = record["messages"]
                self.assertEqual([m["role"] for m in messages], ["user", "assistant"] * (len(messages) // 2))
                self.assertLessEqual(len(messages), 8)
                for message in messages:
                    self.assertEqual(message.keys(), {"role", "content"})
                    self.assertTrue(message["content"].strip())
                    self.assertNotRegex(message["content"], MARKERS)

    def test_every_intent_comes_as_a_first_turn(self):
        names = set()
        for name in intents.INTENTS:
            ask, said = conversation.intent(random.Random(3), "tycho-1.0", name)
            self.assertIn(said, [text.replace("{me}", "tycho-1.0") for text in intents.INTENTS[name][1]])
        known = {text.replace("{me}", "hal-1.0"): name for name, (_, answers) in intents.INTENTS.items() for text in intents.SEEN.get(name, answers)}
        for record in talks(30_000, "hal-1.0"):
            names.add(known.get(record["messages"][1]["content"]))
        self.assertGreaterEqual(len(names), len(set(known.values())) - 1)

    def test_the_model_names_itself_and_no_other(self):
        for name in MODELS:
            others = [other for other in MODELS if other != name]
            said = [m["content"] for record in talks(4000, name) for m in record["messages"] if m["role"] == "assistant"]
            for text in said:
                if not text.startswith("You said:"):
                    self.assertFalse([other for other in others if other in text], text)
            for intent in ("who are you", "your name", "which model", "are you chatgpt"):
                self.assertIn(name, conversation.intent(random.Random(4), name, intent)[1])

    def test_only_the_models_that_see_say_that_they_do(self):
        for name in MODELS:
            said = {conversation.intent(random.Random(seed), name, "look at picture")[1] for seed in range(50)}
            for text in said:
                self.assertEqual("see only simple pictures" in text or "I see no picture here" in text, name in intents.SEERS, text)
        for record in talks(8000, "hal-1.0"):
            for message in record["messages"]:
                if message["role"] == "assistant" and not message["content"].startswith("You said:"):
                    self.assertNotRegex(message["content"], r"cannot see (pictures|images)|only read text|, see pictures")

    def test_what_was_told_is_remembered(self):
        r = random.Random(5)
        for _ in range(300):
            known = conversation.told(r)
            said, _, reply, _ = known["name"]
            self.assertIn(said.rsplit("] ", 1)[1], reply)
            self.assertIn(known["city"][0].rsplit(" ", 1)[1], known["city"][2])

    def test_what_nobody_told_and_nobody_knows_is_declined(self):
        r = random.Random(6)
        for _ in range(300):
            self.assertEqual(conversation.not_told(r, "hal-1.0")[-1][1], "You did not tell me.")
            record = unknown.unknown(r, ["Who was the third king of Atlantis?"])
            self.assertIn(record["messages"][1]["content"], unknown.ANSWERS)
            self.assertRegex(record["messages"][1]["content"], "do not know")
            self.assertNotRegex(record["messages"][0]["content"], r"[\[\]|{}]")


class Answers(unittest.TestCase):
    def asked(self, make, count=3000):
        r = random.Random(7)
        return [make(r) for _ in range(count)]

    def test_sums_are_right_and_are_those_that_were_asked(self):
        for make in (requests.sum_of_two, requests.things_sum):
            for ask, said in self.asked(make):
                found = list(sums(said))
                self.assertTrue(found, said)
                for left, right in found:
                    self.assertEqual(left, right, said)
                given = re.findall(r"\d+", ask)
                if len(given) == 2:
                    self.assertEqual(sorted(given), sorted(re.findall(r"\d+", said.split(", so ")[-1])[:2]), (ask, said))

        for make in (requests.division, requests.double_half, requests.three_terms):
            for ask, said in self.asked(make):
                self.assertTrue(all(left == right for left, right in sums(said)), said)
        for ask, said in self.asked(requests.three_terms):
            self.assertEqual(sum(map(int, re.findall(r"\d+", ask))), int(said.rsplit(" ", 1)[1]))
        for ask, said in self.asked(requests.units, 300):
            n, many = map(int, re.findall(r"\d+", said))
            self.assertIn(many // n, requests.UNITS.values())
            self.assertIn(str(n), ask)

    def test_sorting_counting_letters_and_first_letters_are_computed(self):
        for ask, said in self.asked(requests.sort):
            given, found = re.findall(r"\d+", ask), re.findall(r"\d+", said)
            if len(found) == 1:
                self.assertEqual(int(found[0]), (max if "biggest" in said else min)(map(int, given)))
            elif found:
                self.assertEqual(list(map(int, found)), sorted(map(int, given), reverse=bool(re.search("big to small|backwards|descending", ask))))
            else:
                self.assertEqual(said.split(", "), sorted(ask.split(": ")[1].split(", ")))
        for ask, said in self.asked(requests.letter_count):
            letter, times, word = re.match(r"\w+: [A-Z-]+, the letter (\w) is (\d+) times? in (\w+)\.", said).groups()
            self.assertEqual(word.count(letter), int(times))
            self.assertTrue(said.startswith(requests.shown_letters(word) + ","))
            self.assertIn(word, ask)
        for ask, said in self.asked(requests.begins_with):
            self.assertRegex(ask.lower(), rf"\b{said[0].lower()}\b")

    def test_sums_of_every_form_are_right(self):
        for make in (requests.mixed, requests.rounds, requests.tens_times, requests.squared, requests.division, requests.double_half, requests.three_terms):
            for ask, said in self.asked(make):
                for left, right in re.findall(r"([\d +x/-]+?) = (-?\d+)", said):
                    self.assertEqual(eval(left.replace("x", "*")), int(right), (ask, said))
                given = [int(n) for n in re.findall(r"\d+", ask)]
                if given and make in (requests.mixed, requests.rounds):
                    words = {"plus": "+", "minus": "-", "x": "*"}
                    line = re.search(r"\d[\d +*x-]*(?:(?:plus|minus)[\d +*x-]+)*", ask)[0]
                    self.assertEqual(eval(re.sub("plus|minus|x", lambda m: words[m[0]], line)), int(re.findall(r"\d+", said)[-1]), (ask, said))
        for ask, said in self.asked(requests.percent):
            share, whole, found = map(int, re.findall(r"\d+", said))
            self.assertEqual(share * whole, 100 * found)

    def test_small_sums_are_answered_at_once(self):
        self.assertEqual(requests.worked(9, "+", 8), "9 + 8 = 17")
        self.assertEqual(requests.worked(47, "+", 38), "47 + 30 = 77 and 77 + 8 = 85, so 47 + 38 = 85")
        self.assertEqual(requests.worked(85, "-", 38), "85 - 30 = 55 and 55 - 8 = 47, so 85 - 38 = 47")

    def test_lists_have_so_many_different_things(self):
        for ask, said in self.asked(requests.list_of):
            if head := re.match(r"(\d+) [^\n]+:\n", said):
                self.assertEqual(int(head[1]), said.count("\n"))
                said = said[head.end():]
            found = re.split(r"\n|, | and ", re.sub(r"(?m)^(- |\d+\. )", "", said).rstrip("."))
            words = re.sub("one per line", "", ask.lower())
            wanted = [int(n) for n in re.findall(r"\d+", words)] + [requests.NUMBERS.index(w) for w in re.findall(r"[a-z]+", words) if w in requests.NUMBERS]
            if not wanted:
                self.assertRegex(ask.lower(), "some|a few")
            self.assertEqual(len(found), (wanted or [3])[0], (ask, said))
            self.assertEqual(len({item.lower() for item in found}), len(found), said)
            pool = next(pool for pool in requests.POOLS.values() if {item.lower() for item in found} <= {item.lower() for item in pool})
            self.assertTrue(pool)

    def test_spelling_letters_and_counting_are_computed(self):
        for ask, said in self.asked(requests.spell, 500):
            word, shown = said.split(": ")
            self.assertEqual(requests.spelled(word), shown)
            self.assertIn(word, ask)
        for ask, said in self.asked(requests.letters):
            if found := re.match(r"(\w+): ([A-Z-]+), (\d+) letters", said):
                self.assertEqual((requests.spelled(found[1]), len(found[1])), (found[2], int(found[3])))
            elif found := re.match(r"(\w+): ([A-Z-]+), the (first|last) letter is (\w)\.", said):
                self.assertEqual((requests.spelled(found[1]), found[1][0 if found[3] == "first" else -1].upper()), (found[2], found[4]))
                self.assertIn(found[1], ask)
            elif found := re.match(r"After (\w) comes (\w)\.", said):
                self.assertEqual(ord(found[2]), ord(found[1]) + 1)
            else:
                forwards, backwards, word = re.fullmatch(r"\w+: ([A-Z-]+), backwards ([A-Z-]+): (\w+)", said).groups()
                self.assertIn(word[::-1], ask)
                self.assertEqual((requests.spelled(word), backwards[::-1]), (backwards, forwards))
        for ask, said in self.asked(requests.count_up):
            if re.fullmatch(r"[\d ]+", said):
                found = [int(n) for n in said.split()]
                self.assertEqual({b - a for a, b in zip(found, found[1:])}, {1 if found[0] == 1 else -1})
            elif found := re.match(r"After (\d+) comes (\d+)", said):
                self.assertEqual(int(found[2]), int(found[1]) + 1)
            elif found := re.match(r"(\d+) is (even|odd)", said):
                self.assertEqual(int(found[1]) % 2, found[2] == "odd")
            else:
                given, one = [int(n) for n in re.findall(r"\d+", ask)], int(re.match(r"\d+", said)[0])
                self.assertEqual(one, min(given) if re.search("smaller|less", ask, re.I) else max(given))

    def test_tasks_with_words_are_computed(self):
        plain = lambda text: re.sub(r"['\"]", "", text)
        for ask, said in self.asked(wordplay.case, 500):
            given, into = said.split(": ") if ": " in said else (None, said)
            self.assertTrue(into in (into.upper(), into.lower()), said)
            self.assertIn(into.lower(), plain(ask).lower())
            if given:
                self.assertEqual((given.lower(), given in plain(ask)), (into.lower(), True))
        for ask, said in self.asked(wordplay.backwards, 500):
            forwards, turned, word = re.fullmatch(r"\w+: ([A-Z-]+), backwards ([A-Z-]+): (\w+)", said).groups()
            self.assertEqual((forwards, turned), (requests.spelled(word[::-1]), requests.spelled(word)))
            self.assertIn(word[::-1], ask)
        for ask, said in self.asked(wordplay.nth_letter, 500):
            word, n, letter = re.fullmatch(r"(\w+): [A-Z-]+, the (\w+) letter is (\w)\.", said).group(1, 2, 3)
            self.assertEqual(word[facts.ORDER.index(n)].upper(), letter)
        for ask, said in self.asked(wordplay.vowels, 300):
            self.assertEqual(len(re.findall("[AEIOU]", said.split(": ")[1].split(",")[0])), int(re.search(r"\d+", said)[0]))
        for ask, said in self.asked(wordplay.contains, 300):
            yes, letter, no, word = re.fullmatch(r"\w+: [A-Z-]+, (yes|no), the letter (\w) is (not )?in (\w+)\.", said).groups()
            self.assertEqual((letter.lower() in word, letter.lower() in word), (yes == "yes", no is None))
        for ask, said in self.asked(wordplay.unspelled, 300):
            self.assertIn(said, re.sub("[-, ]", "", ask).lower())
        for ask, said in self.asked(wordplay.words_counted, 300):
            words, count = re.fullmatch(r"(.*): (\d+) words\.", said).groups()
            self.assertEqual(len(words.split(", ")), int(count))
        for make in (wordplay.replaced, wordplay.negative, wordplay.past, wordplay.at_the_end, wordplay.longer, wordplay.sooner, wordplay.palindrome, wordplay.said, wordplay.first_letter, wordplay.graded, wordplay.grammar, wordplay.about_a, wordplay.initial, wordplay.contracted, wordplay.joined, wordplay.paired, wordplay.word_kind, wordplay.title, wordplay.wordplay):
            for ask, said in self.asked(make, 300):
                self.assertTrue(said.strip())
                self.assertNotIn("{", ask + said)

    def test_what_belongs_to_a_kind_is_of_that_kind(self):
        for make in (wordplay.which_is, wordplay.what_kind, wordplay.odd_one):
            for ask, said in self.asked(make, 500):
                word, kind = re.fullmatch(r"(\w+) (?:is|does not belong\. It is) an? (.+)\.", said).groups()
                self.assertIn(word, wordplay.KINDS[kind])
                self.assertIn(word, ask)
                if make is wordplay.odd_one:
                    others = [other for other in wordplay.KINDS if other != kind and sum(one in re.findall(r"\w+", ask) for one in wordplay.KINDS[other]) > 1]
                    self.assertEqual(len(others), 1, ask)
        for ask, said in self.asked(wordplay.several_times, 500):
            word, *more = said.split(" ")
            self.assertIn(word, ask)
            self.assertEqual({word}, {word, *more})
            self.assertRegex(ask, rf"\b({len(more) + 1}|{facts.NUMBERS[len(more) + 1]}) times" if "twice" not in ask else "twice")
        for ask, said in self.asked(wordplay.of_length, 200):
            word, letters, count = re.fullmatch(r"(\w+): ([A-Z-]+), (\w+) letters\.", said).groups()
            self.assertEqual((requests.spelled(word), facts.NUMBERS[len(word)]), (letters, count))
        for ask, said in self.asked(wordplay.initial, 200):
            self.assertRegex(ask.lower(), rf"\b{said[0].lower()}\b")

    def test_rewriting_keeps_the_words(self):
        for ask, said in self.asked(requests.rewrite):
            if said.isupper() or re.fullmatch(r"([^:]+): ([^a-z]+)", said):
                self.assertIn(said.split(": ")[-1], ask.upper())
            elif said.startswith("Could you please"):
                self.assertTrue(set(re.findall(r"\w+", said.lower())[3:]) <= set(re.findall(r"\w+", ask.lower())), (ask, said))

    def test_wholes_are_listed_whole(self):
        for what, items in requests.WHOLE.items():
            self.assertEqual(len(set(items)), len(items), what)
        self.assertEqual(listed(requests.WHOLE["the seasons"]), "spring, summer, autumn and winter")


class Ruled(unittest.TestCase):
    def test_who_it_is_and_how_it_answers_is_what_the_system_prompt_says(self):
        r = random.Random(2)
        for _ in range(5000):
            said, asked, replied = (m["content"] for m in ruled.ruled(r)["messages"])
            if said == "Answer in capital letters.":
                self.assertEqual(replied, replied.upper(), asked)
            elif found := re.search(r'with "(.+)"', said):
                self.assertTrue(replied.startswith(found[1] + " "), replied)
            elif found := re.match(r"(?:You are called|You are|Your name is) (\w+)(, the assistant of \w+)?", said):
                self.assertEqual(replied, f"I am {found[1]}{found[2] or ''}.", said)
            else:
                self.assertFalse(replied.endswith("."), said)

    def test_what_the_model_is_called_has_one_answer(self):
        for seed in range(50):
            self.assertEqual(conversation.intent(random.Random(seed), "hal-1.0", "your name")[1], "I am hal-1.0.")


class Contexts(unittest.TestCase):
    # A longer thought, which went through all statements of the requested kind, was repeated endlessly in one of every
    # twenty responses.
    def test_a_thought_is_one_sentence_the_answer_or_who_is_not_there(self):
        r, declined = random.Random(3), 0
        for _ in range(4000):
            last = labels.context(r)["messages"][-1]
            if last["content"] == labels.UNKNOWN:
                declined += 1
                self.assertRegex(last["thinking"], r"^\w+ is not in the context\.$")
            else:
                self.assertEqual(last["thinking"], last["content"])
        self.assertGreater(declined, 500)


if __name__ == "__main__":
    unittest.main()
