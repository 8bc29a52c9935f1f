"""Trains one model, leg by leg, on packed rows, and writes checkpoints from which to resume. Runs on CPUs or one CUDA
GPU; uses bf16 if the machine supports it natively."""
import os
import signal
import threading
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

import init
from model import Llama, Shape


def halves(device):
    """Whether bf16 is worthwhile: emulated bf16 takes four times as long as fp32."""
    if device != "cpu":
        return True
    able = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return bool(able.get("avx512_bf16") or able.get("amx_bf16"))


class Muon(torch.optim.Optimizer):
    """Momentum with orthogonalized steps (Newton-Schulz), for the matrices inside the blocks. It needs far fewer
    tokens than Adam. If there are several workers, each orthogonalizes part of the steps."""

    def __init__(self, parameters, lr, momentum=0.95, weight_decay=0.01, worker=0, workers=1):
        super().__init__(parameters, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))
        self.worker, self.workers = worker, workers

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            alike = {}   # matrices of the same shape are orthogonalized together
            for p in group["params"]:
                moment = self.state[p].setdefault("moment", torch.zeros_like(p))
                moment.lerp_(p.grad, 1 - group["momentum"])
                step = p.grad.lerp(moment, group["momentum"])
                tall = p.shape[0] > p.shape[1]
                alike.setdefault((min(p.shape), max(p.shape)), []).append((p, step.T if tall else step, tall))
            for members in alike.values():
                steps = torch.zeros(len(members), *members[0][1].shape, device=members[0][1].device)
                mine = slice(self.worker, None, self.workers)
                if members[mine]:
                    steps[mine] = orthogonal(torch.stack([step for _, step, _ in members[mine]]))
                if self.workers > 1:
                    dist.all_reduce(steps)
                for (p, _, tall), step in zip(members, steps):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(step.T if tall else step, alpha=-group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5)


def orthogonal(g, rounds=5):
    """The nearest orthogonal matrices, approximately: singular values end up between 0.7 and 1.2."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16() if halves(g.device.type) else g
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(rounds):
        y = x @ x.mT
        x = a * x + (b * y + c * y @ y) @ x
    return x.to(g.dtype)


class Rows:
    """Batches of about `tokens` tokens, with row lengths and rows in an order determined by the seed. Each row is used
    once. The same step always gets the same rows."""

    def __init__(self, packed, tokens, seed, device):
        self.device, self.packed = device, packed
        rng = np.random.default_rng(seed)
        self.order = [(length, pick) for length, parts in packed.items() for pick in np.array_split(rng.permutation(len(parts[0])), -(-len(parts[0]) * length // tokens))]
        rng.shuffle(self.order)

    def batch(self, step):
        length, pick = self.order[step]
        return [torch.from_numpy(part[pick] if part.dtype == bool else part[pick].astype(np.int64)).to(self.device, non_blocking=True) for part in self.packed[length]]


def loss_of(model, hidden_of, batch, prompt_share, generator):
    """Mean loss over the assistant's tokens and, with a lower weight, over a sample of the other tokens, from which
    the model learns the language."""
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
        answer = losses[spoken[pick]].sum() / spoken[pick].sum().clamp(min=1)
    return (losses * weight).sum() / weight.sum().clamp(min=1), answer


MICRO = 4096   # tokens that a CPU processes at a time


def pieces(batch, tokens):
    """Splits a batch into parts of about this many tokens, each with its share of the batch."""
    rows = len(batch[0])
    for pick in torch.arange(rows).tensor_split(-(-batch[0].numel() // tokens)):
        yield [part[pick] for part in batch], len(pick) / rows


FLAT = 0.8


def rate(done, step, flat=FLAT):
    """The learning rate: a short warm-up in steps, constant for four fifths of the tokens (`flat`), then decaying
    linearly to nearly zero."""
    return min(1, (step + 1) / 100) * max(0.005, min(1, (1 - done) / (1 - flat)))


def together(parameters, workers, ends=False):
    """Replaces the gradients with their mean over the workers, so that all continue with the same weights. Returns
    whether one of them wants to end."""
    flat = torch.cat([*(p.grad.flatten() for p in parameters), parameters[0].new_full((1,), float(ends))])
    dist.all_reduce(flat)
    ends = bool(flat[-1])
    flat /= workers
    at = 0
    for p in parameters:
        p.grad.copy_(flat[at:at + p.numel()].view_as(p))
        at += p.numel()
    return ends


def leave():
    """Ends a worker once all have reached the end: if one exited while others were waiting for it, they would fail."""
    dist.barrier()
    dist.destroy_process_group()


def load(path):
    return torch.load(path, map_location="cpu", weights_only=True)


def train(folder, shape, packed, leg, legs, tokens, seed, lr=0.01, adam_lr=2e-3, prompt_share=0.25, start=None, say=print, stems=None, worker=0, workers=1, every=120, stop=None, flat=FLAT, blur=None):
    """Trains one leg of a run (or what remains of it after the checkpoint in `folder`) in batches of this many tokens,
    and returns the model. `start`: state of a shallower model to grow from. `workers`: number of processes that
    each process their part of every batch, if a process group of that size exists. `every`: seconds between
    checkpoints. `stop`: exit after this many steps, as if killed. `flat`: see rate. `blur`: see Llama.blurred. On
    SIGTERM, the current step is completed, a checkpoint is written, and the process exits (SystemExit)."""
    os.makedirs(folder, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    say = say if worker == 0 else lambda line: None
    asked = []
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    torch.manual_seed(seed)
    torch.set_flush_denormal(True)
    model = Llama(Shape(**shape))
    model.blur = blur
    init.initialize(model, seed, stems)
    path, step, steps = os.path.join(folder, "checkpoint.pt"), 0, 0
    stored = load(path) if os.path.exists(path) else None
    if stored is None and start is not None:
        init.grow(model, start)
    model.to(device)
    matrices = [p for name, p in model.named_parameters() if p.dim() == 2 and name.startswith("blocks.")]
    others = [p for name, p in model.named_parameters() if p.dim() != 2 or not name.startswith("blocks.")]
    optimizers = [(Muon(matrices, lr, worker=worker, workers=workers), lr), (torch.optim.AdamW(others, adam_lr, betas=(0.9, 0.95), weight_decay=0.0), adam_lr)]
    if stored is not None:
        model.load_state_dict(stored["model"])
        for (optimizer, _), state in zip(optimizers, stored["optimizers"]):
            optimizer.load_state_dict(state)
        steps = stored["steps"]
        if stored["leg"] > leg:
            return model
        step = stored["step"] if stored["leg"] == leg else 0
    rows, hidden_of = Rows(packed, tokens, [seed, leg], device), torch.compile(model, dynamic=True) if device == "cuda" else model
    say(f"{device}: {sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters, leg {leg + 1} of {legs}, {sum(int((parts[2] > 0).sum()) for parts in packed.values()) / 1e6:.2f}M tokens, from step {step} of {len(rows.order)}")
    shown, saved, seen, smooth = time.time(), time.time(), 0, None

    def save(at):
        if worker:
            return
        state = {"model": model.state_dict(), "optimizers": [optimizer.state_dict() for optimizer, _ in optimizers], "leg": at[0], "step": at[1], "steps": steps}
        torch.save(state, path + ".new")
        os.replace(path + ".new", path)

    while step < len(rows.order):
        done = (leg + step / len(rows.order)) / legs
        for optimizer, peak in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = peak * rate(done, steps, flat)
        generator = torch.Generator().manual_seed((seed * 1009 + leg) * 1_000_003 + step)
        batch = [part[worker::workers] if len(part) > worker else part for part in rows.batch(step)]
        for piece, share in pieces(batch, MICRO if device == "cpu" else tokens):
            with torch.autocast(device, dtype=torch.bfloat16, enabled=halves(device)):
                loss, answer = loss_of(model, hidden_of, piece, prompt_share, generator)
            (loss * share).backward()
        ends = bool(asked)
        if workers > 1:
            ends = together([*matrices, *others], workers, ends)
        nn.utils.clip_grad_norm_(others, 1.0)
        for optimizer, _ in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        step += 1
        steps += 1
        seen += batch[0].numel() * workers
        if step % 25 == 0:
            smooth = answer.item() if smooth is None else 0.8 * smooth + 0.2 * answer.item()
            say(f"leg {leg + 1} step {step} {100 * done:.2f}% loss {loss.item():.3f} answers {smooth:.3f} {seen / (time.time() - shown):.0f} tokens/s")
            shown, seen = time.time(), 0
        if time.time() - saved > every:
            save((leg, step))
            saved = time.time()
        if ends:
            save((leg, step))
            say(f"asked to end: left at leg {leg + 1} step {step}")
            raise SystemExit(143)
        if stop is not None and steps >= stop:
            save((leg, step))
            return model
    save((leg + 1, 0))
    return model
