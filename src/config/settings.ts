// Declares every setting once, in `settings` below. Each declaration yields a flag (--http-keepalive-ms), an environment
// variable (MONOLITH_HTTP_KEEPALIVE_MS), a key in the JSON file (http.keepalive_ms), a default, a validation schema, and
// a line in --help and docs/reference/settings.md.

import { join } from 'node:path';
import { home } from './home.js';
import * as kind from './kinds.js';
import type { Kind } from './kinds.js';

export interface Setting<T> {
  kind: Kind<T>;
  default: T;
  help: string;
  /** The default as shown in help, if the value itself is not informative. */
  shown?: string;
  /** Shorter alternative name for the flag and the variable. */
  alias?: string;
  /** Former key and alias, accepted for one release with a notice. */
  renamedFrom?: { readonly key: string; readonly alias?: string };
  secret?: boolean;
  /** Environment variables of other tools, read if the setting's own variables are not set. */
  variables?: readonly string[];
  /** Listed by --help without --all. */
  main?: boolean;
}

function setting<T>(
  kindOf: Kind<T>,
  fallback: T,
  help: string,
  more: Omit<Setting<T>, 'kind' | 'default' | 'help'> = {},
): Setting<T> {
  return { kind: kindOf, default: fallback, help, ...more };
}

export const defaultDataDir = join(process.env['XDG_DATA_HOME'] ?? join(home(), '.local', 'share'), 'monolith');

/** The cache directory that Hugging Face tools share. */
const hubHome = process.env['HF_HOME'] ?? join(process.env['XDG_CACHE_HOME'] ?? join(home(), '.cache'), 'huggingface');

const OPENAI_USER_AGENTS = [
  'OpenAI/',
  'AsyncOpenAI/',
  'codex',
  'Agents/',
  'ai-sdk',
  'ai/',
  'langchainjs-openai/',
  'opencode/',
];

export const settings = {
  host: setting(
    kind.text(1, 255),
    '127.0.0.1',
    'Address to listen on. Use 0.0.0.0 or :: to listen on all interfaces.',
    { main: true },
  ),
  port: setting(
    kind.integer(0, 65_535),
    8080,
    'TCP port to listen on; 0 = any free port, shown in the startup message.',
    { main: true },
  ),
  data_dir: setting(
    kind.path,
    defaultDataDir,
    'Directory for the database and config.json. Created if it does not exist.',
    { shown: '~/.local/share/monolith', main: true },
  ),
  api_key: setting(
    kind.nullable(kind.text(8, 256)),
    null,
    'API key to accept, for example from a secret store. If unset, the first start creates a key and prints it.',
    { secret: true, shown: 'created', main: true },
  ),
  log: setting(kind.choice('text', 'json'), 'text', 'Format of the log lines and of the startup message.', {
    main: true,
  }),
  log_level: setting(
    kind.choice('debug', 'info', 'warn', 'error', 'silent'),
    'info',
    'Minimum severity of the log lines.',
  ),
  model: setting(
    kind.modelFiles,
    [],
    'Model to serve, as NAME=SOURCE; repeatable. SOURCE is a GGUF file, a Hugging Face folder, hf:OWNER/REPO[:QUANTIZATION] (downloaded if it is not in the cache) or the URL of an upstream server (http://127.0.0.1:8000/v1). Replaces the built-in models.',
    { shown: 'the built-in models', main: true },
  ),

  http: {
    max_body_bytes: setting(
      kind.bytes(1024, 1024 ** 3),
      33_554_432,
      'Maximum size of a request body, in bytes, before and after decompression. Larger bodies get 413.',
    ),
    max_header_bytes: setting(
      kind.bytes(4096, 1_048_576),
      16_384,
      'Maximum size of the request line and all headers together, in bytes. Larger ones get 400.',
    ),
    max_reading_bytes: setting(
      kind.bytes(1024, 1024 ** 4),
      536_870_912,
      'Memory for request bodies that are being read or decompressed, in bytes; one organization may use half. Requests over the limit get 503. The effective minimum is two bodies of the maximum size.',
    ),
    max_answering_bytes: setting(
      kind.bytes(1024, 1024 ** 4),
      536_870_912,
      'Memory for responses of 64 KiB or more, in bytes, from generation until the client has read them; one organization may use half. Requests over the limit get 503.',
    ),
    keepalive_ms: setting(
      kind.integer(100, 3_600_000),
      15_000,
      'Interval of keep-alive messages on a silent stream, in ms. The response headers of a stream wait at most this long for the first event.',
    ),
    cors_origins: setting(kind.list, ['*'], 'Origins that browsers may call the API from; * = any.', { shown: '*' }),
    threads: setting(
      kind.integer(1, 64),
      1,
      'HTTP worker threads. With more than 1, the main thread accepts connections and the workers serve them; all share the engine, the limits and the database.',
      { main: true },
    ),
    unready_ms: setting(
      kind.integer(0, 600_000),
      0,
      'Delay after SIGTERM, in ms, during which /readyz returns 503 but requests are still accepted, so that a load balancer can remove the server; 0 = none.',
    ),
    trust_proxy: setting(
      kind.flag,
      false,
      'Take the client address and scheme from X-Forwarded-For and X-Forwarded-Proto. Enable only behind a proxy that sets both headers.',
    ),
    allowed_hosts: setting(
      kind.list,
      [],
      'Host names accepted in the Host header, in addition to loopback names, IP addresses and `host`; * = any. Protects against DNS rebinding.',
      { shown: 'none' },
    ),
    stream_buffer_bytes: setting(
      kind.bytes(16_384, 1024 ** 3),
      1_048_576,
      'Maximum unsent data of one stream, in bytes. A client that reads too slowly and exceeds it is disconnected, and its request is cancelled.',
    ),
    library: setting(
      kind.nullable(kind.path),
      null,
      'Path of a uWebSockets.js binary or package folder to load instead of the installed one.',
      { shown: 'the one installed' },
    ),
  },

  limits: {
    rpm: setting(
      kind.nullable(kind.integer(1, 1e9)),
      9_999,
      'Requests per minute for each organization and model; off = unlimited.',
    ),
    tpm: setting(
      kind.nullable(kind.integer(1, 1e9)),
      999_999,
      'Input and output tokens per minute for each organization and model; off = unlimited.',
    ),
    read_rpm: setting(
      kind.nullable(kind.integer(1, 1e9)),
      null,
      'Requests per minute for each API key on routes that generate nothing (models, token counts, stored responses); off = unlimited.',
      { shown: 'off' },
    ),
    concurrency: setting(
      kind.nullable(kind.integer(1, 1e6)),
      99,
      'Maximum unfinished requests for each organization and model; off = unlimited. A request with `n` > 1 counts `n` times.',
    ),
    event_loop_ms: setting(
      kind.nullable(kind.integer(1, 1_000)),
      250,
      "Event-loop time, in ms per second and HTTP worker, that one organization's large requests (16 KiB or more) may use for reading and validation, with bursts of ten seconds' worth. Requests over the limit get 429; off = unlimited.",
      { renamedFrom: { key: 'limits.loop_ms' } },
    ),
    tpm_default_reservation: setting(
      kind.integer(1, 1e9),
      4_096,
      'Output tokens reserved against tpm for a request that sets no maximum.',
    ),
    max_n: setting(kind.integer(1, 128), 8, 'Maximum value of `n` (choices per request).'),
    overrides: setting(
      kind.limitOverrides,
      {},
      'Limits for single organizations and models, as JSON: {"org_…": {"hal-1.0": {"rpm": 10, "tpm": null}}}. * matches any organization or model; null = unlimited.',
      { shown: 'none' },
    ),
  },

  redis: {
    url: setting(
      kind.nullable(kind.url('redis', 'rediss')),
      null,
      'Redis server (Redis 7 or Valkey) in which several processes count their limits together: redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], or rediss:// for TLS. If unset, each process counts on its own.',
      {
        alias: 'redis',
        renamedFrom: { key: 'counters.url', alias: 'counters' },
        secret: true,
        shown: 'none',
      },
    ),
    when_unavailable: setting(
      kind.choice('share', 'refuse'),
      'share',
      'What to do while Redis is unreachable. share: each process enforces an equal share of every limit; refuse: 503.',
      { renamedFrom: { key: 'counters.away' } },
    ),
    timeout_ms: setting(
      kind.integer(10, 60_000),
      250,
      'Maximum time to wait for Redis, in ms. After a timeout, `redis.when_unavailable` applies until Redis responds again.',
      { renamedFrom: { key: 'counters.timeout_ms' } },
    ),
    lease_ms: setting(
      kind.integer(500, 600_000),
      15_000,
      'Time, in ms, after which the concurrency slots of a terminated process are freed.',
      { renamedFrom: { key: 'counters.lease_ms' } },
    ),
    prefix: setting(
      kind.text(1, 64),
      'monolith',
      'Prefix of all Redis keys. Processes with the same prefix share their limits.',
      { renamedFrom: { key: 'counters.prefix' } },
    ),
  },

  engine: {
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
      kind.choice('auto', 'plain', 'avx2', 'avx512', 'neon', 'neon_i8mm'),
      'auto',
      'Instruction set of the CPU kernels; auto = the best one that the CPU supports.',
      { alias: 'isa', main: true },
    ),
    arithmetic: setting(
      kind.choice('production', 'exact'),
      'production',
      'Precision of activations. production: rounded as the kernels need; exact: fp32, slow, for comparing logits.',
      { alias: 'arithmetic' },
    ),
    batch_invariant: setting(
      kind.flag,
      true,
      'Make the output of a request independent of what else is in the batch, bit for bit. false: a GPU may use faster matmuls that depend on the batch size; the CPU is always batch-invariant.',
    ),
    cublaslt: setting(
      kind.nullable(kind.text(1, 4096)),
      'auto',
      'cuBLASLt library for long prompts of BF16 models on a GPU, used only with batch_invariant false: auto = the installed one; a path; off = do not use it.',
    ),
    kv_type: setting(
      kind.choice('f16', 'q8_0', 'fp8', 'f32'),
      'f16',
      'Data type of the KV cache. q8_0 and fp8 (GPU only) hold nearly twice as many tokens as f16 in the same memory; q8_0 is slightly less precise than f16, fp8 less than q8_0.',
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
      'KV cache memory per model, in bytes (for example 2GiB); 0 = automatic (CPU: a quarter of free memory, at most 8 GiB; GPU: most of the memory that the weights leave free).',
      { alias: 'kv-bytes', main: true },
    ),
    max_batch_tokens: setting(
      kind.integer(0, 65_536),
      0,
      'Maximum tokens per engine step, decoding first; 0 = automatic (256 on CPU, 2048 on GPU).',
      { main: true },
    ),
    max_sequences: setting(kind.integer(1, 4_096), 32, 'Maximum sequences of one model that run concurrently.', {
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
      'Maximum queued requests per model. Requests over the limit get 503.',
    ),
    queue_max_tokens: setting(
      kind.integer(1, 1e9),
      4_000_000,
      'Maximum prompt tokens of all queued requests per model. Requests over the limit get 503.',
    ),
    queue_wait_ms: setting(kind.integer(1, 3_600_000), 30_000, 'Maximum time in the queue, in ms; then 503.'),
    load_wait_ms: setting(
      kind.integer(1, 3_600_000),
      120_000,
      'Maximum time, in ms, that a request waits for its model to load; then 503. Loading continues.',
    ),
    max_generation_ms: setting(
      kind.integer(1, 86_400_000),
      3_600_000,
      'Maximum duration of one generation, in ms; it then ends with finish reason `length`.',
    ),
    drain_ms: setting(
      kind.integer(0, 3_600_000),
      30_000,
      'Time, in ms, that running requests get to finish at shutdown; they then end with finish reason `length`.',
    ),
    stall_ms: setting(
      kind.integer(100, 3_600_000),
      30_000,
      'Time without a finished engine step, in ms, after which /readyz reports a busy model as not ready.',
    ),
    prefix_cache: setting(kind.flag, true, 'Reuse the KV cache of earlier prompts with the same prefix.'),
    snapshot_tokens: setting(
      kind.integer(16, 1_048_576),
      1024,
      'Distance between saved states of a prompt, in tokens, for models with recurrent state (prefix caching). A state is also saved at the end of each prompt. `monolith inspect` shows the size of one state.',
    ),
    speculation: setting(
      kind.choice('auto', 'off'),
      'auto',
      'Speculative decoding with draft tokens from the text itself or from a draft model. It does not change the output. auto: used while it is measured to be faster.',
    ),
    mtp: setting(
      kind.choice('auto', 'always', 'off'),
      'auto',
      "Draft tokens from the model's own multi-token-prediction layers (`nextn` tensors), used if no draft model is set. auto: CPU only, while it is measured to be faster; always: in every step, also on GPUs; off: the layers are not loaded.",
    ),
  },

  structured_outputs: {
    white_space: setting(
      kind.choice('compact', 'flexible'),
      'compact',
      'White space in JSON output requested with response_format (or its equivalents). compact: none; flexible: chosen by the model.',
    ),
    call_white_space: setting(
      kind.choice('compact', 'flexible'),
      'flexible',
      'White space in the JSON arguments of tool calls. compact: none; flexible: chosen by the model.',
    ),
  },

  images: {
    max_bytes: setting(
      kind.bytes(1024, 1024 ** 3),
      20_971_520,
      'Maximum size of one image file, in bytes, after base64 decoding or download.',
    ),
    max_pixels: setting(kind.integer(1, 1e9), 50_000_000, 'Maximum number of pixels per image.'),
    max_per_request: setting(
      kind.integer(1, 10_000),
      100,
      'Maximum images in one request, including those of the conversation that it continues.',
    ),
    max_tiles: setting(
      kind.integer(0, 1_000),
      0,
      "Maximum tiles per image, for models that split images into tiles; 0 = the model's own maximum.",
    ),
    max_tokens: setting(kind.integer(1, 1e6), 16_384, 'Maximum prompt tokens of one image. Larger images get 422.'),
    max_request_tokens: setting(
      kind.integer(1, 1e7),
      131_072,
      'Maximum prompt tokens of all images of one request. Requests over the limit get 422.',
    ),
    cache_bytes: setting(
      kind.bytes(0, 2 ** 40),
      268_435_456,
      'Memory per model for cached image embeddings, in bytes. Images of running requests may use as much again.',
    ),
    max_held_bytes: setting(
      kind.bytes(1024, 2 ** 40),
      1_073_741_824,
      'Memory for the images of all running requests, in bytes; one organization may use half. Requests over the limit get 503. For upstream models an image counts five times its size. The images of a single request always fit.',
    ),
    allowed_hosts: setting(
      kind.list,
      [],
      'Hosts that images may be downloaded from over https: images.example.com; *.example.com = all subdomains; * = any public host. Other hosts are refused.',
      { shown: 'none' },
    ),
    fetch_timeout_ms: setting(
      kind.integer(100, 600_000),
      10_000,
      'Maximum time to download one image, in ms, including redirects.',
    ),
  },

  messages: {
    foreign_thinking: setting(
      kind.choice('reject', 'drop'),
      'reject',
      'What to do with thinking blocks whose signature was not made by this server. reject: 400; drop: ignore the block.',
    ),
  },

  responses: {
    retention_days: setting(
      kind.integer(1, 36_500),
      30,
      'Days for which a stored response can be retrieved and continued.',
    ),
    reasoning_events: setting(
      kind.choice('auto', 'openai', 'openresponses'),
      'auto',
      "Names of the stream events for raw reasoning. auto: chosen by the client's User-Agent.",
    ),
    openai_user_agents: setting(
      kind.list,
      OPENAI_USER_AGENTS,
      'User-Agent prefixes that auto treats as OpenAI clients. Clients that send x-stainless headers are always treated as such.',
      { shown: OPENAI_USER_AGENTS.join(', ') },
    ),
    compact_max_tokens: setting(
      kind.integer(1, 65_535),
      2_048,
      'Maximum length of the summary of a compacted conversation, in tokens.',
    ),
  },

  ws: {
    max_age_s: setting(
      kind.integer(1, 86_400),
      3_600,
      'Age of a WebSocket connection, in seconds, after which it accepts no new request.',
    ),
    max_connections: setting(
      kind.integer(1, 1_000_000),
      64,
      'Maximum open WebSocket connections per organization; above it 429. Multiplied by ws.max_message_bytes, they must fit into half of http.max_reading_bytes; above that 503.',
    ),
    max_message_bytes: setting(
      kind.bytes(1024, 1024 ** 3),
      4_194_304,
      'Maximum size of a WebSocket message, in bytes. A larger message closes the connection with code 1009.',
    ),
  },

  database: {
    url: setting(
      kind.nullable(kind.databaseUrl),
      null,
      'PostgreSQL database that several servers share: postgres://user:password@host:5432/name. If unset, all data is stored in the data directory. See docs/guides/scaling.md.',
      {
        alias: 'database',
        renamedFrom: { key: 'state.url', alias: 'state' },
        secret: true,
        shown: 'the data folder',
      },
    ),
    connections: setting(
      kind.integer(2, 1_000),
      10,
      'Maximum database connections per HTTP worker. One more is used for notifications.',
      { renamedFrom: { key: 'state.connections' } },
    ),
    timeout_ms: setting(
      kind.integer(100, 600_000),
      5_000,
      'Maximum time to wait for a database connection, and for one statement, in ms; then 503.',
      { renamedFrom: { key: 'state.timeout_ms' } },
    ),
    stale_keys_s: setting(
      kind.integer(0, 86_400),
      60,
      'Time, in seconds, for which known API keys stay valid while the database is unreachable. Requests with other keys get 503.',
      { renamedFrom: { key: 'state.away_s' } },
    ),
  },

  secrets: {
    signing_keys: setting(
      kind.list,
      [],
      'Keys that sign thinking blocks and encrypt reasoning, 64 hex digits each: the current key first, then older keys that are still accepted. If unset, a key is created and stored in the database.',
      { secret: true, shown: 'created' },
    ),
  },

  models: setting(
    kind.modelSettings,
    { aliases: {}, overrides: {} },
    'Settings per model and aliases, as JSON: {"hal-1.0": {"context_window": 8192}, "aliases": {"gpt-4o": "hal-1.0"}}. docs/reference/settings.md lists the settings of a model.',
    { shown: 'models/catalog.json', secret: true },
  ),

  upstream: {
    connect_ms: setting(
      kind.integer(10, 600_000),
      5_000,
      'Maximum time to connect to an upstream server (models.<id>.upstream), in ms.',
    ),
    first_token_ms: setting(
      kind.integer(10, 86_400_000),
      300_000,
      'Maximum time to the first token of an upstream response, in ms, including retries; then 503.',
    ),
    idle_ms: setting(
      kind.integer(10, 86_400_000),
      60_000,
      'Maximum time between two tokens of an upstream response, in ms; then the request fails.',
    ),
    concurrency: setting(
      kind.integer(1, 1_000_000),
      1_024,
      'Maximum concurrent requests per upstream model. Further requests are queued fairly among organizations, within engine.queue_max and engine.queue_wait_ms.',
    ),
    retries: setting(
      kind.integer(0, 10),
      2,
      'Retries of a request that fails before its first token. Other servers of the model are tried first.',
    ),
    breaker_failures: setting(
      kind.integer(1, 1_000),
      5,
      'Consecutive failures before an upstream server is taken out of rotation.',
    ),
    breaker_ms: setting(
      kind.integer(10, 3_600_000),
      10_000,
      'Time, in ms, that a failing upstream server is out of rotation. One request then probes it; each failed probe doubles the time, up to eight times the initial value.',
    ),
    max_event_bytes: setting(
      kind.bytes(1024, 1024 ** 3),
      4_194_304,
      'Maximum size of one event in an upstream stream, in bytes. Above it the request fails with 500.',
    ),
    max_answer_bytes: setting(
      kind.bytes(1024, 1024 ** 4),
      268_435_456,
      'Maximum size of one upstream response, in bytes. Above it the request fails with 500. Text and tool arguments are limited separately, by max_tokens.',
    ),
  },

  hub: {
    endpoint: setting(
      kind.url('https', 'http'),
      'https://huggingface.co',
      'Model hub to download from: any server with the Hugging Face hub API.',
      { variables: ['HF_ENDPOINT'] },
    ),
    token: setting(
      kind.nullable(kind.text(1, 1024)),
      null,
      'Access token for private and gated models. Sent only to hub.endpoint.',
      { secret: true, shown: 'none', variables: ['HF_TOKEN'] },
    ),
    cache: setting(
      kind.path,
      join(hubHome, 'hub'),
      'Download cache. It has the layout of the Hugging Face cache and can be shared with other tools. HF_HOME changes the default.',
      { shown: '~/.cache/huggingface/hub', variables: ['HF_HUB_CACHE'] },
    ),
    offline: setting(kind.flag, false, 'Do not contact the hub; use only models in the cache.', {
      variables: ['HF_HUB_OFFLINE'],
    }),
  },

  accounts: {
    signup: setting(
      kind.choice('auto', 'open', 'invited'),
      'auto',
      'Who may sign up on the dashboard. open: anyone; invited: invited users; auto: anyone while the server listens on this machine only, otherwise invited users. The first user can always sign up, with a setup code unless the server is local.',
    ),
    operator_second_factor: setting(
      kind.choice('optional', 'required'),
      'optional',
      'Whether operators must use two-factor authentication. required: operator pages and routes are closed to an operator until it is enabled.',
    ),
    organizations_per_user: setting(
      kind.integer(1, 50),
      5,
      'Maximum organizations that one user may own. Operators may own more.',
    ),
  },

  oidc: {
    issuer: setting(
      kind.nullable(kind.url('https', 'http')),
      null,
      'Issuer URL of an OpenID Connect provider for single sign-on, for example https://accounts.example.com. Register this redirect URI with the provider: the dashboard URL followed by /dashboard/api/oidc/callback.',
      { shown: 'none' },
    ),
    client_id: setting(kind.nullable(kind.text(1, 512)), null, 'Client ID of this server at the provider.', {
      shown: 'none',
    }),
    client_secret: setting(
      kind.nullable(kind.text(1, 1024)),
      null,
      'Client secret of this server at the provider. If unset, the server is a public client (PKCE only).',
      { secret: true, shown: 'none' },
    ),
    name: setting(kind.text(1, 64), 'single sign-on', 'Provider name on the sign-in button, after "Sign in with".'),
    domains: setting(kind.list, [], 'E-mail domains that may sign in through the provider; empty = all.', {
      shown: 'all',
    }),
    signup: setting(
      kind.choice('invited', 'open'),
      'invited',
      'Whether a first sign-in through the provider creates an account. invited: only with an invitation; open: always.',
    ),
    unverified_email: setting(
      kind.flag,
      false,
      'Accept e-mail addresses that the provider does not report as verified. Use only if users cannot choose their address at the provider.',
    ),
  },

  dashboard: {
    enabled: setting(kind.flag, true, 'Serve the dashboard and its API.'),
    url: setting(
      kind.nullable(kind.url('https', 'http')),
      null,
      'Public URL of the dashboard, for example https://models.example.com. It is used for links in mail, the allowed Origin and Secure cookies. If unset, the URL of each request is used.',
      { shown: 'from the request' },
    ),
  },

  mail: {
    smtp_url: setting(
      kind.nullable(kind.url('smtps', 'smtp')),
      null,
      'SMTP server for outgoing mail, for example smtps://user:password@mail.example.com; requires dashboard.url. If unset, no mail is sent, and authorized users see invitation and password links on the dashboard.',
      { secret: true, shown: 'none' },
    ),
    from: setting(kind.text(3, 256), 'Monolith <monolith@localhost>', 'Sender address of mail.'),
  },

  admin: {
    token: setting(
      kind.nullable(kind.text(16, 512)),
      null,
      'Bearer token for the operator API. If unset, the operator API does not listen.',
      { secret: true, shown: 'none' },
    ),
    host: setting(kind.text(1, 255), '127.0.0.1', 'Address that the operator API listens on.'),
    port: setting(kind.integer(0, 65_535), 8081, 'TCP port that the operator API listens on.'),
  },

  usage: {
    row_days: setting(kind.integer(1, 36_500), 90, 'Days for which the usage row of each request is kept.'),
    aggregate_days: setting(kind.integer(1, 36_500), 730, 'Days for which hourly usage totals are kept.'),
  },

  requests: {
    days: setting(
      kind.integer(0, 365),
      7,
      'Days for which the request log is kept; 0 = no request log. It contains prompts and responses only for organizations that enable this.',
    ),
    max_rows: setting(
      kind.integer(1_000, 1e8),
      500_000,
      'Maximum entries in the request log. The oldest are deleted first.',
    ),
    max_bytes: setting(
      kind.bytes(1_048_576, 2 ** 40),
      536_870_912,
      'Approximate maximum size of the request log, in bytes. The oldest entries are deleted first.',
    ),
    text_characters: setting(
      kind.integer(100, 1e6),
      32_768,
      'Characters of each prompt, and of each response, that the request log keeps for organizations that enable this.',
    ),
  },

  webhooks: {
    public_only: setting(
      kind.flag,
      true,
      'Send webhooks (budget alerts) to public internet addresses only. Organization admins choose the URLs; false also allows addresses in private networks.',
    ),
    timeout_ms: setting(kind.integer(100, 600_000), 10_000, 'Maximum time for one webhook attempt, in ms.'),
    attempts: setting(kind.integer(1, 10), 4, 'Attempts per webhook, with increasing delays.'),
  },

  metrics: {
    token: setting(
      kind.nullable(kind.text(16, 512)),
      null,
      "Bearer token that may read /metrics and the full /readyz. If unset, an operator's API key is needed.",
      { secret: true, shown: 'none' },
    ),
    public: setting(kind.flag, false, 'Serve /metrics without authentication.'),
    names: setting(
      kind.choice('both', 'monolith', 'vllm'),
      'both',
      'Names of the metrics. monolith: monolith_*; vllm: the names that dashboards and gateways for vLLM expect; both: both sets.',
    ),
  },

  telemetry: {
    traces: {
      endpoint: setting(
        kind.nullable(kind.url('http', 'https')),
        null,
        'OTLP/HTTP endpoint for traces, for example http://localhost:4318/v1/traces. OTEL_EXPORTER_OTLP_ENDPOINT also sets it, without /v1/traces. If unset, no traces are sent.',
        { variables: ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] },
      ),
      headers: setting(
        kind.headerFields,
        {},
        'HTTP headers to send to the collector, such as authorization=Bearer ….',
        { secret: true, shown: 'none' },
      ),
      sample_ratio: setting(
        kind.share,
        1,
        "Fraction of requests to trace, 0 to 1. With telemetry.traces.by_parent, the sampled flag of a client's traceparent takes precedence.",
      ),
      by_parent: setting(
        kind.flag,
        true,
        "Follow the sampled flag of the client's traceparent. false: telemetry.traces.sample_ratio applies to all requests. Use false if clients are untrusted.",
      ),
    },
  },
} as const satisfies SettingTree;

type SettingTree = { readonly [name: string]: Setting<never> | Setting<unknown> | SettingTree };

type ValueOf<T> = T extends { kind: Kind<infer V> } ? V : { readonly [K in keyof T]: ValueOf<T[K]> };

/** The validated, frozen settings of one process. Properties are named like file keys: `config.http.max_body_bytes`. */
export type Config = ValueOf<typeof settings> & {
  /** Settings that were set explicitly: key to the flag, variable or file position that set it. */
  readonly given: Readonly<Record<string, string>>;
};

export interface Declared {
  key: string; // http.keepalive_ms
  flag: string; // --http-keepalive-ms
  variable: string; // MONOLITH_HTTP_KEEPALIVE_MS
  aliasFlag: string | null;
  aliasVariable: string | null;
  /** Environment variables of other tools, read if the setting's own variables are not set. */
  others: readonly string[];
  /** Names that the setting had before it was renamed. Null: it was not renamed. */
  former: FormerNames | null;
  setting: Setting<unknown>;
}

export interface FormerNames {
  readonly key: string;
  readonly flags: readonly string[];
  readonly variables: readonly string[];
}

function isSetting(node: unknown): node is Setting<unknown> {
  return typeof node === 'object' && node !== null && 'kind' in node;
}

function* declarations(tree: object, prefix: string): Generator<Declared> {
  for (const [name, node] of Object.entries(tree) as [string, unknown][]) {
    const key = prefix + name;
    if (!isSetting(node)) {
      yield* declarations(node as object, `${key}.`);
      continue;
    }
    const alias = node.alias ?? null;
    yield {
      key,
      flag: flagOf(key),
      variable: variableOf(key),
      aliasFlag: alias === null ? null : flagOf(alias),
      aliasVariable: alias === null ? null : variableOf(alias),
      others: node.variables ?? [],
      former: node.renamedFrom === undefined ? null : formerNames(node.renamedFrom),
      setting: node,
    };
  }
}

function formerNames({ key, alias }: NonNullable<Setting<unknown>['renamedFrom']>): FormerNames {
  const names = alias === undefined ? [key] : [alias, key];
  return { key, flags: names.map(flagOf), variables: names.map(variableOf) };
}

const flagOf = (key: string): string => `--${key.replace(/[._]/g, '-')}`;
const variableOf = (key: string): string => `MONOLITH_${key.replace(/[.-]/g, '_').toUpperCase()}`;

/** Every setting, in declaration order. */
export const declared: readonly Declared[] = [...declarations(settings, '')];
