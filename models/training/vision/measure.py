"""Asks a model about unseen images through the running server, as a client would: PNG files of several sizes, greedy
sampling."""
import base64
import concurrent.futures
import json
import os
import random
import struct
import tempfile
import zlib

import evaluate
from records import seen
from . import pictures

SEED = 4_711
SIDES = (64, 96, 128, 160, 224, 256)


def png(pixels):
    """A PNG file for pixels [height][width][3], as bytes."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row.tobytes() for row in pixels))) + chunk(b"IEND", b"")


def pool(count):
    """{kind: [(scene, side, question, answer)]}, the same for every run. Some of the side lengths do not occur in
    training."""
    found = {}
    for kind in pictures.KINDS:
        r, found[kind] = random.Random(f"{SEED} {kind}"), []
        for _ in range(count):
            scene = pictures.scene(r, kind)
            question, said, _ = seen.asked(r, scene)
            found[kind].append((scene, r.choice(SIDES), question, said))
    return found


def request_of(name, scene, side, question):
    url = "data:image/png;base64," + base64.b64encode(png(pictures.draw(scene, side))).decode()
    parts = [{"type": "text", "text": question}, {"type": "image_url", "image_url": {"url": url}}]
    return {"model": name, "messages": [{"role": "user", "content": parts}], "max_completion_tokens": 40, "temperature": 0, "reasoning_effort": "none"}


def ask(server, name, count, say, keep=None):
    """{kind: percentage of responses with exactly the right text}. For places, also the percentage that is right in
    any wording ("the star is left of the red ring" for "the ring is right of the star")."""
    scores = {}
    for kind, some in pool(count).items():
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            replies = list(threads.map(lambda one: (evaluate.ask(server, request_of(name, *one[:3])).get("content") or "").strip(), some))
        good = [reply == one[3] for reply, one in zip(replies, some)]
        scores[kind] = round(100 * sum(good) / len(good), 1)
        if kind == "places":
            scores["places, said in any way"] = round(100 * sum(ok or seen.true_of(one[0], reply) for ok, reply, one in zip(good, replies, some)) / len(good), 1)
            say(name, "places, said in any way", scores["places, said in any way"])
        say(name, kind, scores[kind], [(one[3], reply) for one, reply, ok in zip(some, replies, good) if not ok][:6])
        if keep is not None:
            keep += [(kind, *one, reply) for one, reply in zip(some, replies)]
    return scores


def scores(name, path, vision, count, say=print):
    """Measures through a server of this checkout, which is started for these files."""
    with tempfile.TemporaryDirectory() as folder:
        # next to each other, as users have them, so that the server finds the vision file by its name
        os.symlink(os.path.abspath(path), os.path.join(folder, f"{name}.gguf"))
        os.symlink(os.path.abspath(vision), os.path.join(folder, f"{name}-mmproj.gguf"))
        server = evaluate.start([f"{name}={os.path.join(folder, f'{name}.gguf')}"])
        try:
            return ask(server, name, count, say)
        finally:
            server["child"].terminate()
            server["child"].wait()
