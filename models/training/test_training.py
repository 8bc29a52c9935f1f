"""python3 -m unittest: what can go wrong in training without being seen in the loss."""
import os
import tempfile
import unittest

import numpy as np
import torch

import bpe
import chat
import data
import gguf
import init
import records
import train
from model import Llama, Shape

SMALL = dict(vocab=600, dim=128, heads=4, kv_heads=4, ffn=128, context=256)


def vocabulary():
    found = list(records.make(300, 1, "hal-1.0"))
    return found, bpe.train((text for record in found for text, special, _ in chat.pieces(record) if not special), 600)


def half(worker, meeting, found):
    """A worker whose gradient is its number."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=worker, world_size=2)
    weights = [torch.nn.Parameter(torch.zeros(3, 2)), torch.nn.Parameter(torch.zeros(4))]
    for weight in weights:
        weight.grad = torch.full_like(weight, worker)
    done = train.together(weights, 0.2 * worker, 2)
    torch.save([*(weight.grad for weight in weights), torch.tensor(done)], f"{found}{worker}")


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.found, cls.tokenizer = vocabulary()

    def test_records_are_the_same_for_the_same_seed_and_answers_are_last(self):
        self.assertEqual(list(records.make(200, 5, "hal-1.0")), list(records.make(200, 5, "hal-1.0")))
        for record in self.found:
            self.assertEqual(record["messages"][-1]["role"], "assistant")
            called = [call["name"] for message in record["messages"] for call in message.get("tool_calls", [])]
            self.assertLessEqual(set(called), {tool["name"] for tool in record.get("tools", [])})

    def test_tokens_spell_the_text(self):
        letters = {letter: byte for byte, letter in bpe._LETTER.items()}
        for text in ("It's 42 o'clock,\r\n  naïve Über_test__x  \n\n👍", "   ", "a\tb\n"):
            spelled = "".join(self.tokenizer.tokens[i] for i in self.tokenizer.encode(text))
            self.assertEqual(bytes(letters[letter] for letter in spelled).decode(), text)

    def test_a_word_is_spelled_alike_with_a_space_and_without(self):
        space, (of, marks) = bpe._LETTER[32], self.tokenizer.stems()
        for word in ("Noor", "weather", "Brinkal", "lamps"):
            bare, spaced = (self.tokenizer.encode(text) for text in (word, " " + word))
            spelled = [self.tokenizer.tokens[i] for i in spaced]
            self.assertEqual("".join(spelled), space + word)
            self.assertEqual([self.tokenizer.tokens[i] for i in bare], ([spelled[0][1:]] if spelled[0] != space else []) + spelled[1:])
        for token, stem, (after_space, plural) in zip(self.tokenizer.tokens, of, marks):
            self.assertEqual(token, space * after_space + self.tokenizer.tokens[stem] + "s" * plural)

    def test_only_the_assistant_is_learned_from(self):
        record = {"messages": [{"role": "user", "content": "secret question"}, {"role": "assistant", "content": "plain reply", "thinking": "some thought"}]}
        said = "".join(text for text, _, spoken in chat.pieces(record) if spoken)
        self.assertEqual(said, "some thought\n</think>\n\nplain reply<|im_end|>")

    def test_packing_keeps_every_record_whole_and_survives_the_file(self):
        rows = data.encode_all(self.tokenizer, self.found, 512, 0.5, 1)
        packed = data.pack(rows, (128, 512), self.tokenizer.id["<|endoftext|>"], 1)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "packed.npz")
            data.save(path, packed)
            loaded = data.load(path)
        records_found = []
        for length, parts in packed.items():
            for mine, stored in zip(parts, loaded[length]):
                np.testing.assert_array_equal(mine, stored)
            tokens, position, document, said = parts
            for i in range(len(tokens)):
                for number in range(1, document[i].max() + 1):
                    inside = document[i] == number
                    np.testing.assert_array_equal(position[i][inside], np.arange(inside.sum()))
                    records_found.append((tuple(tokens[i][inside]), tuple(said[i][inside])))
        self.assertEqual(sorted(records_found), sorted((tuple(ids), tuple(said)) for ids, said in rows))

    def test_a_new_model_copies_and_sees_only_its_own_document(self):
        model = Llama(Shape(layers=3, **SMALL))
        init.initialize(model, 1)
        half = torch.randint(0, 600, (4, 40), generator=torch.Generator().manual_seed(1))
        tokens = torch.cat([half, half], 1)
        position = torch.arange(80).expand(4, 80)
        with torch.no_grad():
            predicted = model.logits(model(tokens, position, torch.ones_like(tokens)))[:, 41:-1].argmax(-1)
            apart = (torch.arange(80) >= 40).long().expand(4, 80) + 1
            alone = model(half, position[:, :40], torch.ones_like(half))
            second = model(tokens, position % 40, apart)[:, 40:]
        self.assertGreater((predicted == tokens[:, 42:]).float().mean().item(), 0.3)
        torch.testing.assert_close(alone, second, atol=1e-4, rtol=1e-4)

    def test_a_grown_model_answers_as_the_one_it_grew_from(self):
        torch.manual_seed(1)
        small = Llama(Shape(layers=4, **SMALL))
        init.initialize(small, 1)
        for weight in small.parameters():
            weight.data.add_(0.02 * torch.randn_like(weight))
        tokens = torch.randint(0, 600, (2, 30))
        position, document = torch.arange(30).expand(2, 30), torch.ones_like(tokens)
        for layers in (4, 5, 6, 9, 12):
            large = Llama(Shape(layers=layers, **SMALL))
            init.initialize(large, 2)
            init.grow(large, small.state_dict())
            torch.testing.assert_close(large(tokens, position, document), small(tokens, position, document), atol=1e-4, rtol=1e-4)

    def test_training_resumes_where_it_stopped_and_learns(self):
        packed = data.pack(data.encode_all(self.tokenizer, self.found, 128, 0, 1), (128,), 0, 1)
        lines = []
        with tempfile.TemporaryDirectory() as folder:
            for minutes in (0.05, 0.15):
                train.train(folder, dict(layers=2, **SMALL), packed, minutes, 512, 1, say=lines.append)
        self.assertIn("from step 0", lines[0])
        resumed = next(line for line in lines[1:] if "parameters" in line)
        self.assertGreater(int(resumed.rsplit(" ", 1)[1]), 0)

    def test_workers_go_on_with_the_same_gradient(self):
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(half, (os.path.join(folder, "meeting"), os.path.join(folder, "found")), 2)
            for worker in range(2):
                a, b, done = torch.load(os.path.join(folder, f"found{worker}"))
                torch.testing.assert_close(a, torch.full((3, 2), 0.5))
                torch.testing.assert_close(b, torch.full((4,), 0.5))
                self.assertAlmostEqual(done.item(), 0.1, places=5)

    def test_q8_0_is_close(self):
        values = np.random.default_rng(1).normal(size=(4, 64)).astype(np.float32)
        blocks = np.frombuffer(gguf._q8_0(values), np.uint8).reshape(-1, 34)
        restored = blocks[:, :2].copy().view("<f2").astype(np.float32) * blocks[:, 2:].view(np.int8)
        self.assertLess(np.abs(restored.reshape(4, 64) - values).max(), np.abs(values).max() / 200)


if __name__ == "__main__":
    unittest.main()
