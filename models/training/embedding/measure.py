"""Retrieval accuracy of an embedding model on the held-out records, through a running server:

    python3 measure.py --corpus CORPUS --url http://127.0.0.1:8080 --key sk-… [--model discovery-embed-1.0]
"""

import argparse
import json
import sys
import urllib.request
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import pairs  # noqa: E402


def embed(url: str, key: str, model: str, texts: list[str]) -> np.ndarray:
    vectors = []
    for at in range(0, len(texts), 64):
        body = {"model": model, "input": texts[at : at + 64], "truncate_prompt_tokens": -1}
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        request = urllib.request.Request(f"{url}/v1/embeddings", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            vectors += [item["embedding"] for item in json.load(answer)["data"]]
    return np.array(vectors)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", type=Path, required=True)
    options.add_argument("--url", required=True)
    options.add_argument("--key", required=True)
    options.add_argument("--model", default="discovery-embed-1.0")
    given = options.parse_args()
    held_out = pairs.held_out_pairs(given.corpus)
    texts = {pair.group: pair.text for pair in held_out}
    own = np.array([list(texts).index(pair.group) for pair in held_out])
    ask = lambda asked: embed(given.url, given.key, given.model, asked)
    scores = ask([pair.query for pair in held_out]) @ ask(list(texts.values())).T
    better = (scores > scores[np.arange(len(own)), own][:, None]).sum(1)
    print(f"{len(own)} questions, {len(texts)} passages: first {np.mean(better == 0):.1%}, first five {np.mean(better < 5):.1%}")


if __name__ == "__main__":
    main()
