"""python3 -m unittest: mistakes in training that do not show in the loss."""
import argparse
import json
import lzma
import os
import random
import re
import signal
import tempfile
import unittest

import numpy as np
import torch

import bpe
import chat
import data
import gguf
import init
import lease
import make
import plans
import progress
import records
import train
from model import Llama, Shape

SMALL = dict(vocab=600, dim=128, heads=4, kv_heads=4, ffn=128, context=256)


def vocabulary():
    found = list(records.make(300, 1, "hal-1.0"))
    return found, bpe.train((text for record in found for text, special, _ in chat.pieces(record) if not special), 600)


def endless(found):
    """Yields records in the form of data.leg."""
    while True:
        for record in found:
            yield "skills", record


def packed(tokenizer, found, lengths, tokens):
    return data.pack(data.encode(tokenizer, endless(found), lengths[-1], tokens, 0.5, 1)[0], lengths, tokenizer.id["<|endoftext|>"], 1)


def half(worker, meeting, found):
    """One of two workers. Its gradient is its number; then both share an optimizer's steps, and the second one
    requests to end."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=worker, world_size=2)
    weights = [torch.nn.Parameter(torch.zeros(3, 2)), torch.nn.Parameter(torch.zeros(4))]
    for weight in weights:
        weight.grad = torch.full_like(weight, worker)
    ends = [train.together(weights, 2, wish) for wish in (False, worker == 1)]
    matrices = matrices_of()
    train.Muon(matrices, 0.01, worker=worker, workers=2).step()
    torch.save([*(weight.grad for weight in weights), ends, [weight.detach() for weight in matrices]], f"{found}{worker}")
    train.leave()


def matrices_of():
    generator = torch.Generator().manual_seed(3)
    weights = [torch.nn.Parameter(torch.zeros(shape)) for shape in ((4, 8), (8, 4), (4, 8), (6, 6))]
    for weight in weights:
        weight.grad = torch.randn(weight.shape, generator=generator)
    return weights


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
        rows, _ = data.encode(self.tokenizer, endless(self.found), 512, 20_000, 0.5, 1)
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

    def test_a_run_that_was_cut_short_ends_with_the_same_weights(self):
        rows, shape, lines = packed(self.tokenizer, self.found, (64, 128), 6000), dict(layers=2, **SMALL), []
        with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as cut:
            for leg in (0, 1):
                train.train(whole, shape, rows, leg, 2, 512, 1, say=lines.append)
                for stop in (4, 1000) if leg == 0 else (15, 1000):
                    train.train(cut, shape, rows, leg, 2, 512, 1, say=lines.append, stop=stop)
            states = [train.load(os.path.join(folder, "checkpoint.pt")) for folder in (whole, cut)]
        self.assertTrue(any("from step 4 of" in line for line in lines))
        self.assertEqual([(state["leg"], state["step"]) for state in states], [(2, 0)] * 2)
        self.assertEqual(states[0]["steps"], states[1]["steps"])
        for name, weight in states[0]["model"].items():
            torch.testing.assert_close(weight, states[1]["model"][name], rtol=0, atol=0)

    def test_training_learns(self):
        rows, said = packed(self.tokenizer, self.found, (64, 128), 6000), []
        with tempfile.TemporaryDirectory() as folder:
            for leg in range(4):
                train.train(folder, dict(layers=2, **SMALL), rows, leg, 4, 256, 1, say=said.append)
        losses = [float(line.split("answers ")[1].split()[0]) for line in said if "answers" in line]
        self.assertLess(losses[-1], 0.8 * losses[0])

    def test_the_rate_is_flat_and_then_falls_to_nothing(self):
        self.assertLess(train.rate(0, 0), 0.02)
        self.assertEqual([train.rate(done, 1000) for done in (0.01, 0.5, 0.79)], [1, 1, 1])
        self.assertAlmostEqual(train.rate(0.9, 1000), 0.5)
        self.assertLess(train.rate(0.9999, 1000), 0.01)
        self.assertEqual([round(train.rate(done, 1000, flat=0.3), 9) for done in (0.3, 0.65, 0.93)], [1, 0.5, 0.1])

    def test_every_row_is_read_once_in_a_leg_and_in_another_order_in_the_next(self):
        rows = packed(self.tokenizer, self.found, (64, 128), 6000)
        orders = [train.Rows(rows, 512, [1, leg], "cpu").order for leg in (0, 0, 1)]
        read = [sorted((length, int(i)) for length, pick in order for i in pick) for order in orders]
        self.assertEqual(read[0], sorted((length, i) for length, parts in rows.items() for i in range(len(parts[0]))))
        self.assertEqual(read[0], read[2])
        self.assertEqual(*[[(length, list(pick)) for length, pick in order] for order in orders[:2]])
        self.assertNotEqual(*[[(length, list(pick)) for length, pick in order] for order in orders[1:]])

    def test_a_run_ends_where_a_row_fell_twice_by_more_than_chance(self):
        history = lambda *shares: [{"count": 200, "rows": {"facts": share, "code": 50.0}} for share in shares]
        self.assertEqual(progress.fallen(history(90, 70, 70)), ["facts"])
        for fine in ((90, 70), (90, 70, 88), (90, 86, 85), (10, 40, 90)):
            self.assertEqual(progress.fallen(history(*fine)), [], fine)
        few = [{"count": 10, "rows": {"facts": share}} for share in (50.0, 30.0, 30.0)]
        self.assertEqual(progress.fallen(few), [])

    def test_workers_go_on_with_the_same_gradient(self):
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(half, (os.path.join(folder, "meeting"), os.path.join(folder, "found")), 2)
            for worker in range(2):
                a, b, ends, steps = torch.load(os.path.join(folder, f"found{worker}"))
                torch.testing.assert_close(a, torch.full((3, 2), 0.5))
                torch.testing.assert_close(b, torch.full((4,), 0.5))
                self.assertEqual(ends, [False, True])
                alone = matrices_of()
                train.Muon(alone, 0.01).step()
                for mine, shared in zip(alone, steps):
                    torch.testing.assert_close(mine.detach(), shared, atol=1e-4, rtol=1e-3)

    def test_a_lent_gpu_takes_the_same_steps(self):
        generator = torch.Generator().manual_seed(3)
        mine = [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((8, 8), (12, 8), (8, 12), (8, 8))]
        theirs = [torch.nn.Parameter(weight.detach().clone()) for weight in mine]
        stacks, plain = lease.Muon(mine), train.Muon(theirs, 0.01)
        for _ in range(3):
            for one, other in zip(mine, theirs):
                one.grad = torch.randn(one.shape, generator=generator)
                other.grad = one.grad.clone()
            stacks.step(0.01)
            plain.step()
        for one, other in zip(mine, theirs):
            self.assertTrue(torch.equal(one, other))

    def test_rows_are_read_once_while_new_ones_come(self):
        with tempfile.TemporaryDirectory() as folder:
            rows = 6
            tokens = np.repeat(np.arange(1, rows + 1, dtype=np.uint16)[:, None], lease.LENGTH, 1)
            alike = np.zeros(tokens.shape, np.int16)
            data.save(os.path.join(folder, "0.npz"), {lease.LENGTH: (tokens, alike, alike + 1, alike > 0)})
            supply = lease.Supply(folder, 3, 1)
            read = [supply.batch()[0, :, 0].tolist() for _ in range(2)]
            self.assertEqual(sorted(sum(read, [])), list(range(1, rows + 1)))
            self.assertEqual((supply.new, supply.again), (6, 0))
            supply.batch()   # no new rows are left, so earlier ones are used again
            self.assertEqual((supply.new, supply.again), (6, 3))

    def test_a_run_goes_on_from_a_file(self):
        model = Llama(Shape(layers=3, **SMALL))
        init.initialize(model, 1, self.tokenizer.stems())
        for weight in model.parameters():
            weight.data.add_(0.02 * torch.randn_like(weight))
        plan = {"models": {"tycho-1.0": dict(shape=dict(layers=4, **SMALL), start=None)}}
        with tempfile.TemporaryDirectory() as folder:
            files = {kind: os.path.join(folder, f"{kind}.gguf") for kind in ("f16", "q8_0")}
            for kind, path in files.items():
                gguf.export(path, model, self.tokenizer, "tycho-1.0", kind)
                shape, state, tokenizer = gguf.restore(path)
                self.assertEqual(shape, dict(layers=3, **{key: size for key, size in SMALL.items() if key != "vocab"}))
                self.assertEqual((tokenizer.tokens, tokenizer.merges), (self.tokenizer.tokens, self.tokenizer.merges))
                again = os.path.join(folder, "again.gguf")
                restored = Llama(Shape(layers=3, **SMALL))
                restored.load_state_dict(state)
                for name, weight in model.state_dict().items():
                    torch.testing.assert_close(state[name], weight, atol=1e-3 if kind == "f16" else weight.abs().max().item() / 200, rtol=0)
                gguf.export(again, restored, tokenizer, "tycho-1.0", kind)
                with open(path, "rb") as first, open(again, "rb") as second:
                    self.assertEqual(first.read(), second.read())   # a second rounding changes nothing
            with torch.no_grad():
                model.norm.weight.add_(1)
            gguf.export(again, model, self.tokenizer, "tycho-1.0", "q8_0")
            with torch.no_grad():
                model.norm.weight.sub_(1)
            torch.testing.assert_close(make.mean([path, again])["norm.weight"], state["norm.weight"] + 0.5)
            torch.testing.assert_close(make.mean([path, again])["embedding.weight"], state["embedding.weight"])
            begin = lambda path: make.beginning(argparse.Namespace(start=[f"tycho-1.0={path}"], work=folder), plan, self.tokenizer, "tycho-1.0")
            larger = Llama(Shape(layers=4, **SMALL))
            init.initialize(larger, 2)
            init.grow(larger, begin(files["f16"]))
            tokens = torch.randint(0, 600, (2, 30))
            where = torch.arange(30).expand(2, 30), torch.ones_like(tokens)
            torch.testing.assert_close(larger(tokens, *where), model(tokens, *where), atol=0.02, rtol=0.02)
            plan["models"]["tycho-1.0"]["shape"] |= dict(layers=2, ffn=192)
            with self.assertRaisesRegex(SystemExit, "ffn 128, not 192; 3 layers, more than 2"):
                begin(files["q8_0"])
            with open(files["q8_0"], "r+b") as file:
                file.write(b"GGML")
            with self.assertRaisesRegex(ValueError, "not GGUF version 3"):
                gguf.restore(files["q8_0"])

    def test_a_run_that_is_asked_to_end_leaves_a_checkpoint(self):
        rows, lines = packed(self.tokenizer, self.found, (64, 128), 6000), []

        def say(line):
            lines.append(line)
            if "step 25" in line:
                os.kill(os.getpid(), signal.SIGTERM)

        before = signal.getsignal(signal.SIGTERM)
        with tempfile.TemporaryDirectory() as folder:
            try:
                with self.assertRaises(SystemExit):
                    train.train(folder, dict(layers=2, **SMALL), rows, 0, 2, 128, 1, say=say)
            finally:
                signal.signal(signal.SIGTERM, before)
            state = train.load(os.path.join(folder, "checkpoint.pt"))
        self.assertEqual((state["leg"], state["step"], state["steps"]), (0, 26, 26))

    def test_q8_0_is_close(self):
        values = np.random.default_rng(1).normal(size=(4, 64)).astype(np.float32)
        blocks = np.frombuffer(gguf._q8_0(values), np.uint8).reshape(-1, 34)
        restored = blocks[:, :2].copy().view("<f2").astype(np.float32) * blocks[:, 2:].view(np.int8)
        self.assertLess(np.abs(restored.reshape(4, 64) - values).max(), np.abs(values).max() / 200)


class Mix(unittest.TestCase):
    """The mix of a leg."""

    def read(self, count, name="tycho-1.0", number=3, mix=plans.MIX):
        with tempfile.TemporaryDirectory() as folder:
            for kind in data.KINDS:
                texts = [f"{kind} {i}. " + "The fox went home. " * 20 for i in range(5)]
                with lzma.open(os.path.join(folder, f"train-{kind}-00.jsonl.xz"), "wt", encoding="utf-8") as file:
                    for text in texts:
                        messages = [{"role": "user", "content": f"How is {kind} made in a place far away?"}, {"role": "assistant", "content": text}]
                        file.write(json.dumps({"source": "test", "kind": kind, "messages": messages[kind in ("story", "prose"):]}) + "\n")
            source, found = data.leg(folder, plans.PLANS["chat"]["models"][name], name, number, mix), []
            part, record = next(source)
            for _ in range(count):
                found.append((part, json.loads(json.dumps(record))))
                part, record = source.send(len(record["messages"][-1]["content"]))
            return found

    def test_parts_have_their_shares_and_legs_their_own_records(self):
        found = self.read(3000)
        said = {}
        for part, record in found:
            said[part] = said.get(part, 0) + len(record["messages"][-1]["content"])
        for part, share in plans.MIX.items():
            self.assertAlmostEqual(said[part] / sum(said.values()), share, delta=0.02)
        self.assertEqual(found[:200], self.read(200))
        self.assertNotEqual(found[:200], self.read(200, number=4))
        self.assertNotEqual(found[:200], self.read(200, name="hal-1.0"))
        for mix in (plans.LATE_MIX, *(plans.mix(plan, 0) for plan in plans.PLANS.values())):
            self.assertAlmostEqual(sum(mix.values()), 1)
        chat, session = plans.PLANS["chat"], plans.PLANS["session"]
        self.assertEqual([plans.mix(chat, leg) for leg in (11, 12)], [plans.MIX, plans.LATE_MIX])
        self.assertEqual(plans.mix(session, 5), plans.HELD)

    def test_a_quarter_has_a_neutral_system_prompt(self):
        given = [record["messages"][0] for part, record in self.read(3000) if part in ("conversation", "fallback")]
        prompts = [message["content"] for message in given if message["role"] == "system"]
        self.assertAlmostEqual(len(prompts) / len(given), 0.25, delta=0.04)
        self.assertGreaterEqual(len(set(prompts)), 50)

    def test_what_is_held_out_is_not_read(self):
        found = [message["content"] for part, record in self.read(400) if part == "conversation" for message in record["messages"] if message["role"] == "user"]
        asked = next(text for text in found if len(data.plain(text).split()) > 4)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "held_out.jsonl")
            with open(path, "w", encoding="utf-8") as file:
                file.write(json.dumps({"messages": [{"role": "user", "content": asked.upper() + "!"}]}) + "\n" + json.dumps({"messages": [{"role": "user", "content": "Hi there"}]}) + "\n")
            self.assertEqual(data.kept_back(path), {data.plain(asked)})
            before, data.HELD_OUT = data.HELD_OUT, path
            try:
                again = [message["content"] for _, record in self.read(400) for message in record["messages"]]
            finally:
                data.HELD_OUT = before
        self.assertNotIn(data.plain(asked), [data.plain(text) for text in again])

    def test_larger_sums_without_thinking_are_worked_out_in_the_answer(self):
        r = random.Random(1)
        made = {"kind": "math", "messages": [{"role": "user", "content": "47 + 38"}, {"role": "assistant", "content": "47 + 38 = 85", "thinking": "..."}]}
        self.assertEqual(data.think_or_not(made, r, 0)["messages"][-1], {"role": "assistant", "content": "47 + 30 = 77 and 77 + 8 = 85, so 47 + 38 = 85"})
        made = next(record for record in iter(lambda: records.numbers.story_problem(r), None) if " - " in record["messages"][-1]["thinking"])
        wanted = re.search(r"\d+", made["messages"][-1]["content"])[0]
        said = data.think_or_not(made, r, 0)["messages"][-1]["content"]
        self.assertEqual((re.findall(r"\d+", said)[-1], " - " in said), (wanted, True), said)


if __name__ == "__main__":
    unittest.main()
