"""Teaches a tower to say what a picture shows: every row of it one of the words that may stand there. Checkpoints, and goes on from
them."""
import dataclasses
import multiprocessing
import os
import random
import time

import numpy as np
import torch
import torch.nn.functional as F

import train
from . import captions, pictures
from .tower import Projector, Tower, TowerShape

SOURCES = (48, 48, 64, 96, 128, 160, 192, 256)   # sides of pictures as they come


def vocabulary():
    """All words that rows may say."""
    digits = [str(i) for i in range(10)]
    words = [captions.NOTHING, *(" " + w for w in (*captions.COUNTS, "both", "number", "word", *pictures.COLOURS)), *captions.RELATIONS.values(), *digits]
    for parts in captions.PIECES.values():
        words += [" " + parts[0], *parts[1:]]
    return sorted({*words, *(" " + w for w in pictures.WORDS)})


def batch(seed, count, kinds=None):
    """Pictures as the service would show them to the tower, and the numbers of their rows' words."""
    r, index = random.Random(str(seed)), {word: i for i, word in enumerate(vocabulary())}
    scenes = [pictures.scene(r, kinds and r.choice(kinds)) for _ in range(count)]
    shown = np.stack([pictures.sample(scene, 48, r.choice(SOURCES)) for scene in scenes])
    return shown, np.array([[index[word] for word in captions.rows(scene)] for scene in scenes]), [pictures.KINDS.index(scene.kind) for scene in scenes]


def _draw(queue, seed, size, step):
    while True:
        queue.put(batch((seed, step), size))
        step += 1


def right(said, rows, kinds):
    """The share of pictures all of whose rows are right, by kind; and of rows."""
    whole = (said == rows)[:, :captions.USED].all(1)
    kinds = torch.as_tensor(kinds)
    return {name: round(100 * whole[kinds == i].float().mean().item(), 1) for i, name in enumerate(pictures.KINDS)}


def fit(work, minutes, size=96, lr=0.02, adam_lr=2e-3, flat=0.5, seed=1, shape=TowerShape(), say=print, steps=None, every=100, threads=1):
    words = vocabulary()
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    tower, head = Tower(shape), Projector(shape, len(words))
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


def project(tower, embeddings, pictures_read=30_000, size=256, lr=2e-3, seed=2, say=print):
    """The Projector of a language model: its rows are the `embeddings` [words of vocabulary()][dim] of what the tower says. Of a trained
    tower, which stays as it is."""
    torch.manual_seed(seed)
    projector, steps = Projector(tower.shape, embeddings.shape[1]), max(1, pictures_read // size)
    optimizer = torch.optim.AdamW(projector.parameters(), lr, betas=(0.9, 0.95), weight_decay=0.0)
    unit = embeddings.square().mean()
    for step in range(steps):
        shown, rows, _ = batch((seed, "project", step), size)
        with torch.no_grad():
            features = tower(torch.from_numpy(shown))
        rows = torch.from_numpy(rows)
        for again in range(4):   # what the tower says is dear, the projector cheap
            for group in optimizer.param_groups:
                group["lr"] = lr * min(1, (step + 1) / 10) * (1 - (step + again / 4) / steps)
            said = projector(features)
            off = F.mse_loss(said, embeddings[rows]) / unit
            nearest = F.cross_entropy((said[:, :captions.USED] @ embeddings.T).flatten(0, 1) / unit / embeddings.shape[1] * 8, rows[:, :captions.USED].flatten())
            optimizer.zero_grad(set_to_none=True)
            (off + 0.3 * nearest).backward()
            optimizer.step()
        if (step + 1) % 20 == 0:
            say(f"projector: step {step + 1} of {steps}, off by {off.item():.4f} of what an embedding holds")
    return projector


def words_of(embedding, tokenizer):
    """The rows of a model's table of embeddings that stand for the words of vocabulary()."""
    ids = []
    for word in vocabulary():
        found = [tokenizer.id[word]] if word == captions.NOTHING else tokenizer.encode(word)
        if len(found) != 1:
            raise ValueError(f"{word!r} is {len(found)} entries of the vocabulary, not one")
        ids += found
    return embedding[ids]
