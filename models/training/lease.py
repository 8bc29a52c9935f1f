"""Trains all three models concurrently on one GPU that is available only for minutes, so the schedule is based on
time.

  lease.py --corpus DIR --work DIR --seconds 220 [--plan lease] [--models NAME ...] [--makers 12]

Processes on the machine's cores generate records without end (no row is used twice as long as they keep up). One
process per model trains on the rows that they write to DIR/NAME/packed. The learning rate of a model is constant for
the first part of its time and then decays linearly to nearly zero. At the end, DIR/NAME/q8_0.gguf and f16.gguf are
written. There are no checkpoints: to train a model further, start from these files (make.py --start NAME=FILE)."""
import argparse
import glob
import multiprocessing
import os
import queue
import random
import signal
import threading
import time

import numpy as np

import bpe
import chat
import data
import gguf
import plans
from vision import captions

LENGTH = 512       # of every row: a single shape, so that everything is compiled only once
LEG = 700_000      # tokens per row file
FILES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def say(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


def records(corpus, model, name, seed, late):
    """Endless (part, record) pairs. `late` returns whether the later mix is due."""
    streams = [data.leg(corpus, model | {"seed": f"{model['seed']} {seed}", "focus": focus}, name, number, mix)
               for number, (mix, focus) in enumerate(((model["mix"], model["focus"]), (model["late_mix"], model["late_focus"])))]
    given = [next(stream) for stream in streams]
    while True:
        which = int(late())
        part, record = given[which]
        said = yield part, record
        given[which] = streams[which].send(said)


def make(number, corpus, work, turns, tokenizer, seed, began, enough):
    """Writes row files for the models in `turns`, one after another, each until its time is up."""
    os.nice(10)
    for name, model in turns:
        folder = os.path.join(work, name, "packed")
        os.makedirs(folder, exist_ok=True)
        end = model["seconds"]
        due = lambda: began.value and time.time() - began.value > end * model["flat"]
        source = records(corpus, model, name, f"{seed} {number}", due)
        part, record = next(source)
        leg, size = 0, LEG // 3   # small at first, so that the first file is ready soon
        while not (began.value and time.time() - began.value > end - 3):
            if len(glob.glob(os.path.join(folder, "*.npz"))) > enough:
                time.sleep(0.3)
                continue
            rows, total, r = [], 0, np.random.default_rng([number, leg])
            draw = random.Random(f"{seed} {number} {leg}")
            while total < size:
                ids, said = chat.encode(tokenizer, data.think_or_not(record, draw, model["thinking"]))
                fits = 4 < len(ids) <= LENGTH
                if fits:
                    rows.append((np.array(ids, np.uint16), np.array(said, bool)))
                    total += len(ids)
                part, record = source.send(sum(said) if fits else 0)
            packed = data.pack(rows, (LENGTH,), tokenizer.id["<|endoftext|>"], int(r.integers(1 << 30)))
            data.save(os.path.join(folder, f"{leg:04d}-{number:02d}.npz"), packed)
            leg, size = leg + 1, LEG


class Supply:
    """Batches of rows, [4][rows][LENGTH] (tokens, positions, documents, assistant's tokens). As long as new rows keep
    arriving, each is used once; otherwise, earlier rows are used again. A separate thread reads files ahead."""

    def __init__(self, folder, size, seed):
        self.folder, self.size, self.rng = folder, size, np.random.default_rng(seed)
        self.files, self.order, self.current, self.new, self.again = [], None, None, 0, 0
        self.ahead = queue.Queue(4)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while True:
            found = sorted(glob.glob(os.path.join(self.folder, "*.npz")))
            for path in found:
                rows = np.stack([part.astype(np.int16) for part in data.load(path)[LENGTH]])
                os.remove(path)
                self.ahead.put(rows)
            if not found:
                time.sleep(0.05)

    def batch(self):
        while self.order is None or len(self.order) < self.size:
            try:
                self.current = self.ahead.get(block=not self.files)
            except queue.Empty:
                self.again += self.size
                rows = self.files[self.rng.integers(len(self.files))]
                return rows[:, self.rng.integers(0, rows.shape[1], self.size)]
            if self.current.shape[1] >= self.size:
                self.files.append(self.current)
                self.order = self.rng.permutation(self.current.shape[1])
        pick, self.order = self.order[:self.size], self.order[self.size:]
        self.new += self.size
        return self.current[:, pick]


class Muon:
    """train.Muon with few kernel launches: matrices of the same shape are stacked, and each operation processes the
    whole stack."""

    def __init__(self, parameters, momentum=0.95, weight_decay=0.01):
        import torch
        alike = {}
        for p in parameters:
            alike.setdefault(tuple(p.shape), []).append(p)
        self.groups = [(members, torch.zeros(len(members), *shape, device=members[0].device)) for shape, members in alike.items()]
        self.momentum, self.weight_decay = momentum, weight_decay

    def step(self, lr):
        import torch

        import train
        with torch.no_grad():
            for members, moment in self.groups:
                rows, cols = members[0].shape
                grad = torch.stack([p.grad for p in members])
                moment.lerp_(grad, 1 - self.momentum)
                step = grad.lerp(moment, self.momentum)
                step = train.orthogonal(step.mT.contiguous()).mT if rows > cols else train.orthogonal(step)
                torch._foreach_mul_(members, 1 - lr * self.weight_decay)
                torch._foreach_add_(members, list(step.contiguous().unbind()), alpha=-lr * max(1, rows / cols) ** 0.5)


def fit(name, model, work, tokenizer, began, ready, batch_tokens, prompt_share, steps):
    """Trains one model until its time is up, and writes its files."""
    import torch
    import torch.nn.functional as F

    import init
    import train
    from model import Llama, Shape
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(1)
    torch.manual_seed(model["seed"])
    torch.set_float32_matmul_precision("high")
    net = Llama(Shape(**model["shape"], vocab=len(tokenizer.tokens)))
    init.initialize(net, model["seed"], tokenizer.stems())
    net.to(device)
    net.blur = (tokenizer.id[captions.NOTHING], plans.PLANS["line-on"]["blur"]) if "pictures" in model["mix"] else None
    if device == "cuda":
        torch._dynamo.config.suppress_errors = True   # without compilation, training is slower but still worthwhile
        # Compiled block by block, because all blocks share the compiled code.
        for block in net.blocks:
            block.compile(dynamic=False)
    matrices = [p for key, p in net.named_parameters() if p.dim() == 2 and key.startswith("blocks.")]
    others = [p for key, p in net.named_parameters() if p.dim() != 2 or not key.startswith("blocks.")]
    muon, adam = Muon(matrices), torch.optim.AdamW(others, model["adam_lr"], betas=(0.9, 0.95), weight_decay=0.0, fused=device == "cuda")
    supply = Supply(os.path.join(work, name, "packed"), max(1, batch_tokens // LENGTH), model["seed"])

    def loss_of(hidden, tokens, document, said):
        target = tokens[:, 1:].flatten()
        inside = ((document[:, 1:] == document[:, :-1]) & (document[:, 1:] > 0)).flatten()
        spoken = inside & (said[:, 1:].flatten() > 0)
        weight = torch.where(spoken, 1.0, torch.where(inside, 0.3 * prompt_share, 0.0))
        losses = F.cross_entropy(net.logits(hidden[:, :-1].flatten(0, 1)).float(), target, reduction="none")
        with torch.no_grad():
            answer = (losses * spoken).sum() / spoken.sum().clamp(min=1)
        return (losses * weight).sum() / weight.sum().clamp(min=1), answer

    scored = torch.compile(loss_of, dynamic=False) if device == "cuda" else loss_of
    net.train()

    def read(lr_share):
        tokens, position, document, said = torch.from_numpy(supply.batch()).to(device).long()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=train.halves(device)):
            loss, answer = scored(net(tokens, position, document), tokens, document, said)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(others, 1.0)
        for group in adam.param_groups:
            group["lr"] = model["adam_lr"] * lr_share
        muon.step(model["lr"] * lr_share)
        adam.step()
        for p in (*matrices, *others):
            p.grad = None
        return loss, answer

    for number in range(3):   # compile before the clock starts
        read(0.0)
    if device == "cuda":
        torch.cuda.synchronize()
    with ready.get_lock():
        ready.value -= 1
    say(name, f"{device}: {sum(p.numel() for p in net.parameters()) / 1e6:.2f}M parameters, compiled")
    while ready.value > 0:
        time.sleep(0.05)
    if not began.value:
        began.value = time.time()
    step, shown, at = 0, time.time(), 0
    while True:
        done = (time.time() - began.value) / model["seconds"]
        if done >= 1 or (steps and step >= steps):
            break
        share = min(1, (step + 1) / 150) * max(0.003, min(1, (1 - done) / (1 - model["flat"])))
        loss, answer = read(share)
        step += 1
        if step % 100 == 0:
            value = answer.item()   # waits for the device, so that the clock measures completed work
            if step % 500 == 0 or steps:
                say(name, f"step {step} {100 * done:.0f}% answers {value:.3f} {(step - at) * batch_tokens / (time.time() - shown) / 1e3:.0f}k tokens/s, rows new {supply.new} again {supply.again}")
                shown, at = time.time(), step
    say(name, f"{step} steps, {step * batch_tokens / 1e6:.1f}M tokens in {time.time() - began.value:.0f} s, rows new {supply.new} again {supply.again}")
    plain = Llama(Shape(**model["shape"], vocab=len(tokenizer.tokens)))
    plain.load_state_dict({key: value.float().cpu() for key, value in net.state_dict().items()})
    for kind in ("q8_0", "f16"):
        path = os.path.join(work, name, f"{kind}.gguf")
        gguf.export(path + ".new", plain, tokenizer, name, kind)
        os.replace(path + ".new", path)
    say(name, "written")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--seconds", type=float, required=True, help="seconds of training, after compilation")
    parser.add_argument("--plan", default="lease", choices=plans.LEASES)
    parser.add_argument("--models", nargs="+", choices=plans.MODELS, default=plans.MODELS)
    parser.add_argument("--makers", type=int, default=12)
    parser.add_argument("--steps", type=int, default=0, help="end after this many steps, to test the setup")
    args = parser.parse_args()
    plan = plans.LEASES[args.plan]
    tokenizer = gguf.restore(os.path.join(FILES, plan["vocabulary"]))[2]
    models = {name: plan["models"][name] | {"seconds": args.seconds * plan["models"][name]["time"]} for name in args.models}
    context = multiprocessing.get_context("spawn")
    began, ready = context.Value("d", 0.0), context.Value("i", len(models))
    # Processes are divided among the models by their time. A process whose model has finished works for the one with
    # the most time left.
    longest = max(models, key=lambda name: models[name]["seconds"])
    shares = [name for name in models for _ in range(round(args.makers * models[name]["makers"] / sum(m["makers"] for m in models.values())))]
    makers = [context.Process(target=make, args=(number, args.corpus, args.work, [(one, models[one]) for one in dict.fromkeys((name, longest))], tokenizer, plan["seed"], began, plan["enough"]), daemon=True)
              for number, name in enumerate(shares)]
    trainers = [context.Process(target=fit, args=(name, model, args.work, tokenizer, began, ready, plan["batch"], plan["prompt_share"], args.steps)) for name, model in models.items()]
    for process in (*trainers, *makers):
        process.start()
    signal.signal(signal.SIGTERM, lambda number, frame: [process.terminate() for process in (*trainers, *makers)])
    gone = set()
    while any(trainer.is_alive() for trainer in trainers):
        time.sleep(0.2)
        for trainer in trainers:   # do not let the rest wait for a process that failed before it was ready
            if trainer.exitcode and trainer.name not in gone and not began.value:
                gone.add(trainer.name)
                with ready.get_lock():
                    ready.value -= 1
    for maker in makers:
        maker.terminate()
    raise SystemExit(max((trainer.exitcode or 0) for trainer in trainers))


if __name__ == "__main__":
    main()
