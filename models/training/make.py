"""From the corpus to GGUF files, for all three models, with one command. Each step keeps its result; to continue an
interrupted run, run the same command again.

  make.py --corpus DIR --work DIR [--plan chat|session|trial] [--models NAME ...] [--workers 2]
          [--legs N]         more or fewer legs than planned
          [--keep SHARE]     export a mean with this share of the initial weights (restores old skills)
          [--mean N]         export the mean of the last N files of legs/ instead of the last weights (like a decaying rate)
          [--start NAME=FILE.gguf ...]    start a model from this file (same vocabulary and width), or from a run: NAME=FOLDER
          [--service DIR]    a built checkout: evaluates the model after every leg, into DIR/NAME/progress.jsonl
          [--steps vocabulary pack train export check]

The results are DIR/NAME/q8_0.gguf and f16.gguf. Vocabulary and packing need no accelerator: to train on another
machine, copy WORK there after `--steps vocabulary pack` and continue there."""
import argparse
import glob
import json
import multiprocessing
import os
import random
import signal
import time

import bpe
import chat
import data
import plans
import records
from plans import MODELS, PLANS
from records import conversation
from vision import captions


FILES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))   # models/, which contains the finished files


def say(*words):
    print(time.strftime("%m-%d %H:%M:%S"), *words, flush=True)


def vocabulary(args, plan):
    path = os.path.join(args.work, "tokenizer.json")
    if not os.path.exists(path) and "vocabulary" in plan:
        import gguf
        gguf.restore(os.path.join(FILES, plan["vocabulary"]))[2].save(path)
    elif not os.path.exists(path):
        texts, left = [], plan["sample"]
        source = data.leg(args.corpus, plan["models"]["tycho-1.0"], "hal-1.0", "vocabulary", plans.MIX)
        part, record = next(source)
        while left:
            said = [text for text, special, _ in chat.pieces(record) if not special]
            texts += said
            left -= 1
            part, record = source.send(len(record["messages"][-1]["content"]) // 4)
        bpe.train(texts, plan["vocab"]).save(path)
        say(f"vocabulary of {plan['vocab']} from {plan['sample']} records")
    return bpe.Tokenizer.load(path)


def beginning(args, plan, tokenizer, name):
    """A model's initial weights: those of a smaller model in this run, or those in a GGUF file from an earlier run.
    None: train from scratch."""
    import gguf
    import train
    model = plan["models"][name]
    start = dict(item.split("=", 1) for item in args.start).get(name, model["start"])
    if not start:
        return None
    if not start.endswith(".gguf"):
        return train.load(os.path.join(args.work, start, "checkpoint.pt"))["model"]
    path = start if os.path.exists(start) else os.path.join(FILES, start)
    shape, state, theirs = gguf.restore(path)
    wrong = [f"{key} {shape[key]}, not {model['shape'][key]}" for key in ("dim", "heads", "kv_heads", "ffn") if shape[key] != model["shape"][key]]
    if shape["layers"] > model["shape"]["layers"]:
        wrong.append(f"{shape['layers']} layers, more than {model['shape']['layers']}")
    if (theirs.tokens, theirs.merges) != (tokenizer.tokens, tokenizer.merges):
        wrong.append("another vocabulary")
    if wrong:
        raise SystemExit(f"{name} cannot start from {path}: {'; '.join(wrong)}")
    return state


def packed_path(args, name, leg):
    return os.path.join(args.work, name, "packed", f"{leg:02d}.npz")


def pack(args, plan, tokenizer, name, leg):
    path, model = packed_path(args, name, leg), plan["models"][name]
    if os.path.exists(path):
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    source = data.leg(args.corpus, model, name, leg, plans.mix(plan, leg))
    rows, spoken = data.encode(tokenizer, source, plan["lengths"][-1], model["tokens"] // plan["legs"], model["thinking"], leg)
    packed = data.pack(rows, plan["lengths"], tokenizer.id["<|endoftext|>"], leg)
    data.save(path, packed)
    fill = sum((parts[2] > 0).sum() for parts in packed.values()) / sum(parts[2].size for parts in packed.values())
    say(f"{path}: {len(rows)} records, rows {fill:.0%} full, {os.path.getsize(path) / 2 ** 20:.1f} MiB; said by the assistant: " + ", ".join(f"{part} {count / sum(spoken.values()):.0%}" for part, count in spoken.items()) + f" of {sum(spoken.values())} tokens")


def at_leg(args, name):
    """The leg that a run has reached; None before it has started."""
    import train
    path = os.path.join(args.work, name, "checkpoint.pt")
    return train.load(path)["leg"] if os.path.exists(path) else None


def work(worker, args, plan, tokenizer, name, leg):
    """Trains a leg, or a worker's part of it."""
    import torch
    import train
    model = plan["models"][name]
    torch.set_num_threads(args.threads or max(1, os.cpu_count() // args.workers))
    if args.workers > 1:
        torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{args.port}", rank=worker, world_size=args.workers)
    start = beginning(args, plan, tokenizer, name) if at_leg(args, name) is None else None
    train.train(os.path.join(args.work, name), dict(model["shape"], vocab=len(tokenizer.tokens)), data.load(packed_path(args, name, leg)), leg, plan["legs"], plan["batch"][leg >= model["small"]],
                model["seed"], model["lr"], model["adam_lr"], plan["prompt_share"], start, lambda line: say(name, line), tokenizer.stems(), worker, args.workers,
                flat=plan.get("flat", train.FLAT), blur=plan.get("blur") and (tokenizer.id[captions.NOTHING], plan["blur"]))
    if args.workers > 1:
        train.leave()


def fit(args, plan, tokenizer, name):
    """Trains all remaining legs. The records for the next leg are generated during the current one."""
    import torch
    at = at_leg(args, name) or 0
    log = os.path.join(args.work, name, "progress.jsonl")
    if at and not (os.path.exists(log) and any(json.loads(line)["leg"] == at for line in open(log))):
        measure(args, plan, tokenizer, name, at - 1)   # the run was interrupted before this
    for leg in range(at, plan["legs"]):
        pack(args, plan, tokenizer, name, leg)
        ahead = multiprocessing.get_context("fork").Process(target=pack, args=(args, plan, tokenizer, name, leg + 1)) if leg + 1 < plan["legs"] else None
        if ahead:
            ahead.start()
        if args.workers == 1:
            work(0, args, plan, tokenizer, name, leg)
        else:
            torch.multiprocessing.spawn(work, (args, plan, tokenizer, name, leg), args.workers)
        if ahead:
            ahead.join()
        measure(args, plan, tokenizer, name, leg)


def measure(args, plan, tokenizer, name, leg):
    """Exports the file after this leg under the leg's number, and scores it. Ends the run if a row has fallen (see
    progress.fallen)."""
    import progress
    folder = os.path.join(args.work, name)
    path = os.path.join(folder, "legs", f"{leg + 1:02d}-q8_0.gguf")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    trained = export(args, plan, tokenizer, name, {"q8_0": path})
    found = {"leg": leg + 1, "tokens": plan["models"][name]["tokens"] * (leg + 1) // plan["legs"], "at": time.strftime("%Y-%m-%d %H:%M:%S")}
    stories = os.path.join(args.corpus, "validation.jsonl.xz")
    if os.path.exists(stories):
        found["bits per byte of stories"] = round(progress.perplexity(trained, tokenizer, stories, 30_000)[1], 3)   # of the first 30,000 characters
    if args.service:
        try:
            found |= {"count": args.count} | progress.scores(args.service, name, path, args.count)
        except Exception as error:   # a failed evaluation can be repeated later, because the file remains
            found["error"] = repr(error)[:500]
    log = os.path.join(folder, "progress.jsonl")
    with open(log, "a") as file:
        file.write(json.dumps(found) + "\n")
    say(name, json.dumps(found))
    with open(log) as file:
        history = [one for one in map(json.loads, file) if "rows" in one]
    rows = progress.fallen(history)
    if rows and not args.go_on:
        raise SystemExit(f"{name}: {', '.join(rows)} fell by more than {progress.FALL:.0f} points twice; use --go-on to continue anyway")


def mean(files):
    """The mean of the weights in several GGUF files of one model. It removes most of the noise that a constant
    learning rate leaves in each file."""
    import gguf
    states = [gguf.restore(path)[1] for path in files]
    return {key: sum(state[key] for state in states) / len(states) for key in states[0]}


def export(args, plan, tokenizer, name, paths=None):
    """Writes the checkpoint's model as GGUF and returns it."""
    import gguf
    import torch
    import train
    from model import Llama, Shape
    trained = Llama(Shape(**plan["models"][name]["shape"], vocab=len(tokenizer.tokens)))
    if paths is None and args.mean:
        state = mean(sorted(glob.glob(os.path.join(args.work, name, "legs", "*-q8_0.gguf")))[-args.mean:])
    else:
        state = train.load(os.path.join(args.work, name, "checkpoint.pt"))["model"]
    if paths is None and args.keep:
        began = beginning(args, plan, tokenizer, name)
        state = {key: torch.lerp(weight, began[key], args.keep) for key, weight in state.items()}
    trained.load_state_dict(state)
    for kind, path in (paths or {kind: os.path.join(args.work, name, f"{kind}.gguf") for kind in ("f16", "q8_0")}).items():
        gguf.export(path + ".new", trained, tokenizer, name, kind)
        os.replace(path + ".new", path)
    return trained


def check(args, tokenizer):
    """Records of every kind as text and tokens, for check.mjs."""
    path, r = os.path.join(args.work, "check.jsonl"), random.Random(1)
    found = list(records.make(3000, 77, "hal-1.0")) + [conversation.chat(r, "hal-1.0") for _ in range(2000)]
    with open(path, "w") as file:
        for record in found:
            data.think_or_not(record, r, 0.5)
            text = "".join(piece for piece, _, _ in chat.pieces(record))
            file.write(json.dumps({"record": record, "text": text, "ids": chat.encode(tokenizer, record)[0]}) + "\n")
    say(f"now: node check.mjs {os.path.join(args.work, MODELS[0], 'q8_0.gguf')} {path}")


def with_legs(plan, legs):
    """The plan with this number of legs, each of the same size as before."""
    if not legs:
        return plan
    return plan | {"legs": legs, "models": {name: model | {"tokens": model["tokens"] // plan["legs"] * legs} for name, model in plan["models"].items()}}


def ended(number, frame):
    """On SIGTERM, the workers write a checkpoint and exit, and so does this process."""
    children = multiprocessing.active_children()
    for child in children:
        child.terminate()
    if not children:
        raise SystemExit(143)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = ["vocabulary", "pack", "train", "export", "check"]
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--plan", choices=PLANS, default="chat")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--keep", type=float, default=0, metavar="SHARE")
    parser.add_argument("--mean", type=int, default=0, metavar="N")
    parser.add_argument("--start", nargs="+", default=[], metavar="NAME=FILE.gguf")
    parser.add_argument("--legs", type=int, help="number of legs, of the same size as planned; if time is short, set it while the learning rate is constant")
    parser.add_argument("--steps", nargs="+", choices=steps, default=steps)
    parser.add_argument("--service", help="a built checkout of this project, which evaluates the model after every leg")
    parser.add_argument("--count", type=int, default=60, help="records per row in these evaluations")
    parser.add_argument("--go-on", action="store_true", help="continue even if a row has fallen")
    parser.add_argument("--workers", type=int, default=1, help="processes that share every batch; better than threads on a shared CPU")
    parser.add_argument("--port", type=int, default=29_517, help="port on this machine through which workers connect")
    parser.add_argument("--threads", type=int, default=None, help="threads per worker")
    args = parser.parse_args()
    plan = with_legs(PLANS[args.plan], args.legs)
    signal.signal(signal.SIGTERM, ended)
    os.makedirs(args.work, exist_ok=True)
    tokenizer = vocabulary(args, plan)
    for name in args.models:
        if "train" in args.steps:
            fit(args, plan, tokenizer, name)
        elif "pack" in args.steps:
            for leg in range(plan["legs"]):
                pack(args, plan, tokenizer, name, leg)
        if "export" in args.steps:
            trained = export(args, plan, tokenizer, name)
            say(f"{name}: {sum(p.numel() for p in trained.parameters()) / 1e6:.2f}M parameters written")
    if "check" in args.steps:
        check(args, tokenizer)


if __name__ == "__main__":
    main()
