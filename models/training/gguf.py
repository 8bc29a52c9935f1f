"""Writes GGUF version 3 and reads back what it has written, with the value and tensor types that a Llama model needs.
Layout: ggml's docs/gguf.md."""
import struct

import numpy as np

import bpe
import chat
from model import NORM_EPS, ROPE_BASE

_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_SCALAR = {_UINT32: "<I", _INT32: "<i", _FLOAT32: "<f", _BOOL: "<?"}
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
    """`kind`: f16 or q8_0 for all matrices, or a function from a tensor's name to f32, f16 or q8_0."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(values))
    for key, value in values.items():
        number, data = _value(value)
        head += _string(key) + struct.pack("<I", number) + data
    blobs, offset = [], 0
    for name, tensor in tensors.items():
        number, blob = _tensor(tensor, kind(name) if callable(kind) else kind)
        head += _string(name) + struct.pack("<I", tensor.ndim) + b"".join(struct.pack("<Q", size) for size in reversed(tensor.shape)) + struct.pack("<IQ", number, offset)
        blob += b"\0" * (-len(blob) % _ALIGN)
        blobs.append(blob)
        offset += len(blob)
    with open(path, "wb") as file:
        file.write(head + b"\0" * (-len(head) % _ALIGN))
        file.writelines(blobs)


_LAYER = {"ln1": "ln1", "ln2": "ln2", "q": "attn_q", "k": "attn_k", "v": "attn_v", "out": "attn_out", "up": "ffn_up", "down": "ffn_down"}


def export_tower(path, tower, projector, name, kind):
    """Writes a vision file (architecture clip, projector mlp) from a vision.tower.Tower and the Projector for one
    language model."""
    from vision import tower as vision

    shape, tensors = tower.shape, {}
    state = {key: weight.detach().float().cpu().numpy() for key, weight in tower.state_dict().items()}
    tensors["v.patch_embd.weight"] = state["patches.weight"].reshape(shape.width, 3, shape.patch, shape.patch)
    tensors["v.patch_embd.bias"] = state["patches.bias"]
    tensors["v.class_embd"] = state["class_vector"]
    tensors["v.position_embd.weight"] = state["positions"]
    for end in ("weight", "bias"):
        tensors[f"v.pre_ln.{end}"] = state[f"pre.{end}"]
        tensors |= {f"v.blk.{number}.{theirs}.{end}": state[f"layers.{number}.{mine}.{end}"] for number in range(shape.layers) for mine, theirs in _LAYER.items()}
    for number, linear in ((0, projector.first), (2, projector.last)):
        tensors[f"mm.{number}.weight"], tensors[f"mm.{number}.bias"] = (part.detach().float().cpu().numpy() for part in (linear.weight, linear.bias))
    # Programs that read such files skip LLaVA's last layer, so the file declares one layer more than it has.
    values = {
        "general.architecture": "clip", "general.name": name, "general.file_type": _FILE_TYPE[kind], "general.quantization_version": 2,
        "clip.has_vision_encoder": True, "clip.projector_type": "mlp", "clip.use_gelu": True,
        "clip.vision.image_size": shape.side, "clip.vision.patch_size": shape.patch, "clip.vision.embedding_length": shape.width,
        "clip.vision.feed_forward_length": shape.ffn, "clip.vision.block_count": shape.layers + 1, "clip.vision.attention.head_count": shape.heads,
        "clip.vision.attention.layer_norm_epsilon": vision.EPS, "clip.vision.projection_dim": projector.last.out_features,
        "clip.vision.image_mean": [vision.MEAN] * 3, "clip.vision.image_std": [vision.DEVIATION] * 3,
    }
    write(path, values, tensors, kind)


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
    if isinstance(value[0], float):
        return _ARRAY, struct.pack("<IQ", _FLOAT32, len(value)) + np.array(value, "<f4").tobytes()
    return _ARRAY, struct.pack("<IQ", _INT32, len(value)) + np.array(value, "<i4").tobytes()


def _tensor(tensor, kind):
    if tensor.ndim == 1 or kind == "f32":
        return _F32, tensor.astype("<f4").tobytes()
    if kind == "q8_0" and tensor.shape[-1] % 32 == 0 and tensor.ndim == 2:
        return _Q8_0, _q8_0(tensor)
    return _F16, tensor.astype("<f2").tobytes()


def _q8_0(tensor):
    """Blocks of 32 values: a scale and 32 signed bytes."""
    block = tensor.astype(np.float32).reshape(-1, 32)
    scale = np.abs(block).max(1, keepdims=True) / 127
    quantized = np.rint(np.divide(block, scale, out=np.zeros_like(block), where=scale > 0)).astype(np.int8)
    out = np.empty((len(block), 34), np.uint8)
    out[:, :2] = scale.astype("<f2").view(np.uint8).reshape(-1, 2)
    out[:, 2:] = quantized.view(np.uint8)
    return out.tobytes()


def restore(path):
    """Reads a model written by `export`, to continue training: (shape, state of its Llama in fp32, tokenizer). Weights
    from Q8_0 keep their rounding. Raises a ValueError that names the problem if the file contains something that
    this code does not train."""
    import torch

    values, tensors = read(path)
    if (values.get("general.architecture"), values.get("tokenizer.ggml.pre")) != ("llama", "qwen2"):
        raise ValueError(f"{path}: not a llama with the qwen2 pre-tokenizer")
    if abs(values["llama.rope.freq_base"] / ROPE_BASE - 1) > 1e-6 or values["tokenizer.ggml.tokens"][-len(bpe.SPECIALS):] != bpe.SPECIALS:
        raise ValueError(f"{path}: the rotary base or the special tokens are not those that this code trains with")
    sizes = dict(dim="embedding_length", layers="block_count", heads="attention.head_count", kv_heads="attention.head_count_kv", ffn="feed_forward_length", context="context_length")
    names = {"token_embd.weight": "embedding.weight", "output_norm.weight": "norm.weight"}
    parts = {theirs: mine for mine, theirs in _BLOCK.items()}
    state = {}
    for name, values_of in tensors.items():
        if name.startswith("blk."):
            _, number, part, _ = name.split(".")
            state[f"blocks.{number}.{parts[part]}.weight"] = torch.from_numpy(values_of)
        else:
            state[names[name]] = torch.from_numpy(values_of)
    return {size: values["llama." + key] for size, key in sizes.items()}, state, bpe.Tokenizer(values["tokenizer.ggml.tokens"], values["tokenizer.ggml.merges"])


def restore_tower(path):
    """Reads a vision file written by `export_tower`, to continue training: (TowerShape, state of its Tower, state of
    its Projector)."""
    import torch

    from vision.tower import TowerShape

    values, tensors = read(path)
    if (values.get("general.architecture"), values.get("clip.projector_type")) != ("clip", "mlp"):
        raise ValueError(f"{path}: not a vision file that this code wrote")
    shape = TowerShape(values["clip.vision.embedding_length"], values["clip.vision.block_count"] - 1, values["clip.vision.attention.head_count"], values["clip.vision.feed_forward_length"],
                       len(tensors["mm.0.bias"]), values["clip.vision.image_size"], values["clip.vision.patch_size"])
    found = {"patches.weight": tensors["v.patch_embd.weight"].reshape(shape.width, -1), "patches.bias": tensors["v.patch_embd.bias"], "class_vector": tensors["v.class_embd"],
             "positions": tensors["v.position_embd.weight"]}
    for end in ("weight", "bias"):
        found[f"pre.{end}"] = tensors[f"v.pre_ln.{end}"]
        found |= {f"layers.{number}.{mine}.{end}": tensors[f"v.blk.{number}.{theirs}.{end}"] for number in range(shape.layers) for mine, theirs in _LAYER.items()}
    projector = {f"{mine}.{end}": tensors[f"mm.{number}.{end}"] for number, mine in ((0, "first"), (2, "last")) for end in ("weight", "bias")}
    tensor = lambda state: {key: torch.from_numpy(array.copy()) for key, array in state.items()}
    return shape, tensor(found), tensor(projector)


def read(path):
    """(values by key, tensors by name as fp32 arrays) of a file that has only the types written by `write`."""
    with open(path, "rb") as file:
        data = file.read()
    magic, version, tensors, values = struct.unpack_from("<4sIQQ", data)
    if magic != b"GGUF" or version != 3:
        raise ValueError(f"{path}: not GGUF version 3")
    at = struct.calcsize("<4sIQQ")

    def take(form):
        nonlocal at
        found = struct.unpack_from(form, data, at)[0]
        at += struct.calcsize(form)
        return found

    def value(number):
        nonlocal at
        if number == _STRING:
            size = take("<Q")
            at += size
            return data[at - size:at].decode()
        if number == _ARRAY:
            inside, count = take("<I"), take("<Q")
            return [value(inside) for _ in range(count)]
        if number not in _SCALAR:
            raise ValueError(f"{path}: a value has the unsupported type {number}")
        return take(_SCALAR[number])

    found = {}
    for _ in range(values):
        key = value(_STRING)
        found[key] = value(take("<I"))
    places = []
    for _ in range(tensors):
        name = value(_STRING)
        shape = [take("<Q") for _ in range(take("<I"))][::-1]
        places.append((name, shape, take("<I"), take("<Q")))
    start = -(-at // _ALIGN) * _ALIGN
    return found, {name: _restored(path, name, data, start + offset, shape, number) for name, shape, number, offset in places}


def _restored(path, name, data, at, shape, number):
    size = int(np.prod(shape))
    if number == _Q8_0:
        blocks = np.frombuffer(data, np.uint8, size // 32 * 34, at).reshape(-1, 34)
        return (blocks[:, :2].copy().view("<f2").astype(np.float32) * blocks[:, 2:].view(np.int8)).reshape(shape)
    if number not in (_F32, _F16):
        raise ValueError(f"{path}: {name} has the unsupported type {number}")
    return np.frombuffer(data, {_F32: "<f4", _F16: "<f2"}[number], size, at).astype(np.float32).reshape(shape)
