"""The Llama model to train: grouped-query attention, interleaved RoPE, gated MLP, tied embeddings."""
import dataclasses

import torch
import torch.nn as nn
import torch.nn.functional as F

from vision import captions

ROPE_BASE = 500_000.0
NORM_EPS = 1e-5


@dataclasses.dataclass
class Shape:
    vocab: int
    dim: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    context: int = 2048

    @property
    def head(self):
        return self.dim // self.heads


class Norm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return F.rms_norm(x.float(), (x.shape[-1],), self.weight.float(), NORM_EPS).to(x.dtype)


def rotate(x, cos, sin):
    """Rotates adjacent pairs, as GGUF's llama architecture does."""
    if x.device.type == "cpu":   # one pass instead of six
        return torch.view_as_real(torch.view_as_complex(x.float().unflatten(-1, (-1, 2))) * torch.complex(cos, sin)).flatten(-2).to(x.dtype)
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2).to(x.dtype)


def attend(q, k, v, mask):
    """Attention. In bf16 on a CPU, it is written out, because rows are short and this takes half the time of fused
    attention there. In fp32, fused attention takes two thirds of the time."""
    if q.device.type != "cpu" or q.dtype == torch.float32:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    unseen = torch.zeros_like(mask, dtype=scores.dtype).masked_fill_(~mask, float("-inf"))
    return torch.softmax(scores.add_(unseen), -1) @ v   # computed in fp32 internally


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        dim, kv = shape.dim, shape.kv_heads * shape.head
        self.shape = shape
        self.attn_norm, self.ffn_norm = Norm(dim), Norm(dim)
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, kv, bias=False)
        self.v = nn.Linear(dim, kv, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.gate = nn.Linear(dim, shape.ffn, bias=False)
        self.up = nn.Linear(dim, shape.ffn, bias=False)
        self.down = nn.Linear(shape.ffn, dim, bias=False)

    def forward(self, x, cos, sin, mask):
        batch, length, dim = x.shape
        s = self.shape
        y = self.attn_norm(x)
        q = rotate(self.q(y).view(batch, length, s.heads, s.head).transpose(1, 2), cos, sin)
        k = rotate(self.k(y).view(batch, length, s.kv_heads, s.head).transpose(1, 2), cos, sin)
        v = self.v(y).view(batch, length, s.kv_heads, s.head).transpose(1, 2)
        if s.kv_heads != s.heads:
            k, v = (t.repeat_interleave(s.heads // s.kv_heads, 1) for t in (k, v))
        z = attend(q, k, v, mask)
        x = x + self.o(z.transpose(1, 2).reshape(batch, length, dim))
        y = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocab, shape.dim)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.dim)
        angle = torch.outer(torch.arange(shape.context).float(), ROPE_BASE ** (-torch.arange(0, shape.head, 2).float() / shape.head))
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        self.blur = None   # (the token of empty image rows, noise): see blurred

    def blurred(self, tokens, x):
        """During training, adds noise to the rows of images, because the vision encoder's output is close to a word's
        embedding but not equal to it."""
        nothing, noise = self.blur
        picture = captions.inside(tokens == nothing)
        size = x.detach().square().mean(-1, keepdim=True).sqrt() * (noise * torch.rand(x.shape[0], 1, 1, device=x.device))
        return torch.where(picture[..., None], x + size * torch.randn_like(x), x)

    def forward(self, tokens, position, document):
        """Hidden states [batch, length, dim]. A token attends to the earlier tokens in its own document."""
        index = torch.arange(tokens.shape[1], device=tokens.device)
        mask = (document[:, None, :, None] == document[:, None, None, :]) & (index[:, None] >= index)
        cos, sin = self.cos[position][:, None], self.sin[position][:, None]
        x = self.embedding(tokens)
        if self.blur and self.training:
            x = self.blurred(tokens, x)
        for block in self.blocks:
            x = block(x, cos, sin, mask)
        return self.norm(x)

    def logits(self, hidden):
        return F.linear(hidden, self.embedding.weight)
