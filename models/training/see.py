"""The vision encoder of the embedded models, from generated images to the file next to each model.

  see.py --work DIR --steps tower [--minutes N]      trains an encoder that names what it sees; continues from its checkpoint
         [--start NAME-mmproj.gguf=NAME.gguf]        or, without a checkpoint, from a vision file and the model that it belongs to
  see.py --work DIR --steps project --models NAME=FILE.gguf ...   writes NAME-mmproj.gguf to DIR, with a projector for that model
  see.py --work DIR --steps measure --models NAME=FILE.gguf ...   scores it through the server of this checkout, 200 images per kind

Before the step `project`, the model must have learned to read an encoder's output: make.py --plan seeing."""
import argparse
import json
import os
import time

import gguf
import train
from vision import learn
from vision.tower import Projector, Tower, TowerShape


def say(*words):
    print(time.strftime("%m-%d %H:%M:%S"), *words, flush=True)


def project(args, name, path):
    import torch

    stored = train.load(os.path.join(args.work, "tower.pt"))
    tower = Tower(TowerShape(**stored["shape"]))
    tower.load_state_dict(stored["tower"])
    head = Projector(tower.shape, len(learn.vocabulary()))
    head.load_state_dict(stored["head"])
    _, state, tokenizer = gguf.restore(path)
    torch.set_num_threads(args.threads)
    kept = os.path.join(args.work, f"features-{args.pictures}.pt")   # the same for all models
    if not os.path.exists(kept) or os.path.getmtime(kept) < os.path.getmtime(os.path.join(args.work, "tower.pt")):
        torch.save(learn.features(tower, args.pictures), kept)
    projector = learn.project(tower, head, learn.words_of(state["embedding.weight"], tokenizer), train.load(kept), say=lambda line: say(name, line))
    out = os.path.join(args.work, f"{name}-mmproj.gguf")
    gguf.export_tower(out, tower, projector, f"{name} vision", "q8_0")
    say(out, os.path.getsize(out), "bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = ["tower", "project", "measure"]
    parser.add_argument("--work", required=True)
    parser.add_argument("--steps", nargs="+", choices=steps, default=steps)
    parser.add_argument("--models", nargs="+", default=[], metavar="NAME=FILE.gguf")
    parser.add_argument("--minutes", type=float, default=60, help="minutes of training the encoder, in total over several runs")
    parser.add_argument("--layers", type=int, default=TowerShape.layers)
    parser.add_argument("--start", metavar="VISION.gguf=MODEL.gguf", help="an encoder to start from; --layers may add layers")
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--flat", type=float, default=0.5, help="share of the time after which the learning rate decays")
    parser.add_argument("--size", type=int, default=64, help="images per step")
    parser.add_argument("--pictures", type=int, default=10_000, help="images that a projector is trained on")
    parser.add_argument("--count", type=int, default=200, help="images per kind in the evaluation")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    if "tower" in args.steps:
        learn.fit(args.work, args.minutes, args.size, args.lr, args.lr / 10, args.flat, shape=TowerShape(layers=args.layers), say=say, threads=args.threads, start=learn.grown(*args.start.split("=", 1), args.layers) if args.start else None)
    models = [item.split("=", 1) for item in args.models]
    for name, path in models if "project" in args.steps else ():
        project(args, name, path)
    if "measure" in args.steps:
        from vision import measure
        found = {name: measure.scores(name, path, os.path.join(args.work, f"{name}-mmproj.gguf"), args.count, say) for name, path in models}
        with open(os.path.join(args.work, "pictures.json"), "w") as file:
            json.dump({"count": args.count, "scores": found}, file, indent=1)


if __name__ == "__main__":
    main()
