"""From corpus to GGUF, for all three models, with one command; each step keeps its result and is skipped when that exists.

  make.py --corpus DIR --work DIR [--plan cpu|gpu] [--models NAME ...] [--stages STAGE ...]
          [--steps vocabulary pack train export check]

DIR/NAME/q8_0.gguf and f16.gguf are what comes out. Vocabulary and packing need no accelerator: to train on another
machine take WORK along after `--steps vocabulary pack` and go on there; an interrupted training resumes.
"""
import argparse
import json
import math
import os
import random
import time

import bpe
import chat
import data
import records
from plans import MODELS, PLANS

PACKED_LIMIT = 60 << 20   # bytes


def say(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


def mixture(name, seed, stage, corpus, count=None):
    """The records of a stage in random order; `count`: instead of all the made ones."""
    found = list(records.make(stage["made"] if count is None else count, seed, name, stage["focus"]))
    found += data.corpus(corpus, stage["mix"], stage["corpus"], stage["longest"], seed)
    random.Random(seed).shuffle(found)
    return found


def vocabulary(args, plan):
    path = os.path.join(args.work, "tokenizer.json")
    if not os.path.exists(path):
        stages = {name: stage for model in plan["models"].values() for name, stage in model["stages"].items()}
        sample = [record for stage in stages.values() for record in mixture("hal-1.0", 99, stage, args.corpus, min(20_000, stage["made"]))]
        bpe.train((text for record in sample for text, special, _ in chat.pieces(record) if not special), plan["vocab"]).save(path)
        say(f"vocabulary of {plan['vocab']} from {len(sample)} records")
    return bpe.Tokenizer.load(path)


def pack(args, plan, tokenizer, name, stage_name):
    path = os.path.join(args.work, f"{name}-{stage_name}.npz")
    if not os.path.exists(path):
        model = plan["models"][name]
        stage = model["stages"][stage_name]
        rows = data.encode_all(tokenizer, mixture(name, model["seed"], stage, args.corpus), plan["lengths"][-1], stage["thinking"], model["seed"])
        packed = data.pack(rows, plan["lengths"], tokenizer.id["<|endoftext|>"], model["seed"])
        data.save(path, packed)
        fill = {length: f"{(parts[2] > 0).mean():.0%} of {len(parts[0])} rows" for length, parts in sorted(packed.items())}
        say(f"{path}: {len(rows)} records, {fill}, {os.path.getsize(path) / 2 ** 20:.1f} MiB")
        if os.path.getsize(path) > PACKED_LIMIT:
            raise SystemExit(f"{path} is larger than {PACKED_LIMIT >> 20} MiB: take less of the corpus")
    return path


def folder(args, name, stage_name):
    return os.path.join(args.work, name, stage_name)


def fit(args, plan, tokenizer, name, stage_name):
    import torch
    out = folder(args, name, stage_name)
    done = os.path.join(out, "done.json")
    if os.path.exists(done):
        return
    os.makedirs(out, exist_ok=True)
    say(f"{name} {stage_name}")
    if args.workers == 1:
        work(0, args, plan, tokenizer, name, stage_name)
    else:
        torch.multiprocessing.spawn(work, (args, plan, tokenizer, name, stage_name), args.workers)
    with open(done, "w") as file:
        json.dump({"model": name, "stage": stage_name}, file)


def work(worker, args, plan, tokenizer, name, stage_name):
    """The training of a stage, or a worker's part of it."""
    import torch
    import train
    model, out = plan["models"][name], folder(args, name, stage_name)
    stage = model["stages"][stage_name]
    torch.set_num_threads(args.threads or max(1, os.cpu_count() // args.workers))
    if args.workers > 1:
        torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{args.port}", rank=worker, world_size=args.workers)
    start = None
    if stage["start"]:
        start = torch.load(os.path.join(folder(args, *stage["start"]), "checkpoint.pt"), map_location="cpu", weights_only=True)["model"]
    train.train(out, dict(model["shape"], vocab=len(tokenizer.tokens)), data.load(os.path.join(args.work, f"{name}-{stage_name}.npz")), args.minutes or stage["minutes"], plan["batch"],
                model["seed"], stage["lr"], stage["adam_lr"], stage["prompt_share"], start, lambda line: say(name, stage_name, line), tokenizer.stems(), worker, args.workers)


def export(args, plan, tokenizer, name):
    import torch
    import gguf
    from model import Llama, Shape
    model = plan["models"][name]
    trained = Llama(Shape(**model["shape"], vocab=len(tokenizer.tokens)))
    trained.load_state_dict(torch.load(os.path.join(folder(args, name, list(model["stages"])[-1]), "checkpoint.pt"), map_location="cpu", weights_only=True)["model"])
    for kind in ("f16", "q8_0"):
        gguf.export(os.path.join(args.work, name, f"{kind}.gguf"), trained, tokenizer, name, kind)
    say(f"{name}: {sum(p.numel() for p in trained.parameters()) / 1e6:.2f}M parameters written")
    stories = os.path.join(args.corpus, "validation.jsonl.xz")
    if os.path.exists(stories):
        say(f"{name}: held-out stories: perplexity %.1f per token, %.2f bits per byte" % perplexity(trained, tokenizer, stories))


def perplexity(model, tokenizer, path, characters=120_000):
    """Of stories no model was trained on: per token, and as bits per byte, which compare across vocabularies."""
    import lzma
    import torch
    import torch.nn.functional as F
    loss, count, size = 0.0, 0, 0
    for line in lzma.open(path, "rt", encoding="utf-8"):
        record = json.loads(line)
        if record["kind"] != "story" or len(record["messages"]) > 1 or size > characters:
            continue
        text = data.shorten(record["messages"][0]["content"], 1500)
        ids, said = chat.encode(tokenizer, {"messages": [{"role": "assistant", "content": text}]})
        tokens, said = torch.tensor(ids)[None], torch.tensor(said)
        with torch.no_grad():
            hidden = model(tokens, torch.arange(len(ids))[None], torch.ones_like(tokens))[0, :-1]
            loss += F.cross_entropy(model.logits(hidden)[said[1:]], tokens[0, 1:][said[1:]], reduction="sum").item()
        count += int(said.sum())
        size += len(text.encode())
    return math.exp(loss / count), loss / math.log(2) / size


def check(args, tokenizer):
    """Records of every kind as text and tokens, for check.mjs."""
    path, r = os.path.join(args.work, "check.jsonl"), random.Random(1)
    found = list(records.make(3000, 77, "hal-1.0")) + data.corpus(args.corpus, data.MIX, 1_000_000, 3000, 77)
    with open(path, "w") as file:
        for record in found:
            if record["messages"][0]["role"] == "assistant":
                continue
            data.think_or_not(record, r, 0.5)
            text = "".join(piece for piece, _, _ in chat.pieces(record))
            file.write(json.dumps({"record": record, "text": text, "ids": chat.encode(tokenizer, record)[0]}) + "\n")
    say(f"now: node check.mjs {os.path.join(args.work, MODELS[0], 'q8_0.gguf')} {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--plan", choices=PLANS, default="cpu")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--stages", nargs="+", default=None)
    parser.add_argument("--steps", nargs="+", choices=["vocabulary", "pack", "train", "export", "check"], default=["vocabulary", "pack", "train", "export", "check"])
    parser.add_argument("--minutes", type=float, default=None, help="of training, instead of the plan's")
    parser.add_argument("--workers", type=int, default=1, help="processes that share every batch: on a CPU that others use too, better than threads")
    parser.add_argument("--port", type=int, default=29_517, help="on this machine, where workers meet")
    parser.add_argument("--threads", type=int, default=None, help="of each worker")
    args = parser.parse_args()
    plan = PLANS[args.plan]
    os.makedirs(args.work, exist_ok=True)
    tokenizer = vocabulary(args, plan)
    for name in args.models:
        for stage in args.stages or plan["models"][name]["stages"]:
            if "pack" in args.steps:
                pack(args, plan, tokenizer, name, stage)
            if "train" in args.steps:
                fit(args, plan, tokenizer, name, stage)
        if "export" in args.steps:
            export(args, plan, tokenizer, name)
    if "check" in args.steps:
        check(args, tokenizer)


if __name__ == "__main__":
    main()
