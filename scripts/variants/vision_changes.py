"""Changes of vision files (mmproj) that keep them valid: other sizes, other keys, missing tensors."""
import re

from changes import absent_key, key, like, names, need, resized, without


def projector(file):
    return file.values["clip.projector_type"]


def layers(file):
    n = file.get("block_count")
    for name in names(file, rf"^v\.blk\.{n - 1}\."):
        file.tensors[name.replace(f"blk.{n - 1}.", f"blk.{n}.")] = like(file.tensors[name])
    file.set("block_count", n + 1)
    if file.get("is_deepstack_layers"):
        file.set("is_deepstack_layers", file.get("is_deepstack_layers") + [False])


def inner(file):
    size = file.get("feed_forward_length") + 32
    for name in names(file, r"^v\.blk\.\d+\.ffn_(up|gate|down)\.(weight|bias)"):
        if not name.endswith("ffn_down.bias"):
            file.tensors[name] = resized(file.tensors[name], 1 if "down" in name else 0, size)
    file.set("feed_forward_length", size)


def heads(file):
    n = file.get("attention.head_count")
    head = file.get("embedding_length") // n
    for name in names(file, r"attn_(q|k)_norm"):
        file.tensors[name] = resized(file.tensors[name], 0, head // 2)
    file.set("attention.head_count", 2 * n)


def width(file):
    need(projector(file) in ("pixtral", "mlp", "gemma3"))
    old = file.get("embedding_length")
    new = old + 32
    for name, numbers in list(file.tensors.items()):
        if re.search(r"patch_embd|(pre_ln|post_ln|ln1|ln2|input_norm|soft_emb_norm)\.|class_embd|ffn_down\.", name):
            file.tensors[name] = resized(numbers, 0, new)
        elif re.search(r"attn_(q|k|v|out)\.", name):
            numbers = resized(numbers, 0, new)
            file.tensors[name] = resized(numbers, 1, new) if numbers.ndim == 2 else numbers
        elif re.search(r"position_embd|ffn_(up|gate)\.weight|^mm\.0\.weight", name) or name == "mm.1.weight" and numbers.shape[1] == old:
            file.tensors[name] = resized(numbers, 1, new)
        elif name == "mm.input_projection.weight":
            file.tensors[name] = resized(numbers, 0, new)
        need(name != "mm.patch_merger.weight")
    file.set("embedding_length", new)
    file.set("attention.head_count", 3)


def image_size(file):
    size, patch = file.get("image_size"), file.get("patch_size")
    old = size // patch
    new = old + (file.get("projector.scale_factor") or 2)
    need(projector(file) != "kimik25")
    if projector(file) in ("idefics3", "internvl", "gemma3", "lfm2", "qwen3vl_merger", "mlp"):
        table = file.tensors["v.position_embd.weight"]
        file.tensors["v.position_embd.weight"] = resized(table, 0, new * new + table.shape[0] - old * old)
    if file.get("preproc_image_size"):
        file.set("preproc_image_size", new * patch * 3)
    if file.get("image_grid_pinpoints"):
        file.set("image_grid_pinpoints", [n // size * new * patch for n in file.get("image_grid_pinpoints")])
    file.set("image_size", new * patch)


def patch_size(file):
    old, size = file.get("patch_size"), file.get("image_size")
    new = old - 4 if old == 16 else old + 2
    need(projector(file) != "lfm2")   # its tile size of 512 pixels is fixed
    for name in names(file, r"v\.patch_embd\.weight"):
        file.tensors[name] = resized(resized(file.tensors[name], 2, new), 3, new)
    if size % old == 0:
        file.set("image_size", size // old * new)
    for name in ("preproc_image_size", "image_grid_pinpoints"):
        value = file.get(name)
        if value:
            file.set(name, [n // old * new for n in value] if isinstance(value, list) else value // old * new)
    file.set("patch_size", new)


def merged(file):
    old, dim = file.get("projector.scale_factor"), file.get("embedding_length")
    need(projector(file) in ("idefics3", "internvl", "gemma3"))
    new = 2 if projector(file) == "gemma3" else 4
    for name in names(file, r"^mm\.model\.(fc|mlp\.[01])\."):
        numbers = file.tensors[name]
        if numbers.shape[-1] == dim * old * old:
            file.tensors[name] = resized(numbers, numbers.ndim - 1, dim * new * new)
    file.set("projector.scale_factor", new)


def activation(name):
    def run(file):
        for other in ("clip.use_gelu", "clip.use_silu"):
            file.drop(other)
        if name:
            file.set(name, True)
    run.__name__ = name or "GELU by a logistic function"
    return run


ALL = [
    layers, inner, heads, width, image_size, patch_size, merged,
    activation("clip.use_gelu"), activation("clip.use_silu"), activation(None),
    key("attention.layer_norm_epsilon", lambda v: v / 100), key("image_mean", lambda v: [0.1, 0.4, 0.6]), key("image_std", lambda v: [0.3, 0.5, 0.9]),
    key("image_min_pixels", lambda v: v * 20), key("image_max_pixels", lambda v: v // 5),
    absent_key("image_min_pixels", 60000), absent_key("image_max_pixels", 60000),
    key("preproc_max_tiles", lambda v: 4), key("preproc_min_tiles", lambda v: 3), absent_key("preproc_max_tiles", 4), absent_key("preproc_min_tiles", 3),
    key("preproc_image_size", lambda v: v // 3 * 4), absent_key("preproc_image_size", 500), key("n_wa_pattern", lambda v: 3), absent_key("window_size", 56),
    key("image_grid_pinpoints", lambda v: v[:4]), key("mm_patch_merge_type", lambda v: "flat"), absent_key("mm_patch_merge_type", "spatial_unpad"),
    key("is_deepstack_layers", lambda v: v[::-1]), key("is_deepstack_layers", lambda v: [False] * len(v)),
    without(r"v\.post_ln"), without(r"v\.pre_ln"), without(r"ffn_(up|gate|down)\.bias"), without(r"attn_(q|k|v|out|qkv)\.bias"),
    without("patch_embd.bias"), without("std_(bias|scale)"), without("(input|output)_(min|max)"), without("image_newline"),
    without(r"mm\.input_norm"), without(r"ls(1|2)\."), without(r"ln(1|2)\.bias"), without("ffn_gate"),
]
