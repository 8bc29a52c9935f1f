"""Trains `discovery-embed-1.0`, a small embedding model, on the corpus of chat records. About 20 minutes on one core:

    python3 learn.py --corpus CORPUS --work WORK --out discovery-embed-1.0.gguf

1. WordPiece vocabulary from all texts, and initial vectors of its tokens (vocabulary.py).
2. Sums of token vectors, trained alone: cheap steps that see every pair many times.
3. The encoder, which begins as these sums and learns what order and context add.
4. Export, and retrieval accuracy on the held-out records.

Both training steps use the contrastive loss with the other pairs of the batch as negatives, in both directions. Pairs
of one group are never negatives of each other.
"""

import argparse
import math
import pickle
import random
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parent.parent))
import gguf  # noqa: E402
import pairs  # noqa: E402
import vocabulary  # noqa: E402
from encoder import END, EPS, PADDING, SPECIALS, START, UNKNOWN, Encoder, Shape  # noqa: E402

# How often a batch has pairs of this kind.
MIX = {"rag": 0.5, "story": 0.2, "prose": 0.1, "instruct": 0.1, "tool": 0.04, "classify": 0.02, "extract": 0.02, "dialogue": 0.02}
MAX_QUERY, MAX_TEXT = 64, 128  # tokens in training; longer texts are cut at a random place
DEVELOPMENT = 500  # question-answering pairs that are not trained on, to watch progress


def prepared(corpus: Path, work: Path, shape: Shape):
    """(tokenizer, ids of every text, pairs by kind, development pairs, initial token vectors); kept in `work`."""
    kept = work / "prepared.pkl"
    if not kept.exists():
        all_pairs = list(pairs.training_pairs(corpus))
        texts = list({text for pair in all_pairs for text in (pair.query, pair.text)})
        tokenizer = vocabulary.build(texts, shape.vocabulary)
        ids = {text: np.array(encoding.ids, np.int32) for text, encoding in zip(texts, tokenizer.encode_batch(texts, add_special_tokens=False))}
        by_kind = defaultdict(list)
        for pair in all_pairs:
            by_kind[pair.kind].append(pair)
        random.Random(0).shuffle(by_kind["rag"])
        development_groups = {pair.group for pair in by_kind["rag"][:DEVELOPMENT]}
        development = [pair for pair in by_kind["rag"][:DEVELOPMENT]]
        by_kind["rag"] = [pair for pair in by_kind["rag"] if pair.group not in development_groups]
        words = vocabulary.word_vectors([list(i) for i in ids.values() if len(i) > 20], shape.vocabulary, shape.width - 1)
        kept.write_bytes(pickle.dumps((tokenizer.to_str(), ids, dict(by_kind), development, words)))
    text, *rest = pickle.loads(kept.read_bytes())
    return Tokenizer.from_str(text), *rest


class Batches:
    def __init__(self, by_kind, ids, seed: int):
        self.by_kind, self.ids, self.random = by_kind, ids, random.Random(seed)

    def draw(self, size: int):
        """(query ids, text ids, [size, size] mask of pairs that are not negatives)"""
        kind = self.random.choices(list(MIX), list(MIX.values()))[0]
        drawn = self.random.sample(self.by_kind[kind], size)
        number = {}
        group = torch.tensor([number.setdefault(pair.group, len(number)) for pair in drawn])
        same = (group[:, None] == group[None]) & ~torch.eye(size, dtype=torch.bool)
        return [self._cut(pair.query, MAX_QUERY) for pair in drawn], [self._cut(pair.text, MAX_TEXT) for pair in drawn], same

    def _cut(self, text: str, most: int):
        ids = self.ids[text]
        start = self.random.randint(0, max(0, len(ids) - most))
        return ids[start : start + most]


def contrastive(queries, texts, same, scale):
    scores = (queries @ texts.T * scale.exp().clamp(max=60)).masked_fill(same, -math.inf)
    right = torch.arange(len(queries))
    return (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2


def padded(texts, most: int):
    """[CLS] text [SEP], as ids [texts, tokens]."""
    rows = np.full((len(texts), min(most, max(map(len, texts)) + 2)), PADDING, np.int64)
    for row, text in zip(rows, texts):
        text = text[: len(row) - 2]
        row[0], row[1 : len(text) + 1], row[len(text) + 1] = START, text, END
    return torch.from_numpy(rows)


def sums(words, texts):
    starts = torch.tensor([0, *map(len, texts[:-1])]).cumsum(0)
    return F.normalize(F.embedding_bag(torch.from_numpy(np.concatenate(texts).astype(np.int64)), words, starts, mode="sum"), dim=-1)


def train(embed, parameters, batches, size: int, steps: int, rate: float):
    """Minimizes the loss of embed(ids); `parameters` are groups for AdamW with a factor of the learning rate each."""
    scale = torch.nn.Parameter(torch.tensor(math.log(25.0)))
    groups = [{"params": group, "factor": factor} for group, factor in [*parameters, ([scale], 1.0)]]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), weight_decay=0)
    began, mean = time.time(), None
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * group["factor"] * min(1, (step + 1) / 100) * max(0.02, 1 - step / steps)
        queries, texts, same = batches.draw(size)
        loss = contrastive(embed(queries), embed(texts), same, scale)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for group in groups for p in group["params"]], 1.0)
        optimizer.step()
        mean = loss.item() if mean is None else 0.95 * mean + 0.05 * loss.item()
        if (step + 1) % 50 == 0:
            print(f"step {step + 1} of {steps}, {time.time() - began:.0f} s, loss {mean:.3f}", flush=True)


def accuracy(vectors, held_out):
    """The shares of queries whose own text is first, and among the first five, of all texts of `held_out`."""
    texts = {pair.group: pair.text for pair in held_out}
    order = list(texts)
    with torch.no_grad():
        scores = vectors([pair.query for pair in held_out]) @ vectors([texts[group] for group in order]).T
    own = torch.tensor([order.index(pair.group) for pair in held_out])
    better = (scores > scores.gather(1, own[:, None])).sum(1)
    return {"pairs": len(held_out), "texts": len(order), "first": round((better == 0).float().mean().item(), 3), "first five": round((better < 5).float().mean().item(), 3)}


def export(path: Path, encoder: Encoder, tokenizer):
    """Token vectors in Q8_0, matrices in F16, the rest in F32."""
    shape = encoder.shape
    state = {key: value.detach().numpy() for key, value in encoder.state_dict().items()}
    tensors = {"token_embd.weight": state["embedding.weight"], "position_embd.weight": state["positions.weight"], "token_types.weight": state["types.weight"]}
    tensors |= {f"token_embd_norm.{end}": state[f"norm.{end}"] for end in ("weight", "bias")}
    names = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "out": "attn_output", "attention_norm": "attn_output_norm", "up": "ffn_up", "down": "ffn_down", "ffn_norm": "layer_output_norm"}
    for number in range(shape.layers):
        tensors |= {f"blk.{number}.{theirs}.{end}": state[f"layers.{number}.{mine}.{end}"] for mine, theirs in names.items() for end in ("weight", "bias")}
    tokens = vocabulary.spellings(tokenizer)
    values = {
        "general.architecture": "bert", "general.name": "discovery-embed-1.0", "general.file_type": 7, "general.quantization_version": 2,
        "bert.context_length": shape.context, "bert.embedding_length": shape.width, "bert.block_count": shape.layers, "bert.feed_forward_length": shape.ffn,
        "bert.attention.head_count": shape.heads, "bert.attention.head_count_kv": shape.heads, "bert.attention.layer_norm_epsilon": EPS, "bert.attention.causal": False,
        "bert.pooling_type": 1, "bert.vocab_size": shape.vocabulary,
        "tokenizer.ggml.model": "bert", "tokenizer.ggml.pre": "default", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type_count": 2,
        "tokenizer.ggml.token_type": [3 if token in SPECIALS else 1 for token in tokens],
        "tokenizer.ggml.bos_token_id": START, "tokenizer.ggml.eos_token_id": END, "tokenizer.ggml.seperator_token_id": END,
        "tokenizer.ggml.unknown_token_id": UNKNOWN, "tokenizer.ggml.padding_token_id": PADDING, "tokenizer.ggml.mask_token_id": SPECIALS.index("[MASK]"),
    }
    gguf.write(path, values, tensors, lambda name: {"token_embd.weight": "q8_0", "position_embd.weight": "f32", "token_types.weight": "f32"}.get(name, "f16"))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", type=Path, required=True)
    options.add_argument("--work", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--sum-steps", type=int, default=1500)
    options.add_argument("--steps", type=int, default=700)
    options.add_argument("--threads", type=int, default=1)
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    given.work.mkdir(parents=True, exist_ok=True)
    shape = Shape()
    tokenizer, ids, by_kind, development, words = prepared(given.corpus, given.work, shape)
    held_out = pairs.held_out_pairs(given.corpus)
    encoded = lambda texts: [np.array(encoding.ids) for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]

    words = torch.nn.Parameter(words)
    of_sums = lambda texts: sums(words, encoded(texts))
    print("development, initial sums:", accuracy(of_sums, development), flush=True)
    train(lambda texts: sums(words, texts), [([words], 10.0)], Batches(by_kind, ids, 1), 512, given.sum_steps, 3e-4)
    print("development, sums:", accuracy(of_sums, development), flush=True)

    encoder = Encoder(shape, words.detach() / words.detach().norm(dim=1).max())
    of_encoder = lambda texts: torch.cat([encoder(padded(encoded(texts[at : at + 32]), shape.context)) for at in range(0, len(texts), 32)])
    print("development, untrained encoder:", accuracy(of_encoder, development), flush=True)
    tables = [encoder.embedding.weight]
    rest = [parameter for name, parameter in encoder.named_parameters() if name != "embedding.weight"]
    train(lambda texts: encoder(padded(texts, shape.context)), [(tables, 1.0), (rest, 1.0)], Batches(by_kind, ids, 2), 64, given.steps, 5e-4)
    print("development:", accuracy(of_encoder, development), flush=True)
    torch.save(encoder.state_dict(), given.work / "encoder.pt")
    export(given.out, encoder, tokenizer)
    print("held out, sums:", accuracy(of_sums, held_out))
    print("held out:", accuracy(of_encoder, held_out), given.out.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
