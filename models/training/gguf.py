"""Writes GGUF version 3: the value and tensor types a Llama model needs. Layout: docs/gguf.md of ggml."""
import struct

import numpy as np

import bpe
import chat
from model import NORM_EPS, ROPE_BASE

_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_F32, _F16, _Q8_0 = 0, 1, 8
_ALIGN = 32
_FILE_TYPE = {"f16": 1, "q8_0": 7}
_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4

_BLOCK = {"attn_norm": "attn_norm", "ffn_norm": "ffn_norm", "q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}


def export(path, model, tokenizer, name, kind):
    """`kind`: f16 or q8_0."""
    tensors = {}
    for key, weight in model.state_dict().items():
        parts = key.split(".")
        values = weight.detach().float().cpu().numpy()
        if parts[0] == "blocks":
            tensors[f"blk.{parts[1]}.{_BLOCK[parts[2]]}.weight"] = values
        else:
            tensors[{"embedding": "token_embd.weight", "norm": "output_norm.weight"}[parts[0]]] = values
    write(path, metadata(model.shape, tokenizer, name, kind), tensors, kind)


def metadata(shape, tokenizer, name, kind):
    end, nothing = tokenizer.id["<|im_end|>"], tokenizer.id["<|endoftext|>"]
    special = set(bpe.SPECIALS)
    types = [_CONTROL if t in bpe.CONTROL else _USER_DEFINED if t in special else _NORMAL for t in tokenizer.tokens]
    return {
        "general.architecture": "llama", "general.name": name, "general.file_type": _FILE_TYPE[kind], "general.quantization_version": 2,
        "llama.context_length": shape.context, "llama.embedding_length": shape.dim, "llama.block_count": shape.layers, "llama.feed_forward_length": shape.ffn,
        "llama.attention.head_count": shape.heads, "llama.attention.head_count_kv": shape.kv_heads, "llama.attention.layer_norm_rms_epsilon": NORM_EPS,
        "llama.rope.freq_base": ROPE_BASE, "llama.rope.dimension_count": shape.head, "llama.vocab_size": len(tokenizer.tokens),
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.tokens": tokenizer.tokens, "tokenizer.ggml.merges": tokenizer.merges,
        "tokenizer.ggml.token_type": types, "tokenizer.ggml.eos_token_id": end, "tokenizer.ggml.bos_token_id": nothing, "tokenizer.ggml.padding_token_id": nothing,
        "tokenizer.ggml.add_bos_token": False, "tokenizer.chat_template": chat.TEMPLATE,
    }


def write(path, values, tensors, kind):
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(values))
    for key, value in values.items():
        number, data = _value(value)
        head += _string(key) + struct.pack("<I", number) + data
    blobs, offset = [], 0
    for name, tensor in tensors.items():
        number, blob = _tensor(tensor, kind)
        head += _string(name) + struct.pack("<I", tensor.ndim) + b"".join(struct.pack("<Q", size) for size in reversed(tensor.shape)) + struct.pack("<IQ", number, offset)
        blob += b"\0" * (-len(blob) % _ALIGN)
        blobs.append(blob)
        offset += len(blob)
    with open(path, "wb") as file:
        file.write(head + b"\0" * (-len(head) % _ALIGN))
        file.writelines(blobs)


def _string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value):
    if isinstance(value, bool):
        return _BOOL, struct.pack("<?", value)
    if isinstance(value, int):
        return _UINT32, struct.pack("<I", value)
    if isinstance(value, float):
        return _FLOAT32, struct.pack("<f", value)
    if isinstance(value, str):
        return _STRING, _string(value)
    if isinstance(value[0], str):
        return _ARRAY, struct.pack("<IQ", _STRING, len(value)) + b"".join(map(_string, value))
    return _ARRAY, struct.pack("<IQ", _INT32, len(value)) + np.array(value, "<i4").tobytes()


def _tensor(tensor, kind):
    if tensor.ndim == 1:
        return _F32, tensor.astype("<f4").tobytes()
    if kind == "q8_0" and tensor.shape[-1] % 32 == 0:
        return _Q8_0, _q8_0(tensor)
    return _F16, tensor.astype("<f2").tobytes()


def _q8_0(tensor):
    """Blocks of 32: a scale and 32 signed bytes."""
    block = tensor.astype(np.float32).reshape(-1, 32)
    scale = np.abs(block).max(1, keepdims=True) / 127
    quantized = np.rint(np.divide(block, scale, out=np.zeros_like(block), where=scale > 0)).astype(np.int8)
    out = np.empty((len(block), 34), np.uint8)
    out[:, :2] = scale.astype("<f2").view(np.uint8).reshape(-1, 2)
    out[:, 2:] = quantized.view(np.uint8)
    return out.tobytes()
