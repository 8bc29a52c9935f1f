// Settings for inference: device, memory, batches, the queue, caches and draft tokens.
import * as kind from '../kinds.js';
import { setting } from './setting.js';

export const engine = {
  threads: setting(kind.integer(0, 1024), 0, 'CPU threads for inference; 0 = one per core.', {
    alias: 'threads',
    main: true,
  }),
  device: setting(
    kind.device,
    'cpu',
    'Device for inference: cpu, cuda (the first NVIDIA GPU), cuda:N, or auto (a GPU if there is one).',
    { alias: 'device', main: true },
  ),
  isa: setting(
    kind.choice('auto', 'plain', 'avx2', 'avx_vnni', 'avx512', 'amx', 'neon', 'neon_i8mm'),
    'auto',
    'Instruction set of the CPU kernels; auto = the best one that the CPU supports.',
    { alias: 'isa', main: true },
  ),
  arithmetic: setting(
    kind.choice('production', 'fast', 'exact'),
    'production',
    "Precision of matmuls and attention. production: activations are rounded as the kernels require; fast (requires AMX): BF16 in steps of 64 or more tokens, which is faster but makes a request's output depend on the other requests in the batch; exact: fp32, slow, for comparing logits.",
    { alias: 'arithmetic' },
  ),
  batch_invariant: setting(
    kind.flag,
    true,
    "Make a request's output bit-identical regardless of the other requests in the batch. false: a GPU may use faster matmuls that depend on the batch size. A CPU is always batch-invariant except with engine.arithmetic fast, which changes the default to false.",
  ),
  cublaslt: setting(
    kind.nullable(kind.text(1, 4096)),
    'auto',
    "cuBLASLt library for long prompts to BF16 models on a GPU, used only with batch_invariant false: auto = the system's installation; a path; off = do not use it.",
  ),
  kv_type: setting(
    kind.choice('f16', 'q8_0', 'q5_0', 'q4_0', 'fp8', 'f32'),
    'f16',
    'Data type of the KV cache. Compared with f16, the same memory holds nearly 2 times as many tokens in q8_0 and fp8 (GPU only), nearly 3 times as many in q5_0 and 3.5 times as many in q4_0 (both CPU only). Precision decreases from f16 to q8_0, fp8, q5_0 and q4_0.',
    { alias: 'kv-type' },
  ),
  max_context: setting(
    kind.integer(0, 16_777_216),
    0,
    'Maximum prompt plus completion, in tokens; 0 = the limit in the model file, reduced to what fits in memory.',
    { alias: 'max-context', main: true },
  ),
  kv_bytes: setting(
    kind.bytes(0, 2 ** 46),
    0,
    'KV cache memory per model, in bytes (for example 2GiB); 0 = automatic (CPU: a quarter of the free memory, at most 8 GiB; GPU: most of the memory that the weights leave free).',
    { alias: 'kv-bytes', main: true },
  ),
  max_batch_tokens: setting(
    kind.integer(0, 65_536),
    0,
    'Maximum tokens per engine step, decode tokens first; 0 = automatic (256 on CPU, 2048 on GPU).',
    { main: true },
  ),
  max_sequences: setting(kind.integer(1, 4_096), 32, 'Maximum concurrently running sequences per model.', {
    main: true,
  }),
  step_ms: setting(
    kind.integer(0, 60_000),
    250,
    "Target upper bound, in ms, on the inter-token latency that other requests' prefill may cause; 0 = no bound.",
    { main: true },
  ),
  queue_max: setting(
    kind.integer(1, 1_000_000),
    512,
    'Maximum queued requests per model. Requests over the limit are rejected with 503.',
  ),
  queue_max_tokens: setting(
    kind.integer(1, 1e9),
    4_000_000,
    'Maximum prompt tokens of all queued requests per model. Requests over the limit are rejected with 503.',
  ),
  queue_wait_ms: setting(
    kind.integer(1, 3_600_000),
    30_000,
    'Maximum time in the queue, in ms. The request is then rejected with 503.',
  ),
  load_wait_ms: setting(
    kind.integer(1, 3_600_000),
    120_000,
    'Maximum time, in ms, that a request waits for its model to load. The request is then rejected with 503, and loading continues.',
  ),
  max_generation_ms: setting(
    kind.integer(1, 86_400_000),
    3_600_000,
    'Maximum duration of one generation, in ms. A longer generation ends with finish reason `length`.',
  ),
  drain_ms: setting(
    kind.integer(0, 3_600_000),
    30_000,
    'Time, in ms, that running requests have to finish at shutdown. Requests that are still running then end with finish reason `length`.',
  ),
  stall_ms: setting(
    kind.integer(100, 3_600_000),
    30_000,
    'Maximum time, in ms, between the engine steps of a busy model before /readyz reports it as not ready.',
  ),
  prefix_cache: setting(kind.flag, true, 'Reuse the KV cache of earlier prompts with the same prefix.'),
  snapshot_tokens: setting(
    kind.integer(16, 1_048_576),
    1024,
    'Number of prompt tokens between the states saved for prefix caching, for models with recurrent state. A state is also saved at the end of each prompt. `monolith inspect` shows the size of one state.',
  ),
  speculation: setting(
    kind.choice('auto', 'off'),
    'auto',
    'Speculative decoding with draft tokens from the text itself or from a draft model. It does not change the output. auto: used as long as measurements show that it is faster.',
  ),
  mtp: setting(
    kind.choice('auto', 'always', 'off'),
    'auto',
    "Draft tokens from the model's own multi-token-prediction layers (`nextn` tensors), used if no draft model is set. auto: on CPUs only, as long as measurements show that it is faster; always: in every step, including on GPUs; off: the layers are not loaded.",
  ),
};
