// The table of one instruction set's kernels; after the other *-inl.h, inside the unnamed
// namespace.

constexpr OpKernels kKernels = {
    .rms_norm = rms_norm,
    .rotate = rotate,
    .to_half = to_half,
    .quantize_q8 = quantize_q8,
    .pack_query_q8 = pack_query_q8,
    .silu_multiply = silu_multiply,
    .gelu_multiply = gelu_multiply,
    .clamped_silu_multiply = clamped_silu_multiply,
    .scale = scale,
    .soft_cap = soft_cap,
    .add_scaled = add_scaled,
    .attention_span = attention_span,
    .attention_merge_tile = attention_merge_tile,
    .attention_merge = attention_merge,
    .attention_finish = attention_finish,
    .logits = {.max = logit_max,
               .sum_exp = logit_sum_exp,
               .exp = logit_exp,
               .argmax = logit_argmax},
};
