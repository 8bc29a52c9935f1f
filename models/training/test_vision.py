"""python3 -m unittest: mistakes anywhere on the way from an image and its words to the vision encoder, its file and
the server that reads it."""
import base64
import json
import os
import random
import subprocess
import tempfile
import unittest

import numpy as np
import torch

import chat
import gguf
from records import seen
from vision import captions, learn, measure, pictures
from vision.tower import Projector, Tower, TowerShape

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "models", "hal-1.0-q8_0.gguf")
SERVICE = os.path.join(ROOT, "dist", "main.js")
SMALL = TowerShape(width=64, layers=2, heads=2, ffn=128, inner=96)


def scenes(count, kind=None):
    r = random.Random(7)
    return [pictures.scene(r, kind) for _ in range(count)]


def covered(scene, mark):
    """The pixels that a single mark changes."""
    empty = pictures.Scene(scene.kind, scene.ground, [])
    return (pictures.draw(pictures.Scene(scene.kind, scene.ground, [mark]), 96) != pictures.draw(empty, 96)).any(2)


class Pictures(unittest.TestCase):
    def test_every_mark_is_seen_and_none_covers_another(self):
        for scene in scenes(60):
            shown = [covered(scene, mark) for mark in scene.marks]
            for where in shown:
                self.assertGreater(where.sum(), 40, scene)
            self.assertLessEqual(sum(where.astype(int) for where in shown).max(), 1, scene)

    def test_the_first_of_two_is_left_of_the_second_or_above_it(self):
        for scene in scenes(40, "places"):
            axis = {"left": 1, "above": 0}[scene.relation]
            one, two = (np.argwhere(covered(scene, mark)) for mark in scene.marks)
            self.assertLess(one[:, axis].max(), two[:, axis].min(), scene)

    def test_shapes_fill_what_they_should_of_their_square(self):
        # circles, rings and squares as computed; triangles, hearts and stars within bounds
        share = {}
        for what in pictures.SHAPES:
            mark = pictures.Mark(what, "black", 0.5, 0.5, 0.4)
            share[what] = covered(pictures.Scene("shape", (255, 255, 255), [mark]), mark).sum() / (0.8 * 96) ** 2
        self.assertAlmostEqual(share["circle"], np.pi * 0.92 ** 2 / 4, delta=0.05)
        self.assertAlmostEqual(share["ring"], np.pi * (0.94 ** 2 - 0.5 ** 2) / 4, delta=0.06)
        self.assertAlmostEqual(share["square"], 0.82 ** 2, delta=0.05)
        self.assertAlmostEqual(share["triangle"], 1.9 * 1.7 / 8, delta=0.05)
        self.assertTrue(0.2 < share["star"] < 0.5 < share["heart"] < 0.75, share)

    def test_training_sees_the_points_that_the_service_takes_of_a_larger_picture(self):
        for scene in scenes(10):
            np.testing.assert_array_equal(pictures.sample(scene, 48, 48), pictures.draw(scene, 48))
            np.testing.assert_array_equal(pictures.sample(scene, 48, 144), pictures.draw(scene, 144)[::3, ::3])


class Words(unittest.TestCase):
    def test_every_row_is_one_entry_of_the_vocabulary_the_models_have(self):
        _, state, tokenizer = gguf.restore(MODEL)
        words = learn.vocabulary()
        self.assertEqual(len(learn.words_of(state["embedding.weight"], tokenizer)), len(words))
        for scene in scenes(300):
            rows = captions.rows(scene)
            self.assertEqual(len(rows), TowerShape().patches)
            self.assertLessEqual(set(rows), set(words))
            self.assertEqual(set(rows[captions.USED:]), {captions.NOTHING})

    def test_rows_tell_apart_what_is_said_of_a_picture(self):
        said = {}
        for scene in scenes(1500):
            self.assertEqual(said.setdefault(tuple(captions.rows(scene)), seen.shows(scene)), seen.shows(scene))

    def test_answers_follow_from_the_picture(self):
        r = random.Random(3)
        circle, star = pictures.Mark("circle", "red", 0.2, 0.5, 0.1), pictures.Mark("star", "orange", 0.8, 0.5, 0.1)
        found = {seen.asked(r, pictures.Scene("places", (255, 255, 255), [circle, star], "left"))[1] for _ in range(200)}
        self.assertEqual(found, {"I see a red circle left of an orange star.", "A red circle.", "An orange star.",
                                 *(f"The {one} is left of the {other}." for one in ("circle", "red circle") for other in ("star", "orange star")), *(f"The {one} is right of the {other}." for one in ("star", "orange star") for other in ("circle", "red circle"))})
        found = {seen.asked(r, pictures.Scene("count", (255, 255, 255), [star] * 3))[1] for _ in range(100)}
        self.assertEqual(found, {"I see three orange stars.", "There are three orange stars.", "The stars are orange."})

    def test_places_are_true_whichever_is_named_first(self):
        star, ring = pictures.Mark("star", "red", 0.2, 0.5, 0.1), pictures.Mark("ring", "blue", 0.8, 0.5, 0.1)
        beside, over = (pictures.Scene("places", (255, 255, 255), [star, ring], relation) for relation in ("left", "above"))
        for said in ("The red star is left of the blue ring.", "The blue ring is right of the red star.", "The star is left of the blue ring.", "The ring is right of the star."):
            self.assertTrue(seen.true_of(beside, said))
            self.assertFalse(seen.true_of(over, said))
        for said in ("The red star is above the ring.", "The ring is below the star."):
            self.assertTrue(seen.true_of(over, said))
        for other in ("The red star is right of the blue ring.", "The blue ring is left of the red star.", "The blue star is left of the red ring.", "The star is left of the star.", "A red star.", "The number is 12."):
            self.assertFalse(seen.true_of(beside, other))
        two = pictures.Scene("places", (255, 255, 255), [star, pictures.Mark("star", "blue", 0.8, 0.5, 0.1)], "left")
        self.assertTrue(seen.true_of(two, "The blue star is right of the red star."))
        self.assertFalse(seen.true_of(two, "The star is left of the blue star."))

    def test_a_picture_stands_before_or_behind_the_text_and_is_not_learned_to_be_said(self):
        _, _, tokenizer = gguf.restore(MODEL)
        r, sides = random.Random(5), set()
        for _ in range(40):
            made = seen.make(r)
            ids, said = chat.encode(tokenizer, made)
            rows = learn.words_of(torch.arange(len(tokenizer.tokens)), tokenizer).tolist()
            wanted = [rows[learn.vocabulary().index(word)] for word in made["messages"][0]["picture"]]
            at = next(i for i in range(len(ids)) if ids[i:i + captions.ROWS] == wanted)
            self.assertFalse(any(said[at:at + captions.ROWS]))
            text = tokenizer.encode("user\n")
            before = ids[at - len(text):at] == text
            self.assertEqual(before, made["messages"][0]["picture_first"])
            self.assertEqual(ids[at + captions.ROWS] == tokenizer.id["<|im_end|>"], not before)
            sides.add(before)
        self.assertEqual(sides, {True, False})


class Towers(unittest.TestCase):
    def test_a_tower_learns_to_tell_shapes_and_goes_on_from_its_checkpoint(self):
        said = []
        with tempfile.TemporaryDirectory() as folder:
            learn.fit(folder, 1, size=16, shape=SMALL, steps=20, say=said.append, every=10)
            learn.fit(folder, 1, size=16, shape=SMALL, steps=60, say=said.append, every=10)
        losses = [float(line.split("loss ")[1].split()[0]) for line in said if "loss" in line]
        self.assertIn("from step 20", said[3])
        self.assertLess(losses[-1], 0.75 * losses[0])

    def test_a_tower_goes_on_from_its_file_and_sees_the_same_with_more_layers(self):
        vision = os.path.join(ROOT, "models", "hal-1.0-mmproj.gguf")
        shown, rows, kinds = learn.batch("of the file", 100)
        had = gguf.restore_tower(vision)[0].layers
        said = []
        for layers in (had, had + 1):
            shape, tower, head = learn.grown(vision, MODEL, layers)
            self.assertEqual(len(tower.layers), layers)
            with torch.no_grad():
                said.append(head(tower(torch.from_numpy(shown))))
        self.assertTrue(torch.equal(said[0], said[1]))
        right = learn.right(said[0].argmax(-1), torch.from_numpy(rows), kinds)
        self.assertGreater(min(right.values()), 70, right)   # as measured for the file
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "mmproj.gguf")
            projector = Projector(shape, 192)
            gguf.export_tower(copy, tower, projector, "a tower", "f16")
            again = gguf.restore_tower(copy)
        self.assertEqual(again[0], shape)
        for mine, theirs in ((tower.state_dict(), again[1]), (projector.state_dict(), again[2])):
            self.assertEqual(mine.keys(), theirs.keys())
            for key, weight in mine.items():
                self.assertLess((weight - theirs[key]).abs().max(), 0.01, key)

    def test_a_projector_says_what_the_tower_sees_in_the_embeddings_of_a_model(self):
        torch.manual_seed(1)
        tower = Tower(SMALL)
        words = learn.vocabulary()
        embeddings = torch.randn(len(words), 32)
        projector = learn.project(tower, Projector(SMALL, len(words)), embeddings, learn.features(tower, 512), steps=300, inner=128, say=lambda line: None)
        with torch.no_grad():
            said = projector(tower(torch.from_numpy(learn.batch("others", 8)[0])))
        # even an untrained encoder distinguishes rows: the first gives the number or the kind, the second a colour
        mean = lambda some: embeddings[[words.index(" " + word) for word in some]].mean(0)
        kinds, colours = mean((*captions.COUNTS, "both", "number", "word")), mean(pictures.COLOURS)
        self.assertTrue(((said[:, 0] - kinds).norm(dim=-1) < (said[:, 0] - colours).norm(dim=-1)).all())
        self.assertTrue(((said[:, 1] - colours).norm(dim=-1) < (said[:, 1] - kinds).norm(dim=-1)).all())
        self.assertEqual({words[number] for number in torch.cdist(said[:, captions.USED + 1], embeddings).argmin(-1)}, {captions.NOTHING})

    def test_noise_comes_to_the_rows_of_pictures_and_to_nothing_else(self):
        record = {"messages": [{"role": "user", "content": "What is this?", "picture": captions.rows(scenes(1, "places")[0])}, {"role": "assistant", "content": "A red star."}]}
        tokenizer = gguf.restore(MODEL)[2]
        ids, _ = chat.encode(tokenizer, record)
        nothing = torch.tensor([ids + ids, ids + ids]) == tokenizer.id[captions.NOTHING]
        inside = captions.inside(nothing)
        last = len(ids) - 1 - ids[::-1].index(tokenizer.id[captions.NOTHING])
        wanted = [last - captions.ROWS < i <= last for i in range(len(ids))] * 2
        self.assertEqual(inside.tolist(), [wanted, wanted])
        self.assertFalse(captions.inside(nothing[:, :captions.ROWS // 2]).any())

    @unittest.skipUnless(os.path.exists(SERVICE), "a checkout that is not built")
    def test_the_service_computes_of_the_file_what_training_computed(self):
        torch.manual_seed(2)
        tower = Tower(SMALL)
        for layer in tower.layers:
            for linear in (layer.out, layer.down):
                torch.nn.init.normal_(linear.weight, 0, 0.1)
                torch.nn.init.normal_(linear.bias, 0, 0.1)
        projector = Projector(SMALL, 192)
        scene = scenes(1, "places")[0]
        with tempfile.TemporaryDirectory() as folder:
            vision, image = os.path.join(folder, "mmproj.gguf"), os.path.join(folder, "a.png")
            gguf.export_tower(vision, tower, projector, "a tower", "f16")
            with open(image, "wb") as file:
                file.write(measure.png(pictures.draw(scene, 144)))
            shown = subprocess.run(["node", SERVICE, "debug", "vision", "--model", MODEL, "--vision", vision, "--prompt", "<__media__>", "--image", image, "--exact"], capture_output=True, text=True, check=True).stdout
        piece = next(piece for piece in json.loads(shown)["sequence"] if "embeddings" in piece)
        computed = np.frombuffer(base64.b64decode(piece["embeddings"]), "<f4").reshape(-1, 192)
        with torch.no_grad():
            wanted = projector(tower(torch.from_numpy(pictures.sample(scene, 48, 144))[None]))[0].numpy()
        self.assertLess(np.abs(computed - wanted).max(), 0.01 * wanted.std())


if __name__ == "__main__":
    unittest.main()
