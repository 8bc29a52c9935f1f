"""Compares variants of tiny models with llama.cpp: each file in F32, with one property changed (a size, a key, an additional or missing
tensor), computed by both in 32-bit floats. Use it when adding an architecture or a vision encoder: the golden vectors cover one shape of
each, this script covers others.

    python3 scripts/variants/variants.py --llama CHECKOUT text FOLDER [PATTERN [CHANGE]]
    python3 scripts/variants/variants.py --llama CHECKOUT vision FOLDER [PATTERN [CHANGE]]

CHECKOUT: a built llama.cpp (build/bin). FOLDER: GGUF files; for vision the pairs and cases of the vision vectors (NAME.json names the
text model). PATTERN, CHANGE: regular expressions for file names and changes. Needs numpy and a built checkout of this project.
Review the output by hand: a key that this project reads for an architecture and llama.cpp does not is reported as a difference too.
"""
import argparse
import copy
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--llama", required=True)
parser.add_argument("what", choices=("text", "vision"))
parser.add_argument("folder")
parser.add_argument("pattern", nargs="?", default="")
parser.add_argument("change", nargs="?", default="")
options = parser.parse_args()
sys.path.insert(0, os.path.join(options.llama, "gguf-py"))

import numpy as np

import text_changes
import vision_changes
from changes import NotHere
from gguf_file import File

SIZES = ((97, 61), (300, 200), (511, 509), (1000, 140), (70, 333), (1, 300))
ALLOWED = {"text": 2e-3, "vision": 0.02}   # in standard deviations; llama.cpp rounds GELU and the patch convolution to 16 bits
SERVED = 0.4                               # for production arithmetic; more means another choice of experts, or an error
random = np.random.default_rng(11)
work = tempfile.TemporaryDirectory()
path = lambda name: os.path.join(work.name, name)


def build_reference():
    binaries = os.path.join(options.llama, "build", "bin")
    command = ["c++", "-O1", "-std=c++20", *(f"-I{os.path.join(options.llama, d)}" for d in ("include", "ggml/include", "tools/mtmd")),
               os.path.join(here, "reference.cpp"), "-o", path("reference"), f"-L{binaries}", "-lmtmd", "-lllama", "-lggml", "-lggml-base",
               f"-Wl,-rpath,{os.path.abspath(binaries)}"]
    subprocess.run(command, check=True)


def reference(*arguments):
    done = subprocess.run([path("reference"), *map(str, arguments)], capture_output=True, text=True, errors="replace", timeout=300)
    return done.stdout.splitlines() if done.returncode == 0 else None


class Ours:
    process = None

    def ask(self, **question):
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(["node", os.path.join(here, "ours.mjs")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"refused": "THE PROCESS ENDED"}


ours = Ours()


def far(a, b):
    return float(np.sqrt(np.mean((np.asarray(a) - np.asarray(b)) ** 2)) / np.std(a))


def refused(theirs, answer):
    """The message if exactly one program refuses the file, or None. Both refusing it is correct."""
    if theirs is None:
        return "" if "refused" in answer else "only llama.cpp refuses"
    return f"only we refuse: {answer['refused'][:200]}" if "refused" in answer else None


def compare_text(file):
    ids = [int(i) for i in random.integers(5, file.tensors["token_embd.weight"].shape[0], 200)]
    theirs, answer = reference("text", path("model.gguf"), ",".join(map(str, ids)), 6), ours.ask(model=path("model.gguf"), ids=ids, tokens=6)
    said = refused(theirs, answer)
    if said is not None:
        return said
    first, last = ([float(n) for n in line.split()] for line in theirs[:2])
    if (by := far(first, answer["logits"])) > ALLOWED["text"] or by != by:
        return f"off by {by:.2g}"
    if [int(t) for t in theirs[2].split()] == answer["tokens"] and far(last, answer["last"]) > ALLOWED["text"]:
        return f"off by {far(last, answer['last']):.2g} behind the tokens"
    return f"as it is served off by {by:.2g}" if not (by := far(first, answer["served"])) < SERVED else ""


def compare_vision(text_model):
    for wide, high in SIZES:
        y, x = np.mgrid[0:high, 0:wide]
        picture = np.stack([x * 255 // max(1, wide - 1), y * 255 // max(1, high - 1), (x // 7 + y // 5) % 2 * 200], -1)
        np.clip(picture + random.integers(-20, 20, picture.shape), 0, 255).astype(np.uint8).tofile(path("rgb"))
        theirs = reference("vision", text_model, path("model.gguf"), path("rgb"), wide, high, path("theirs"))
        answer = ours.ask(model=text_model, vision=path("model.gguf"), rgb=path("rgb"), width=wide, height=high, out=path("ours"))
        said = refused(theirs, answer)
        if said is not None:
            return said and f"{wide} x {high}: {said}"
        if theirs[0].split() != answer["sequence"].split():
            return f"{wide} x {high}: {theirs[0]} here {answer['sequence']}"
        if not (by := far(np.fromfile(path("theirs"), np.float32), np.fromfile(path("ours"), np.float32))) < ALLOWED["vision"]:
            return f"{wide} x {high}: off by {by:.2g}"
    return ""


def nothing(file):
    """unchanged"""


def main():
    build_reference()
    changes = [nothing, *(text_changes if options.what == "text" else vision_changes).ALL]
    ending = ".gguf" if options.what == "text" else ".mmproj.gguf"
    compared = differ = 0
    for found in sorted(glob.glob(os.path.join(options.folder, "*" + ending))):
        name = os.path.basename(found)[:-len(ending)]
        if not re.search(options.pattern, name):
            continue
        whole = File(found)
        if options.what == "text" and (whole.architecture == "clip" or whole.get("pooling_type") is not None or "token_embd.weight" not in whole.tensors):
            continue
        if options.what == "vision":
            with open(os.path.join(options.folder, "..", "cases", name + ".json")) as case:
                text_model = os.path.join(options.folder, json.load(case)["text_model"])
        for change in changes:
            if not re.search(options.change, change.__name__):
                continue
            file = copy.deepcopy(whole)
            try:
                change(file)
            except NotHere:
                continue
            file.write(path("model.gguf"))
            said = compare_text(file) if options.what == "text" else compare_vision(text_model)
            compared += 1
            if said:
                differ += 1
                print(f"{name}, {change.__name__}: {said}", flush=True)
    print(f"{compared} variants, {differ} differ")


main()
