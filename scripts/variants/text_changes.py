"""Changes of text models that keep them valid: other sizes, other keys, additional or missing tensors."""
import re

import numpy as np

from changes import absent_key, key, like, names, need, random, resized, without

MAMBA2 = ("mamba2", "falcon-h1", "nemotron_h", "nemotron_h_moe", "granitehybrid")
DELTA = ("qwen35", "qwen35moe", "qwen3next")


def layer_of(name):
    return int(name.split(".")[1])


def by_layer(file, value):
    return value if isinstance(value, list) else [value] * file.get("block_count")


def head_size(file):
    return file.get("attention.key_length") or file.get("embedding_length") // max(by_layer(file, file.get("attention.head_count")))


def step(file):
    """The increment of a size: rows remain multiples of a super-block."""
    return 32 if file.get("embedding_length") % 256 else 256


def resize_named(file, rules, where=lambda name: True):
    """`rules`: maps a pattern of names (after "blk.N.") to axis and size."""
    for name, numbers in list(file.tensors.items()):
        for pattern, axis, size in rules:
            if re.search(pattern, name) and where(name):
                file.tensors[name] = resized(numbers, axis, size)
                break


# Sizes that every model has.

def inner(file):
    old = file.get("feed_forward_length")
    need(old is not None and names(file, r"ffn_down\.weight"))
    more = step(file)
    for name in names(file, r"blk\.\d+\.ffn_(gate|up|down)\.(weight|bias)$"):
        numbers, of = file.tensors[name], old[layer_of(name)] if isinstance(old, list) else old
        if "down" not in name:
            halves = numbers.shape[0] // of if numbers.shape[0] % of == 0 else 1
            file.tensors[name] = resized(numbers, 0, numbers.shape[0] + more * halves)
        elif name.endswith("weight"):
            file.tensors[name] = resized(numbers, 1, numbers.shape[1] + more)
    file.set("feed_forward_length", [n + more if n else 0 for n in old] if isinstance(old, list) else old + more)


def width(file):
    old = file.get("embedding_length")
    new = old + 2 * step(file) if old % 256 else old + 256
    need(file.architecture not in ("gemma3n", "deepseek4") and not file.get("embedding_length_per_layer_input"))
    heads = max(by_layer(file, file.get("attention.head_count")))
    if file.get("attention.key_length") is None and heads > 0:
        file.set("attention.key_length", old // heads)
        file.set("attention.value_length", old // heads)
    takes = (r"\.(attn_(q|k|v|qkv|q_a|kv_a_mqa|gate)|ffn_(gate|up|gate_inp|gate_up)(_exps|_shexp)?|ssm_(in|ba|alpha|beta|beta_alpha|[fg]_a)"
             r"|shortconv\.in_proj|indexer\.(proj|attn_k|k))\.weight$")
    gives = r"\.(attn_output|attn_out|ffn_down(_exps|_shexp)?|ssm_out|shortconv\.out_proj)\.(weight|bias)$"
    norms = r"\.(attn_norm|attn_norm_2|ffn_norm|post_\w*norm|ffn_post_norm\w*|pre_\w*norm\w*|ffn_pre_norm\w*|layer_output_norm|attn_p\w+_norm|ffn_gate_inp\.scale)"
    for name, numbers in list(file.tensors.items()):
        if name in ("token_embd.weight", "output.weight"):
            file.tensors[name] = resized(numbers, 1, new)
        elif re.search(r"^(output_norm|token_embd_norm)\.", name):
            file.tensors[name] = resized(numbers, 0, new)
        elif re.search(takes, name) and numbers.shape[-1] == old:
            file.tensors[name] = resized(numbers, numbers.ndim - 1, new)
        elif re.search(gives, name):
            file.tensors[name] = resized(numbers, max(0, numbers.ndim - 2), new)
        elif re.search(norms, name) and numbers.shape[-1] == old:
            file.tensors[name] = resized(numbers, numbers.ndim - 1, new)
    file.set("embedding_length", new)
    resize_named(file, [(r"shortconv\.conv\.weight", 0, new), (r"shortconv\.in_proj", 0, 3 * new), (r"shortconv\.out_proj", 1, new)])


def layers(file):
    """Adds as many layers as the layer pattern is long, if a key defines one."""
    n, every = file.get("block_count"), file.get("full_attention_interval") or file.get("attention.sliding_window_pattern")
    listed = any(isinstance(v, list) and len(v) == n for k, v in file.values.items() if k.startswith(file.prefix))
    more = min(n, every if isinstance(every, int) else n if listed else 1)
    need(file.architecture != "gemma3n" and not file.get("attention.shared_kv_layers"))
    for i in range(more):
        for name in names(file, rf"^blk\.{n - more + i}\."):
            file.tensors[name.replace(f"blk.{n - more + i}.", f"blk.{n + i}.")] = like(file.tensors[name])
    for name, value in list(file.values.items()):
        if name.startswith((file.prefix, "xielu")) and isinstance(value, list) and len(value) == n and "sections" not in name:
            file.values[name] = value + value[n - more:]
    file.set("block_count", n + more)


# Attention.

def heads(file):
    n, kv = file.get("attention.head_count"), file.get("attention.head_count_kv")
    need(n and names(file, "attn_output|attn_out") and (not names(file, "attn_qkv") or file.architecture in DELTA))
    size, most = head_size(file), max(by_layer(file, n))
    for name in ("attention.key_length", "attention.value_length"):
        if file.get(name) is None:
            file.set(name, size)
    of_queries = r"\.(attn_q\.(weight|bias)|attn_q_b\.weight|attn_sinks(\.weight)?|attn_(k|v)_b\.weight)$"
    if file.architecture not in DELTA:
        of_queries += r"|\.attn_gate\.weight$"
    if kv == n:
        of_queries += r"|\.attn_(k|v)\.(weight|bias)$"
    for name, numbers in list(file.tensors.items()):
        whole = numbers.ndim == 2 or numbers.shape[0] == most * size > size
        if re.search(of_queries, name) or re.search(r"attn_q_norm\.weight", name) and whole or kv == n and re.search(r"attn_k_norm\.weight", name) and whole:
            file.tensors[name] = resized(numbers, 0, 2 * numbers.shape[0])
        elif re.search(r"\.(attn_output|attn_out)\.weight$", name):
            file.tensors[name] = resized(numbers, 1, 2 * numbers.shape[1])
    file.set("attention.head_count", [2 * i for i in n] if isinstance(n, list) else 2 * n)
    if kv == n:
        file.set("attention.head_count_kv", 2 * kv)


def kv_heads(file):
    need(file.get("attention.head_count") and names(file, r"attn_k\.weight"))
    queries, old = by_layer(file, file.get("attention.head_count")), by_layer(file, file.get("attention.head_count_kv"))
    new = [2 * k if k > 0 and n % (2 * k) == 0 else k for n, k in zip(queries, old)]
    need(new != old)
    size = head_size(file)
    for name in names(file, r"blk\.\d+\.attn_(k|v|k_norm)\.(weight|bias)$"):
        numbers, k = file.tensors[name], old[layer_of(name)]
        if k == 0 or "norm" in name and not (numbers.ndim == 2 or numbers.shape[0] == k * size > size):
            continue
        file.tensors[name] = resized(numbers, 0, numbers.shape[0] // k * new[layer_of(name)])
    file.set("attention.head_count_kv", new if isinstance(file.get("attention.head_count_kv"), list) else new[0])


def head_sizes(file):
    need(file.get("attention.head_count") and names(file, r"attn_k\.weight"))
    need(not names(file, "attn_kv_a|attn_qkv|kv_b|indexer") and not file.get("attention.key_length_swa"))
    queries, kv = by_layer(file, file.get("attention.head_count")), by_layer(file, file.get("attention.head_count_kv"))
    k = head_size(file)
    v = file.get("attention.value_length") or k

    def each(numbers, axis, groups, new):
        return np.concatenate([resized(part, axis, new) for part in np.split(numbers, groups, axis=axis)], axis=axis)

    for name in names(file, r"blk\.\d+\.attn_"):
        numbers, i, of = file.tensors[name], layer_of(name), name.split(".", 2)[2]
        if of in ("attn_q.weight", "attn_q.bias"):
            file.tensors[name] = each(numbers, 0, numbers.shape[0] // k, k + 32)   # twice as many heads with gates
        elif of in ("attn_k.weight", "attn_k.bias"):
            file.tensors[name] = each(numbers, 0, kv[i], k + 32)
        elif of in ("attn_v.weight", "attn_v.bias"):
            file.tensors[name] = each(numbers, 0, kv[i], v + 32)
        elif of == "attn_output.weight":
            file.tensors[name] = each(numbers, 1, queries[i], v + 32)
        elif of in ("attn_q_norm.weight", "attn_k_norm.weight"):
            file.tensors[name] = (resized(numbers, 1, k + 32) if numbers.ndim == 2 else resized(numbers, 0, numbers.shape[0] // k * (k + 32)))
        elif of == "attn_gate.weight" and numbers.shape[0] == queries[i] * v:
            file.tensors[name] = each(numbers, 0, queries[i], v + 32)
    file.set("attention.key_length", k + 32)
    file.set("attention.value_length", v + 32)
    for name in ("rope.dimension_count", "rope.dimension_count_swa"):
        if file.get(name) == k:
            file.set(name, k + 32)


def latent(file):
    old, turned = file.get("attention.kv_lora_rank"), file.get("rope.dimension_count")
    need(old)
    new = old + 32
    for name, numbers in list(file.tensors.items()):
        if name.endswith("attn_kv_a_mqa.weight"):
            file.tensors[name] = np.concatenate([resized(numbers[:old], 0, new), numbers[old:]], 0)
    resize_named(file, [(r"attn_kv_a_norm\.weight", 0, new), (r"attn_k_b\.weight", 1, new), (r"attn_v_b\.weight", 2, new)])
    file.set("attention.kv_lora_rank", new)
    file.set("attention.key_length", new + turned)
    file.set("attention.value_length", new)


def latent_of_queries(file):
    old = file.get("attention.q_lora_rank")
    need(old)
    resize_named(file, [(r"attn_q_a(_norm)?\.weight", 0, old + 32), (r"attn_q_b\.weight", 1, old + 32)])
    file.set("attention.q_lora_rank", old + 32)


def latent_values(file):
    old = file.get("attention.value_length_mla")
    need(old)
    for name in names(file, r"attn_v_b\.weight"):
        out = f"blk.{layer_of(name)}.attn_output.weight"
        file.tensors[name] = resized(file.tensors[name], 1, old + 32)
        file.tensors[out] = resized(file.tensors[out], 1, file.tensors[out].shape[1] // old * (old + 32))
    file.set("attention.value_length_mla", old + 32)


# Experts.

def expert_inner(file):
    need(names(file, r"_exps\."))
    name_of = "expert_feed_forward_length" if file.get("expert_feed_forward_length") else "feed_forward_length"
    old, shared = file.get(name_of), file.get("expert_shared_count")
    need(not isinstance(old, list))
    new = old + 32
    for name in names(file, r"ffn_\w+_exps\.weight"):
        numbers = file.tensors[name]
        file.tensors[name] = resized(numbers, 2, new) if "down" in name else resized(numbers, 1, numbers.shape[1] // old * new)
    if not file.get("expert_shared_feed_forward_length"):
        for name in names(file, r"ffn_(gate|up|down)_shexp\.weight"):
            file.tensors[name] = resized(file.tensors[name], 1 if "down" in name else 0, new * (shared or 1))
    if file.get("feed_forward_length") == old and not names(file, r"ffn_down\.weight"):
        file.set("feed_forward_length", new)
    file.set(name_of, new)


def shared_inner(file):
    old = file.get("expert_shared_feed_forward_length")
    need(old)
    resize_named(file, [(r"ffn_(gate|up)_shexp\.weight", 0, old + 32), (r"ffn_down_shexp\.weight", 1, old + 32)])
    file.set("expert_shared_feed_forward_length", old + 32)


def experts(file):
    old = file.get("expert_count")
    need(old)
    new = old + 2 * (file.get("expert_group_count") or 1)
    for name, numbers in list(file.tensors.items()):
        of_each = re.search(r"_exps(\.|_|$)", name) or re.search("ffn_gate_inp|exp_probs_b", name) and "shexp" not in name
        if of_each and numbers.shape[0] == old:
            file.tensors[name] = resized(numbers, 0, new)
    file.set("expert_count", new)


def experts_used(file):
    used = file.get("expert_used_count")
    need(used and not names(file, "tid2eid"))
    file.set("expert_used_count", used + 1 if used < file.get("expert_count") else used - 1)


def choice_bias(file):
    need(names(file, r"ffn_gate_inp\.weight") and not names(file, "exp_probs_b") and file.get("expert_gating_func") == 2)
    for name in names(file, r"ffn_gate_inp\.weight"):
        size = file.tensors[name].shape[0]
        file.tensors[name.replace("ffn_gate_inp.weight", "exp_probs_b.bias")] = (0.3 * random.standard_normal(size)).astype(np.float32)


# Recurrent layers.

def convolution(size):
    def run(file):
        need(names(file, r"ssm_conv1d(_\w)?\.weight"))
        for name in names(file, r"ssm_conv1d(_\w)?\.weight"):
            numbers = file.tensors[name]
            if numbers.shape[-1] == 4:
                file.tensors[name] = resized(numbers, numbers.ndim - 1, size)
        file.set("ssm.conv_kernel", size)
    run.__name__ = f"convolution of {size}"
    return run


def short_convolution(file):
    need(file.get("shortconv.l_cache"))
    resize_named(file, [(r"shortconv\.conv\.weight", 1, 4)])
    file.set("shortconv.l_cache", 4)


def mamba2(name, of):
    """`of`: maps state size, groups and heads to new values."""
    def run(file):
        need(file.architecture in MAMBA2 and file.get("ssm.state_size"))
        old = (file.get("ssm.state_size"), file.get("ssm.group_count"), file.get("ssm.time_step_rank"))
        state, groups, n_heads = of(*old)
        need((state, groups, n_heads) != old and n_heads % groups == 0)
        size = file.get("ssm.inner_size") // old[2] * n_heads
        for at in names(file, r"ssm_norm\.weight"):
            file.tensors[at] = np.resize(file.tensors[at], (groups, size // groups)).astype(np.float32)
        resize_named(file, [(r"ssm_in\.weight", 0, 2 * size + 2 * groups * state + n_heads), (r"ssm_conv1d\.", 0, size + 2 * groups * state),
                            (r"ssm_dt\.bias|ssm_(a|d)$", 0, n_heads), (r"ssm_out\.weight", 1, size)])
        for at, value in (("state_size", state), ("group_count", groups), ("time_step_rank", n_heads), ("inner_size", size)):
            file.set("ssm." + at, value)
    run.__name__ = name
    return run


def delta_net(name, of):
    """`of`: maps head size, key heads and value heads to new values."""
    def run(file):
        need(file.architecture in DELTA)
        size, keys, values = of(file.get("ssm.state_size"), file.get("ssm.group_count"), file.get("ssm.time_step_rank"))
        resize_named(file, [(r"attn_qkv\.weight|ssm_conv1d\.weight", 0, (2 * keys + values) * size), (r"attn_gate\.weight", 0, values * size),
                            (r"ssm_dt\.bias|ssm_a$|ssm_(alpha|beta)\.weight", 0, values), (r"ssm_ba\.weight", 0, 2 * values),
                            (r"ssm_norm\.weight", 0, size), (r"ssm_out\.weight", 1, values * size)])
        for at, value in (("state_size", size), ("group_count", keys), ("time_step_rank", values), ("inner_size", values * size)):
            file.set("ssm." + at, value)
    run.__name__ = name
    return run


# Additional tensors.

def untied(file):
    need("output.weight" not in file.tensors)
    file.tensors["output.weight"] = like(file.tensors["token_embd.weight"], 1)


def rope_factors(file):
    n_heads = max(by_layer(file, file.get("attention.head_count")))
    need("rope_freqs.weight" not in file.tensors and n_heads > 0)
    file.tensors["rope_freqs.weight"] = np.linspace(1, 8, (file.get("rope.dimension_count") or head_size(file)) // 2).astype(np.float32)


def biases(pattern):
    def run(file):
        need(names(file, pattern + r"\.weight") and not names(file, pattern + r"\.bias"))
        for name in names(file, pattern + r"\.weight"):
            size = file.tensors[name].shape[0]
            file.tensors[name.replace(".weight", ".bias")] = (0.3 * random.standard_normal(size)).astype(np.float32)
    run.__name__ = f"biases of {pattern}"
    return run


def mixture(file):
    return file.get("expert_count")


ALL = [
    inner, width, layers, heads, kv_heads, head_sizes, latent, latent_of_queries, latent_values,
    expert_inner, shared_inner, experts, experts_used, choice_bias,
    convolution(3), convolution(5), short_convolution,
    mamba2("larger states", lambda s, g, h: (2 * s, g, h)), mamba2("more groups", lambda s, g, h: (s, 2 * g, h)),
    mamba2("more heads", lambda s, g, h: (s, g, 2 * h)), mamba2("one group", lambda s, g, h: (s, 1, h)),
    delta_net("more heads of values", lambda d, k, v: (d, k, 2 * v)), delta_net("as many of keys", lambda d, k, v: (d, v, v)),
    delta_net("larger heads", lambda d, k, v: (2 * d, k, v)),
    untied, rope_factors, biases("attn_(q|k|v)"), biases("attn_output"),
    without("^output.weight"), without("exp_probs_b"), without("_shexp"), without("attn_(q|k)_norm"),
    key("rope.freq_base", lambda v: 3 * v), key("rope.freq_base_swa", lambda v: 3 * v), key("rope.dimension_count", lambda v: v // 2 if v >= 16 else v),
    key("attention.layer_norm_rms_epsilon", lambda v: 100 * v), key("attention.layer_norm_epsilon", lambda v: 100 * v),
    key("attention.sliding_window", lambda v: v // 2 + 5), key("attention.sliding_window", lambda v: 100 * v),
    key("attention.sliding_window_pattern", lambda v: v if isinstance(v, int) else v[::-1]), key("attention.indexer.top_k", lambda v: v // 2 + 3),
    key("attention.temperature_scale", lambda v: 4 * v), key("attention.temperature_length", lambda v: v // 4), key("attention.scale", lambda v: 1.5 * v),
    key("expert_weights_scale", lambda v: 1.7 * v), key("expert_weights_norm", lambda v: not v), key("expert_gating_func", lambda v: 3 - v if v < 3 else v),
    key("expert_group_used_count", lambda v: v - 1 if v > 1 else v),
    absent_key("expert_weights_scale", 1.6, mixture), absent_key("expert_weights_norm", True, mixture), absent_key("expert_weights_norm", False, mixture),
    key("swiglu_clamp_exp", lambda v: [0.5] * len(v)), key("swiglu_clamp_shexp", lambda v: [0.5] * len(v)),
    key("logit_scale", lambda v: 2.5 * v), key("final_logit_softcapping", lambda v: v / 3), key("residual_scale", lambda v: 1.5 * v),
    key("embedding_scale", lambda v: 1.5 * v), key("hyper_connection.sinkhorn_iterations", lambda v: v // 5),
    key("rope.scaling.factor", lambda v: 2 * v), key("rope.scaling.original_context_length", lambda v: 2 * v),
    key("rope.scaling.yarn_log_multiplier", lambda v: 3 * v), key("rope.scaling.yarn_beta_fast", lambda v: v / 2),
    key("rope.scaling.type", lambda v: "linear"), key("rope.scaling.type", lambda v: "none"),
    absent_key("rope.scaling.type", "linear", lambda file: file.get("rope.freq_base")),
]
