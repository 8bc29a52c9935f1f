"""Trains one model on packed rows and keeps a checkpoint to resume from. CPU (bf16 autocast) or one CUDA GPU."""
import math
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

import init
from model import Llama, Shape


class Muon(torch.optim.Optimizer):
    """Momentum whose step is made orthogonal (Newton-Schulz): for the matrices inside the blocks. Needs far fewer tokens than Adam."""

    def __init__(self, parameters, lr, momentum=0.95, weight_decay=0.01):
        super().__init__(parameters, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            alike = {}   # matrices of one shape are made orthogonal together
            for p in group["params"]:
                moment = self.state[p].setdefault("moment", torch.zeros_like(p))
                moment.lerp_(p.grad, 1 - group["momentum"])
                step = p.grad.lerp(moment, group["momentum"])
                tall = p.shape[0] > p.shape[1]
                alike.setdefault((min(p.shape), max(p.shape)), []).append((p, step.T if tall else step, tall))
            for members in alike.values():
                steps = orthogonal(torch.stack([step for _, step, _ in members]))
                for (p, _, tall), step in zip(members, steps):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(step.T if tall else step, alpha=-group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5)


def orthogonal(g, rounds=5):
    """The nearest orthogonal matrices, roughly: singular values land between 0.7 and 1.2."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(rounds):
        y = x @ x.mT
        x = a * x + (b * y + c * y @ y) @ x
    return x.to(g.dtype)


class Rows:
    """Batches of about `tokens` tokens, row lengths and rows in an order fixed by the seed; the same step always gets the same rows."""

    def __init__(self, packed, tokens, seed, device):
        self.device, self.seed = device, seed
        self.data = {length: [torch.from_numpy(part.astype(np.int64) if part.dtype != bool else part) for part in parts] for length, parts in packed.items()}
        self.size = {length: max(1, tokens // length) for length in packed}
        self.epoch, self.order = -1, []

    def batch(self, step):
        per_epoch = sum(-(-len(parts[0]) // self.size[length]) for length, parts in self.data.items())
        if step // per_epoch != self.epoch:
            self.epoch = step // per_epoch
            rng = np.random.default_rng([self.seed, self.epoch])
            self.order = [(length, pick) for length, parts in self.data.items() for pick in np.array_split(rng.permutation(len(parts[0])), -(-len(parts[0]) // self.size[length]))]
            rng.shuffle(self.order)
        length, pick = self.order[step % per_epoch]
        return [part[torch.from_numpy(pick)].to(self.device, non_blocking=True) for part in self.data[length]]


def loss_of(model, hidden_of, batch, prompt_share, generator):
    """Mean loss where the assistant speaks, and lightly on a sample of the rest, where the prompt teaches the language."""
    tokens, position, document, said = batch
    hidden = hidden_of(tokens, position, document)[:, :-1].flatten(0, 1)
    target = tokens[:, 1:].flatten()
    inside = ((document[:, 1:] == document[:, :-1]) & (document[:, 1:] > 0)).flatten()
    spoken = inside & said[:, 1:].flatten()
    sampled = inside & ~spoken & (torch.rand(inside.shape, generator=generator).to(inside.device) < prompt_share)
    pick = (spoken | sampled).nonzero().flatten()
    losses = F.cross_entropy(model.logits(hidden[pick]).float(), target[pick], reduction="none")
    weight = torch.where(spoken[pick], 1.0, 0.3)
    with torch.no_grad():
        answer = losses[spoken[pick]].mean()
    return (losses * weight).sum() / weight.sum(), answer


def rate(done, step, floor=0.02):
    """A short rise by steps, then a cosine to nearly zero by the share of the time that is over."""
    return min(1, (step + 1) / 50) * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * min(1, done))))


def together(parameters, done, workers):
    """The mean over the workers of the gradients and of how much is done, so that all go on alike."""
    flat = torch.cat([p.grad.flatten() for p in parameters] + [torch.tensor([done])])
    dist.all_reduce(flat)
    flat /= workers
    at = 0
    for p in parameters:
        p.grad.copy_(flat[at:at + p.numel()].view_as(p))
        at += p.numel()
    return flat[-1].item()


def train(folder, shape, packed, minutes, tokens, seed, lr=0.02, adam_lr=4e-3, prompt_share=0.25, start=None, say=print, stems=None, worker=0, workers=1):
    """Trains for so many minutes in all, counted over restarts; returns the model. `start`: state of a shallower model to grow from, or of the same one.
    `workers`: processes that each read their part of every batch, when a process group of that size was made."""
    os.makedirs(folder, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    say = say if worker == 0 else lambda line: None
    torch.manual_seed(seed)
    model = Llama(Shape(**shape))
    init.initialize(model, seed, stems)
    if start is not None:
        init.grow(model, start)
    model.to(device)
    matrices = [p for name, p in model.named_parameters() if p.dim() == 2 and name.startswith("blocks.")]
    others = [p for name, p in model.named_parameters() if p.dim() != 2 or not name.startswith("blocks.")]
    optimizers = [(Muon(matrices, lr), lr), (torch.optim.AdamW(others, adam_lr, betas=(0.9, 0.95), weight_decay=0.0), adam_lr)]
    path, step, spent = os.path.join(folder, "checkpoint.pt"), 0, 0.0
    if os.path.exists(path):
        stored = torch.load(path, map_location=device, weights_only=True)
        model.load_state_dict(stored["model"])
        for (optimizer, _), state in zip(optimizers, stored["optimizers"]):
            optimizer.load_state_dict(state)
        step, spent = stored["step"], stored["spent"]
    say(f"{device}: {sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters, {sum(int((parts[2] > 0).sum()) for parts in packed.values()) / 1e6:.2f}M tokens, from step {step}")
    rows, hidden_of = Rows(packed, tokens, seed, device), torch.compile(model, dynamic=True) if device == "cuda" else model
    begin, shown, seen, smooth = time.time(), time.time(), 0, None

    def save():
        if worker:
            return
        state = {"model": model.state_dict(), "optimizers": [optimizer.state_dict() for optimizer, _ in optimizers], "step": step, "spent": spent + time.time() - begin}
        torch.save(state, path + ".new")
        os.replace(path + ".new", path)

    saved = time.time()
    done = spent / (60 * minutes)
    while done < 1:
        for optimizer, peak in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = peak * rate(done, step)
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        batch = [part[worker::workers] for part in rows.batch(step)]
        with torch.autocast(device, dtype=torch.bfloat16):
            loss, answer = loss_of(model, hidden_of, batch, prompt_share, generator)
        loss.backward()
        done = (spent + time.time() - begin) / (60 * minutes)
        if workers > 1:
            done = together([*matrices, *others], done, workers)
        nn.utils.clip_grad_norm_(others, 1.0)
        for optimizer, _ in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        step += 1
        seen += batch[0].numel() * workers
        if step % 25 == 0:
            smooth = answer.item() if smooth is None else 0.8 * smooth + 0.2 * answer.item()
            say(f"step {step} {100 * done:.1f}% loss {loss.item():.3f} answers {smooth:.3f} {seen / (time.time() - shown):.0f} tokens/s")
            shown, seen = time.time(), 0
        if time.time() - saved > 120:
            save()
            saved = time.time()
    save()
    return model
