"""Trains a vision encoder to name what an image shows: each row predicts one of the possible words. Writes checkpoints
and continues from them."""
import dataclasses
import multiprocessing
import os
import random
import time

import numpy as np
import torch
import torch.nn.functional as F

import gguf
import train
from . import captions, pictures
from .tower import Projector, Tower, TowerShape

SOURCES = (48, 48, 64, 96, 128, 160, 192, 256)   # side lengths of incoming images


def vocabulary():
    """All words that rows may contain."""
    digits = [str(i) for i in range(10)]
    words = [captions.NOTHING, *(" " + w for w in (*captions.COUNTS, "both", "number", "word", *pictures.COLOURS)), *captions.RELATIONS.values(), *digits]
    for parts in captions.PIECES.values():
        words += [" " + parts[0], *parts[1:]]
    return sorted({*words, *(" " + w for w in pictures.WORDS)})


def batch(seed, count, kinds=None):
    """Images as the server would pass them to the encoder, and the indices of the words in their rows."""
    r, index = random.Random(str(seed)), {word: i for i, word in enumerate(vocabulary())}
    scenes = [pictures.scene(r, kinds and r.choice(kinds)) for _ in range(count)]
    shown = np.stack([pictures.sample(scene, 48, r.choice(SOURCES)) for scene in scenes])
    return shown, np.array([[index[word] for word in captions.rows(scene)] for scene in scenes]), [pictures.KINDS.index(scene.kind) for scene in scenes]


# How many images of each kind are used: more of the kinds that are harder to recognize.
READ = ("shape", *("count",) * 5, "places", "places", "number", "number", "word", "word")


def _draw(queue, seed, size, step):
    while True:
        queue.put(batch((seed, step), size, READ))
        step += 1


def right(said, rows, kinds):
    """The share of images with all rows correct, by kind, and the share of correct rows."""
    whole = (said == rows)[:, :captions.USED].all(1)
    kinds = torch.as_tensor(kinds)
    return {name: round(100 * whole[kinds == i].float().mean().item(), 1) for i, name in enumerate(pictures.KINDS)}


def grown(path, model, layers):
    """(shape, Tower, head) of a vision file written by this code for the text model in `model`, to continue training.
    Layers added at the end initially have no effect. The head names the word whose embedding is nearest to the
    output of the file's projector."""
    had, state, projector = gguf.restore_tower(path)
    _, text, tokenizer = gguf.restore(model)
    embeddings = words_of(text["embedding.weight"], tokenizer)
    shape = dataclasses.replace(had, layers=layers)
    tower, head = Tower(shape), Projector(shape, len(embeddings))
    tower.load_state_dict(tower.state_dict() | state)
    sharp = 8 / embeddings.square().sum(-1).mean()
    head.load_state_dict({"first.weight": projector["first.weight"], "first.bias": projector["first.bias"], "last.weight": 2 * sharp * embeddings @ projector["last.weight"],
                          "last.bias": sharp * (2 * embeddings @ projector["last.bias"] - embeddings.square().sum(-1))})
    return shape, tower, head


def fit(work, minutes, size=96, lr=0.02, adam_lr=2e-3, flat=0.5, seed=1, shape=TowerShape(), say=print, steps=None, every=100, threads=1, start=None):
    """`start`: the initial (shape, Tower, head), see grown."""
    words = vocabulary()
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    shape, tower, head = start or (shape, Tower(shape), Projector(shape, len(words)))
    every_parameter = [*tower.named_parameters(), *head.named_parameters()]
    matrices = [p for name, p in every_parameter if p.dim() == 2 and name.startswith("layers.")]
    others = [p for name, p in every_parameter if not (p.dim() == 2 and name.startswith("layers."))]
    optimizers = [(train.Muon(matrices, lr), lr), (torch.optim.AdamW(others, adam_lr, betas=(0.9, 0.95), weight_decay=0.0), adam_lr)]
    path, spent, step = os.path.join(work, "tower.pt"), 0.0, 0
    if os.path.exists(path):
        stored = train.load(path)
        tower.load_state_dict(stored["tower"])
        head.load_state_dict(stored["head"])
        for (optimizer, _), state in zip(optimizers, stored["optimizers"]):
            optimizer.load_state_dict(state)
        spent, step = stored["spent"], stored["step"]
    held = batch("held out", 500)
    say(f"{sum(p.numel() for _, p in every_parameter) / 1e6:.2f}M parameters, from step {step}")

    def save():
        torch.save({"shape": dataclasses.asdict(shape), "tower": tower.state_dict(), "head": head.state_dict(), "optimizers": [o.state_dict() for o, _ in optimizers], "spent": spent, "step": step}, path + ".new")
        os.replace(path + ".new", path)

    forked = multiprocessing.get_context("fork")
    queue = forked.Queue(8)
    drawer = forked.Process(target=_draw, args=(queue, seed, size, step), daemon=True)
    drawer.start()
    last = time.process_time()
    try:
        while (done := spent / (60 * minutes) if steps is None else step / steps) < 1:
            shown, rows, _ = queue.get()
            for optimizer, peak in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = peak * train.rate(done, step, flat)
            logits = head(tower(torch.from_numpy(shown)))
            target = torch.from_numpy(rows)
            loss = F.cross_entropy(logits[:, :captions.USED].flatten(0, 1), target[:, :captions.USED].flatten()) + 0.1 * F.cross_entropy(logits[:, captions.USED:].flatten(0, 1), target[:, captions.USED:].flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(others, 1.0)
            for optimizer, _ in optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            step += 1
            spent, last = spent + time.process_time() - last, time.process_time()
            if step % every == 0:
                with torch.no_grad():
                    said = head(tower(torch.from_numpy(held[0]))).argmax(-1)
                say(f"step {step} {spent / 60:.1f} min loss {loss.item():.3f} whole pictures right {right(said, torch.from_numpy(held[1]), held[2])}")
                save()
    finally:
        drawer.kill()
    save()
    return tower, head


def features(tower, pictures_read=10_000, seed=2):
    """(features, rows) of this many images: a trained encoder's output, computed once for all language models and used
    many times."""
    used, seen, rows = captions.USED + 2, [], []   # rows that express nothing are all alike
    for number in range(-(-pictures_read // 256)):
        shown, said, _ = batch((seed, "project", number), 256)
        with torch.no_grad():
            seen.append(tower(torch.from_numpy(shown))[:, :used])
        rows.append(torch.from_numpy(said)[:, :used])
    return torch.cat(seen), torch.cat(rows)


def project(tower, head, embeddings, seen, steps=2500, size=64, inner=512, lr=3e-3, seed=2, say=print):
    """The Projector for a language model. Its output rows should equal the `embeddings` [words of vocabulary()][dim]
    of the words that the encoder names. The encoder, and the head that it was trained with, do not change. `seen`:
    features from that encoder. Training starts with the head's first layer and the last layer that fits it best,
    which is already close to the result."""
    torch.manual_seed(seed)
    (features, rows), empty = seen, vocabulary().index(captions.NOTHING)
    weights = torch.where(rows == empty, 0.3, 1.0)
    projector = Projector(dataclasses.replace(tower.shape, inner=inner), embeddings.shape[1])
    with torch.no_grad():
        projector.first.weight[:head.first.out_features] = head.first.weight
        projector.first.bias[:head.first.out_features] = head.first.bias
        hidden = F.pad(F.gelu(projector.first(features[:2000].flatten(0, 1)), approximate="tanh"), (0, 1), value=1.0)
        weighed = (hidden * weights[:2000].flatten()[:, None]).T
        best = torch.linalg.solve(weighed @ hidden + 1e-5 * len(hidden) * torch.eye(inner + 1), weighed @ embeddings[rows[:2000].flatten()])
        projector.last.weight.copy_(best[:-1].T)
        projector.last.bias.copy_(best[-1])
    optimizer, unit = torch.optim.AdamW(projector.parameters(), lr, betas=(0.9, 0.95), weight_decay=0.0), embeddings.square().mean()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1, (step + 1) / 30) * (1 - step / steps)
        pick = torch.randint(len(features), (size,))
        off = (projector(features[pick]) - embeddings[rows[pick]]).square().mean(-1) / unit
        optimizer.zero_grad()
        (off * weights[pick]).mean().backward()
        optimizer.step()
        if (step + 1) % 500 == 0:
            say(f"projector: step {step + 1} of {steps}, off by {off[rows[pick] != empty].mean().item():.4f} of what the embedding of a word holds")
    with torch.no_grad():
        nearest = torch.cdist(projector(features[:1000, :captions.USED]).flatten(0, 1), embeddings).argmin(-1).view(-1, captions.USED)
    say(f"projector: all rows nearest to the right word in {100 * (nearest == rows[:1000, :captions.USED]).all(1).float().mean().item():.1f} percent of pictures")
    return projector


def words_of(embedding, tokenizer):
    """The rows of a model's embedding table for the words in vocabulary()."""
    ids = []
    for word in vocabulary():
        found = [tokenizer.id[word]] if word == captions.NOTHING else tokenizer.encode(word)
        if len(found) != 1:
            raise ValueError(f"{word!r} is {len(found)} entries of the vocabulary, not one")
        ids += found
    return embedding[ids]
