"""python3 -m unittest: the records in people's own words are right and can be answered from what they say."""
import json
import os
import random
import re
import tempfile
import unittest

from records import asked, conversation, follow, frames, fresh, plainly, recall, texts, wide
from test_records import sums


def small(r):
    return "nice day", "Yes, it is."


class Files(unittest.TestCase):
    def test_frames_and_intents_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "frames"))
            with open(os.path.join(folder, "frames", "a.txt"), "w") as file:
                file.write("# Comment.\n\n[frame memory.tell_name]      slots: {name}\n- hi im {name}\n- {name} here\n[intent talk.how]\n- how are you\n= I am well.\n= Fine.\n[intent talk.empty]\n- no answer\n")
            os.makedirs(os.path.join(folder, "intents", "first"))
            with open(os.path.join(folder, "intents", "first", "b.txt"), "w") as file:
                file.write("[intent talk.back]\n- what did i say\n= Nothing yet.\n")
            self.assertEqual(frames.read(folder), ({"memory.tell_name": ["hi im {name}", "{name} here"]}, {"talk.how": (["how are you"], ["I am well.", "Fine."])}, {"talk.back": (["what did i say"], ["Nothing yet."])}))

    def test_articles_fit_the_value(self):
        self.assertEqual(frames.fill("a {job} and A {animal}", {"job": "actor", "animal": "owl"}), "an actor and An owl")
        self.assertEqual(frames.fill("a {job}", {"job": "cook"}), "a cook")

    def test_typing_leaves_the_slots_alone(self):
        r = random.Random(1)
        found = {frames.typed(r, "Remember my Name: {name}.") for _ in range(500)}
        self.assertIn("remember my name: {name}.", found)
        self.assertIn("Remember my Name: {name}", found)
        self.assertGreater(len(found), 10)
        self.assertTrue(all("{name}" in text for text in found))

    def test_wide_values_hardly_repeat(self):
        r = random.Random(2)
        for maker in (wide.email, wide.phone, wide.code, wide.name):
            self.assertGreater(len({maker(r) for _ in range(1000)}), 600, maker)
        self.assertRegex(wide.email(r), r"^[\w.-]+@[\w.-]+\.[a-z.]+$")


@unittest.skipUnless(frames.FRAMES, f"{frames.FOLDER} has no wordings")
class Records(unittest.TestCase):
    def check_all(self, maker, accepts, count=2000):
        r = random.Random(7)
        for _ in range(count):
            for ask, said in (found := maker(r)) if isinstance(found := maker(r), list) else [found]:
                self.assertTrue(accepts(ask, said), (ask, said))

    def test_an_answer_from_memory_is_what_was_said_last(self):
        r, asked_for = random.Random(3), 0
        for _ in range(3000):
            turns = recall.remembering(r, small)
            last, before = turns[-1][1], " ".join(ask for ask, _ in turns[:-1]).lower()
            self.assertLessEqual(len(turns), 8)
            if (found := re.match(r"Your (?:name is|email is|phone number is|pet is called|friend is called) (.+)\.$|You live in (.+)\.$|(?:They are|It is) (.+)\.$|The (?:code|number) is (.+)\.$", last)) and turns[-1][0].lower() not in before:
                asked_for += 1
                self.assertIn(next(filter(None, found.groups())).lower(), before)
        self.assertGreater(asked_for, 1000)

    def test_a_correction_counts(self):
        r = random.Random(4)
        for _ in range(500):
            what, given, _, _ = recall.told(r, "object_place")
            new, text, reply = recall.corrected(r, what, given)
            self.assertNotEqual(new["place"], given["place"])
            self.assertIn(new["place"].lower(), text.lower())
            self.assertIn(new["place"], reply)

    def test_results_of_steps_are_right(self):
        r = random.Random(5)
        for _ in range(2000):
            at = None
            for ask, said in follow.computing(r):
                for left, right in sums(said):
                    self.assertEqual(left, right, said)
                if at is not None and (first := re.match(r"\d+", said)):
                    self.assertEqual(first[0], at, (ask, said))
                at = re.findall(r"\d+", said)[-1]

    def test_items_chosen_are_in_the_list(self):
        r = random.Random(6)
        for _ in range(1000):
            turns = follow.choosing(r)
            for ask, said in turns[1:2]:
                if re.search(r"\b(first|second|last)\b", ask.lower()) and "\n" not in said and "," not in said:
                    self.assertIn(said.lower(), turns[0][1].lower(), turns)

    def test_what_is_extracted_is_in_the_text(self):
        self.check_all(texts.extract_one, lambda ask, said: said.startswith("There is no ") or said in ask or said.lower() in ask.lower())
        self.check_all(texts.extract_json, lambda ask, said: all(str(value).lower() in ask.lower() and key in ask for key, value in json.loads(said).items()))
        self.check_all(texts.extract_several, lambda ask, said: all(line.split(": ", 1)[1].lower() in ask.lower() for line in said.split("\n")))

    def test_copies_and_summaries_are_in_the_text(self):
        for maker in (lambda r: texts.copied(r, ["A line to copy."]), texts.summary):
            self.check_all(maker, lambda ask, said: said.lower() in ask.lower())

    def test_labels_are_among_those_asked_for(self):
        self.check_all(texts.spam, lambda ask, said: said in ("spam", "not spam", "ham", "Yes, this looks like spam.", "No, this does not look like spam."))
        self.check_all(texts.topic, lambda ask, said: said in ask.lower())
        self.check_all(texts.sentiment, lambda ask, said: said in ("positive", "negative") or "ne" in ask.lower())

    def test_forms_are_kept(self):
        self.check_all(plainly.formed, lambda ask, said: "\n" not in said)
        self.check_all(plainly.short_or_full, lambda ask, said: said.startswith(("Yes, ", "No, ")))
        self.check_all(plainly.listing, lambda ask, said: said)

    def test_equations_are_right(self):
        self.check_all(asked.asked, lambda ask, said: all(left == right for left, right in sums(said)))

    def test_records_have_no_slots_or_markers_left(self):
        r = random.Random(9)
        choices = fresh.makers(conversation.one, ["A line."], [["A line.", "Another line."]])
        for _ in range(5000):
            for message in fresh.make(r, "hal-1.0", choices)["messages"]:
                self.assertTrue(message["content"].strip())
                self.assertIsNone(re.search(r"<\||\|>|\{[a-z_]+\}", message["content"]), message["content"])


if __name__ == "__main__":
    unittest.main()
