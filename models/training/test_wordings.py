"""python3 -m unittest: the wordings are complete, and check.py finds mistakes in them."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "wordings"))
import check


def wordings(first, count=check.AT_LEAST):
    return "\n".join(f"- {first} {i}" for i in range(count)) + "\n"


class Wordings(unittest.TestCase):
    def mistakes(self, intents="", frames=""):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for kind, text in (("intents", intents), ("frames", frames)):
                (folder / kind).mkdir()
                (folder / kind / "a.txt").write_text(text, encoding="utf-8")
            return check.check(folder)[2]

    def test_the_files_have_no_mistakes(self):
        frames, intents, mistakes = check.check()
        self.assertEqual(mistakes, [])
        self.assertGreaterEqual(len(intents), 400)
        self.assertGreaterEqual(sum(len(entry.wordings) for entry in intents), 12000)
        self.assertGreaterEqual(len(frames), 100)

    def test_accepts_a_complete_intent_and_frame(self):
        intent = "# Greetings.\n\n[intent greet.hello]\n" + wordings("hello") + "= Hello, I am {me}.\n"
        frame = "[frame ask.name]      slots: {name}\n" + wordings("i am {name}")
        frame += "[frame ask.it]  slots: none\n" + wordings("i am")
        self.assertEqual(self.mistakes(intent, frame), [])

    def test_reads_intents_for_first_messages_too(self):
        self.assertIn("meta.it_that", {entry.name for entry in check.read_all("intent")})

    def test_reports_a_short_intent_without_answers(self):
        found = self.mistakes("[intent greet.hello]\n" + wordings("hello", 29))
        self.assertEqual(len(found), 2)
        self.assertIn("has 29 wordings", found[0])
        self.assertIn("has 0 answers", found[1])

    def test_reports_a_wording_of_two_intents(self):
        first, second = "[intent a.b]\n" + wordings("one") + "= A.\n", "[intent a.c]\n" + wordings("two") + "- ONE  3\n= B.\n"
        found = self.mistakes(first + second)
        self.assertEqual(len(found), 1)
        self.assertIn("repeats a wording of a.b: ONE  3", found[0])

    def test_reports_unknown_lines_slots_and_long_answers(self):
        intent = "[intent a.b]\n" + wordings("one") + "?? what\n= " + "word " * 26 + "\n"
        found = self.mistakes(intent, "[frame a.c] slots: {x}\n" + wordings("two {y}"))
        self.assertEqual(sum("unknown form" in line for line in found), 1)
        self.assertEqual(sum("does not declare y" in line for line in found), check.AT_LEAST)
        self.assertEqual(sum("more than 25 words" in line for line in found), 1)


if __name__ == "__main__":
    unittest.main()
