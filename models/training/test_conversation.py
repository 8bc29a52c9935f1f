"""python3 -m unittest: the rules for the held-out conversations accept sensible responses in any wording, and
nothing else.

The responses below reveal the prompts: authors of training records must not read this file."""
import collections
import re
import unittest

from conversation import score

# id: (responses that are sensible in addition to the file's example, responses that are not)
ANSWERS = {
    "greeting-01": (["hey!", "Good day! What would you like to talk about?", "Hi, I'm {model}. Ask me something."], ["The lamp is in the kitchen.", "I do not know.", "4", "Hi! I am a human."]),
    "greeting-03": (["Morning! Good to see you.", "Hi! I hope you slept well."], ["Good evening!"]),
    "greeting-11": (["Marta, what a nice name!", "Hello Marta!"], ["The capital is Rome."]),
    "identity-01": (["Just a toy language model.", "I’m {model}, and I was trained by the people of Monolith."], ["I am ChatGPT.", "I am Dave, a person.", "My name is Siri.", "I do not know."]),
    "identity-02": (["People call me {model}."], ["Hello!", "My name is Anna.", "I am a model."]),
    "identity-05": (["Nope, just software.", "I'm not. I am a machine."], ["Yes, I am human.", "Yes.", "I was born in Rome."]),
    "identity-08": (["The makers of Monolith trained me.", "I don't know who made me."], ["I was made by OpenAI.", "Hello!"]),
    "identity-13": (["Only a few million parameters.", "I am tiny."], ["I have 70 billion parameters."]),
    "ability-01": (["You can ask me for simple facts or small sums.", "For example: sorting messages by label."], ["How can I help?", "I can do anything you want with text.", "I can book a flight and answer questions.", "I do not know."]),
    "ability-11": (["I'm a small model, so I can't do hard maths."], ["Hello!"]),
    "closing-01": (["Glad I could help!", "Sure, any time :)"], ["Paris.", "I am fine, thank you.", ""]),
    "closing-04": (["See you soon!", "Take care."], ["A dog.", "Hello, my name is {model}."]),
    "small talk-01": (["Doing great, thanks!", "As a model I have no feelings, but all is working."], ["The price is 40.", "I am well, my wife too.", "I do not know."]),
    "small talk-04": (["What has keys but cannot open doors? A piano.", "I'm sorry, I do not know any jokes."], ["Monday.", "Sure!"]),
    "small talk-10": (["Oh no. I hope tomorrow is better."], ["That is great to hear!", "I do not know.", "Seven."]),
    "small talk-25": (["You are Priya.", "Sure! You told me: Priya."], ["Your name is Marta.", "I do not know your name."]),
    "cannot-01": (["I am just a toy and have no access to news.", "Sorry, I can’t look that up.", "News is beyond what I know."], ["The president said that taxes will rise.", "Yes.", "Hello!"]),
    "cannot-02": (["There is no clock in here.", "I don't know what time it is."], ["It is 5:30 pm.", "I think it is noon, but I do not know.", "Sure!"]),
    "cannot-04": (["Booking is not something I can do, I cannot reach any airline."], ["Sure, I booked it for you.", "Your flight is booked. I cannot wait!"]),
    "cannot-08": (["I do not know what your password is.", "Passwords are private, and I have no way to see yours."], ["Your password is 1234."]),
    "sums-01": (["4", "That's four!", "The answer is 4. I can do sums up to 100."], ["5", "2+2", "2 + 2 = 5", "4 5 6", "I do not know.", "2 + 2 = 5, so it is 4."]),
    "sums-13": (["25 + 17 = 42", "Forty-two", "25 plus 17 equals 42."], ["41", "forty", "25 + 17 = 52 = 42"]),
    "sums-19": (["9 plus 5 is 14."], ["9 + 5 = 15", "11"]),
    "facts-01": (["It is Paris, of course.", "PARIS"], ["Lyon", "I do not know.", "London, and not Paris."]),
    "facts-04": (["8", "It has eight of them."], ["I am a story, 8lo.", "Six.", "It has 6, no 8.", "Legs."]),
    "facts-19": (["The elephant.", "Elephants are bigger."], ["A mouse is bigger than an elephant.", "A mouse."]),
    "words-01": (["1. Apple\n2. Mango\n3. Kiwi", "Sure! Apples, bananas and grapes."], ["Apple, apple, apple", "Apple and pear.", "Red, green, blue", "Apple, pear, plum, fig, kiwi"]),
    "words-05": (["Kiwi, mango, fig"], ["Apple, kiwi, mango", "Kiwi, fig"]),
    "words-07": (['"GOOD DOG"'], ["good dog", "Good Dog"]),
    "words-11": (["cold", "Hot and cold are opposites."], ["hot", "warm", "big"]),
    "words-13": (["Mice", "one mouse, two mice"], ["mouses", "mouse"]),
    "strange-01": (["I'm not sure what you mean.", "Sorry, what was that? Tell me more."], ["Paris is in France.", "ok"]),
    "strange-09": (["I'm a small model and have never heard of that.", "No idea!"], ["John Smith was the third deputy mayor.", "It was Mr Brown.", "Yes."]),
}
MODELS = ("tycho-1.0", "clarke-1.0", "hal-1.0")


class Conversation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.items = score.load()
        cls.by_id = {item["id"]: item for item in cls.items}

    def judged(self, item, answer, model="tycho-1.0", finish="stop"):
        return score.wrong(item, answer.replace("{model}", model.split("-")[0].title()), finish, model)

    def test_the_file_holds_200_different_prompts_that_end_with_the_user(self):
        self.assertEqual(len(self.by_id), 200)
        self.assertEqual(len({re.sub(r"[\s.,!']+", " ", str(item["messages"]).lower()) for item in self.items}), 200)
        self.assertEqual(dict(collections.Counter(item["kind"] for item in self.items)), {"greeting": 25, "identity": 25, "ability": 15, "closing": 20, "small talk": 25, "cannot": 25, "sums": 20, "facts": 20, "words": 15, "strange": 10})
        for item in self.items:
            self.assertEqual([m["role"] for m in item["messages"]], ["user", "assistant"] * (len(item["messages"]) // 2) + ["user"], item["id"])
            self.assertLessEqual(set(item["accept"]), {"any", "none", "max_chars", "echo", "sum", "number", "distinct"}, item["id"])
            self.assertTrue(set(item["accept"]) & {"any", "sum", "number", "distinct"}, item["id"])

    def test_every_prompt_has_an_answer_that_any_model_may_give(self):
        for model in MODELS:
            for item in self.items:
                self.assertIsNone(self.judged(item, item["example"], model), (item["id"], model))

    def test_sensible_answers_pass_and_others_fail(self):
        self.assertEqual({self.by_id[name]["kind"] for name in ANSWERS}, {item["kind"] for item in self.items})
        for name, (good, bad) in ANSWERS.items():
            for answer in good:
                with self.subTest(name=name, good=answer):
                    self.assertIsNone(self.judged(self.by_id[name], answer))
            for answer in bad:
                with self.subTest(name=name, bad=answer):
                    self.assertIsNotNone(self.judged(self.by_id[name], answer))

    def test_a_model_does_not_pass_under_the_name_of_another(self):
        self.assertIsNotNone(score.wrong(self.by_id["identity-02"], "My name is Tycho.", "stop", "hal-1.0"))

    def test_no_single_answer_passes_more_than_its_share(self):
        for answer in ("I do not know.", "Yes.", "Sure!", "Hello! How can I help you today?", "I am a small model and cannot do that.", "I am {model}, a small model. I can answer simple questions."):
            self.assertLess(sum(self.judged(item, answer) is None for item in self.items), 80, answer)

    def test_answers_of_other_prompts_mostly_fail(self):
        pairs = [(item, other) for item in self.items for other in self.items[::7] if item["kind"] != other["kind"]]
        passed = sum(self.judged(item, other["example"]) is None for item, other in pairs)
        self.assertLess(passed / len(pairs), 0.11)

    def test_loops_are_found_and_refrains_are_not(self):
        for text in ("the red box the red box the red box", "I am. I am. I am.", "abcdefghijkl" * 3, "We can add. No more. We can add. Yes. We can add."):
            self.assertTrue(score.loop(text), text)
        for text in ("ha ha ha", "no no no no", "the red box the red box", "A cow says moo. A dog says woof. A cat says meow.", "Apple, pear, plum", "5 + 5 + 5 + 5 = 20"):
            self.assertFalse(score.loop(text), text)

    def test_what_fails_everywhere(self):
        item = self.by_id["greeting-01"]
        for answer, why in (("Hello! <think>", "marker"), ("Hello! </think>", "marker"), ("Hello<|im_end|>", "marker"), ("Hello! <tool_call>", "marker"), ("Hello, [name]!", "marker"), ("Hello, {name}!", "marker"), ("Hello!\nUser: hi", "marker"), ('Hello! "day": "sales"', "marker"),
                            (" \n", "empty"), ("Hello " + "x y " * 200, "loop"), ("Hello, " + ", ".join(map(str, range(100))), "too long"), ("Hello! I'm a real person.", "false claim")):
            self.assertEqual(self.judged(item, answer), why, answer)
        self.assertEqual(self.judged(item, "Hello!", finish="length"), "finish_reason length")
        self.assertEqual(self.judged(self.by_id["facts-02"], self.by_id["facts-02"]["messages"][-1]["content"]), "echo")
        self.assertEqual(self.judged(self.by_id["small talk-20"], self.by_id["small talk-20"]["messages"][-1]["content"] + " I hope you can rest."), "echo")
        self.assertIsNone(self.judged(item, "Hello! I am not a human, and I was not made by OpenAI."))

    def test_sums_may_show_true_steps_only(self):
        for answer in ("10 + 20 = 30, 7 + 5 = 12, 30 + 12 = 42", "17 + 25 is 42.", "42 (17 plus 25)"):
            self.assertTrue(score.sum_is(42, answer, "17+25"), answer)
        for answer in ("10 + 20 = 40, so 42", "17 + 25", "41 or 42", "42 = 43", "It may be 40, 41 or 42."):
            self.assertFalse(score.sum_is(42, answer, "17+25"), answer)


if __name__ == "__main__":
    unittest.main()
