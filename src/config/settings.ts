// Every setting of the service, declared once in `settings` below. From each declaration come its flag
// (--http-keepalive-ms), its variable (MONOLITH_HTTP_KEEPALIVE_MS), its key in the JSON file
// (http.keepalive_ms), its default, its check, and its line in --help and docs/reference/settings.md.

import { join } from 'node:path';
import { home } from './home.js';
import * as kind from './kinds.js';
import type { Kind } from './kinds.js';

export interface Setting<T> {
  kind: Kind<T>;
  default: T;
  help: string;
  /** How the default reads in help, where the value itself says too little. */
  shown?: string;
  /** A second, shorter flag and variable. */
  alias?: string;
  secret?: boolean;
  /** Variables of others that are taken too, where none of ours is set. */
  variables?: readonly string[];
  /** Among the few that the README shows. */
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

/** Where everybody who speaks to the hub keeps what came from it. */
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
  host: setting(kind.text(1, 255), '127.0.0.1', 'Address to listen on. 0.0.0.0 or :: for every interface.', {
    main: true,
  }),
  port: setting(kind.integer(0, 65_535), 8080, 'Port to listen on; 0 takes any free one, named in the ready line.', {
    main: true,
  }),
  data_dir: setting(kind.path, defaultDataDir, 'Folder of the database. Created if absent.', {
    shown: '~/.local/share/monolith',
    main: true,
  }),
  api_key: setting(
    kind.nullable(kind.text(8, 256)),
    null,
    'A key of your choice that is accepted, instead of one created on the first start.',
    { secret: true, shown: 'created', main: true },
  ),
  log: setting(kind.choice('text', 'json'), 'text', 'Form of the log lines and of the ready line.', { main: true }),
  log_level: setting(kind.choice('debug', 'info', 'warn', 'error', 'silent'), 'info', 'Least severe log lines shown.'),
  model: setting(
    kind.modelFiles,
    [],
    'Serve this GGUF file, or this Hugging Face folder, under this name, or weights of a hub (NAME=hf:OWNER/REPO:QUANTIZATION), which are fetched if they are not there, or what a server elsewhere serves (NAME=http://127.0.0.1:8000/v1); repeatable. Replaces the built-in models.',
    { shown: 'the built-in models', main: true },
  ),

  http: {
    max_body_bytes: setting(
      kind.bytes(1024, 1024 ** 3),
      33_554_432,
      'Largest request body, before and after decompression; above it 413.',
    ),
    max_header_bytes: setting(
      kind.bytes(4096, 1_048_576),
      16_384,
      'Most bytes of a request line and its headers together; above it 400.',
    ),
    max_reading_bytes: setting(
      kind.bytes(1024, 1024 ** 4),
      536_870_912,
      'Bytes of bodies being read and decompressed that are held at once, half of it for one organization; above it 503. Two whole bodies always fit.',
    ),
    max_answering_bytes: setting(
      kind.bytes(1024, 1024 ** 4),
      536_870_912,
      'Bytes of large answers (64 KiB and more) that are held in memory, from the upstream or the model until the client has read them; half of it for one organization; above it 503.',
    ),
    keepalive_ms: setting(
      kind.integer(100, 3_600_000),
      15_000,
      'Silence after which a stream gets a keep-alive; also how long headers wait for the first event.',
    ),
    cors_origins: setting(kind.list, ['*'], 'Origins browsers may call from, or *.', { shown: '*' }),
    threads: setting(
      kind.integer(1, 64),
      1,
      'Threads that answer requests. Above 1 each is a worker beside the one that accepts connections; engine, limits and database are shared.',
      { main: true },
    ),
    unready_ms: setting(
      kind.integer(0, 600_000),
      0,
      'Time after SIGTERM in which /readyz says 503 already while requests are still taken, so that a balancer that looks there sends them elsewhere before they would be refused.',
    ),
    trust_proxy: setting(
      kind.flag,
      false,
      "A proxy in front sets X-Forwarded-For and X-Forwarded-Proto: take the client's address and scheme from them.",
    ),
    allowed_hosts: setting(
      kind.list,
      [],
      'Host names accepted besides loopback names, addresses and `host`; * accepts all. Guards against DNS rebinding.',
      { shown: 'none' },
    ),
    stream_buffer_bytes: setting(
      kind.bytes(16_384, 1024 ** 3),
      1_048_576,
      'Bytes kept for a slow reader of a stream; past it the connection is dropped and the generation cancelled.',
    ),
    library: setting(
      kind.nullable(kind.path),
      null,
      "A binary of uWebSockets.js, or the folder of its package, to use instead of the one installed: the official one, or one's own build.",
      { shown: 'the one installed' },
    ),
  },

  limits: {
    rpm: setting(
      kind.nullable(kind.integer(1, 1e9)),
      9_999,
      'Requests per minute of an organization on one model; off for none.',
    ),
    tpm: setting(
      kind.nullable(kind.integer(1, 1e9)),
      999_999,
      'Tokens per minute of an organization on one model; off for none.',
    ),
    read_rpm: setting(
      kind.nullable(kind.integer(1, 1e9)),
      null,
      'Requests per minute of one key on what generates nothing: models, counts, stored responses; off for none.',
      { shown: 'off' },
    ),
    concurrency: setting(
      kind.nullable(kind.integer(1, 1e6)),
      99,
      'Requests an organization may have unfinished on one model; off for none.',
    ),
    loop_ms: setting(
      kind.nullable(kind.integer(1, 1_000)),
      250,
      "Milliseconds of every second that each answering thread spends at most on reading and checking an organization's large requests (16 KiB and more), ten seconds' worth at once; above it 429. off for none.",
    ),
    tpm_default_reservation: setting(
      kind.integer(1, 1e9),
      4_096,
      'Output tokens reserved for a request that states no cap.',
    ),
    max_n: setting(kind.integer(1, 128), 8, 'Most choices (`n`) of one request.'),
    overrides: setting(
      kind.limitOverrides,
      {},
      'Limits of one organization and model: {"org_…": {"hal-1.0": {"rpm": 10, "tpm": null}}}; * stands for any.',
      { shown: 'none' },
    ),
  },

  counters: {
    url: setting(
      kind.nullable(kind.url('redis', 'rediss')),
      null,
      'Where several processes count their limits together: redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], an engine that speaks the Redis protocol (Redis 7, Valkey); rediss:// for TLS. Without it this process counts for itself.',
      { alias: 'counters', secret: true, shown: 'none' },
    ),
    away: setting(
      kind.choice('share', 'refuse'),
      'share',
      'What holds while it cannot be reached. share: each process admits its share of every limit, by how many there were; refuse: 503.',
    ),
    timeout_ms: setting(
      kind.integer(10, 60_000),
      250,
      'Longest that a request waits for it; then what `away` says holds until it answers again.',
    ),
    lease_ms: setting(
      kind.integer(500, 600_000),
      15_000,
      'How long the places of a process that has ended stay taken.',
    ),
    prefix: setting(
      kind.text(1, 64),
      'monolith',
      'What its keys begin with. Processes with the same one share their limits.',
    ),
  },

  engine: {
    threads: setting(kind.integer(0, 1024), 0, 'Threads that compute; 0 takes one per core.', {
      alias: 'threads',
      main: true,
    }),
    device: setting(
      kind.device,
      'cpu',
      'Where models are computed: cpu, cuda (the first NVIDIA GPU), cuda:N, or auto: a GPU if there is one.',
      { alias: 'device', main: true },
    ),
    isa: setting(
      kind.choice('auto', 'plain', 'avx2', 'avx512', 'neon', 'neon_i8mm'),
      'auto',
      'Instructions of the CPU kernels.',
      { alias: 'isa', main: true },
    ),
    arithmetic: setting(
      kind.choice('production', 'exact'),
      'production',
      'exact: unrounded activations, slow; for comparing logits.',
      { alias: 'arithmetic' },
    ),
    batch_invariant: setting(
      kind.flag,
      true,
      'The bits of an answer never depend on what is computed beside it. false: a GPU may choose faster products by the number of rows; the CPU keeps it either way.',
    ),
    cublaslt: setting(
      kind.nullable(kind.text(1, 4096)),
      'auto',
      "NVIDIA's cuBLASLt for long prompts of BF16 models on a GPU, with batch_invariant false only: auto takes the one installed, else its path; off for none.",
    ),
    kv_type: setting(
      kind.choice('f16', 'q8_0', 'fp8', 'f32'),
      'f16',
      'Number type of the KV cache; q8_0 and fp8 (on a GPU) hold nearly twice the tokens in the same memory, q8_0 a little less exactly, fp8 less than that.',
      { alias: 'kv-type' },
    ),
    max_context: setting(
      kind.integer(0, 16_777_216),
      0,
      "Longest prompt plus completion in tokens; 0 takes the file's own, as memory allows.",
      { alias: 'max-context', main: true },
    ),
    kv_bytes: setting(
      kind.bytes(0, 2 ** 46),
      0,
      'Memory for KV pages of one model, e.g. 2GiB; 0 = automatic (CPU: a quarter of free memory, 8 GiB at most; GPU: most of what the weights leave).',
      { alias: 'kv-bytes', main: true },
    ),
    max_batch_tokens: setting(
      kind.integer(0, 65_536),
      0,
      'Tokens computed per step, decodes first; 0 takes 256 on the CPU and 2,048 on a GPU.',
      { main: true },
    ),
    max_sequences: setting(kind.integer(1, 4_096), 32, 'Sequences running at once.', { main: true }),
    step_ms: setting(
      kind.integer(0, 60_000),
      250,
      "Aimed-at longest pause, in ms, that other requests' prompts put between two tokens of a running answer; 0 for no bound.",
      { main: true },
    ),
    queue_max: setting(kind.integer(1, 1_000_000), 512, 'Requests waiting per model; above it 503.'),
    queue_max_tokens: setting(kind.integer(1, 1e9), 4_000_000, 'Prompt tokens waiting per model; above it 503.'),
    queue_wait_ms: setting(kind.integer(1, 3_600_000), 30_000, 'Longest wait in the queue; then 503.'),
    load_wait_ms: setting(
      kind.integer(1, 3_600_000),
      120_000,
      'Longest that a request waits for a model that is loaded because it asks (models.<id>.idle_minutes, load); then 503, and the load goes on.',
    ),
    max_generation_ms: setting(kind.integer(1, 86_400_000), 3_600_000, 'Longest generation; then it ends as `length`.'),
    drain_ms: setting(
      kind.integer(0, 3_600_000),
      30_000,
      'Time running requests get at shutdown; then they end as `length`.',
    ),
    stall_ms: setting(
      kind.integer(100, 3_600_000),
      30_000,
      'Not ready if there is work and no step ended for this long.',
    ),
    prefix_cache: setting(kind.flag, true, 'Reuse the KV pages of prompts seen before.'),
    snapshot_tokens: setting(
      kind.integer(16, 1_048_576),
      1024,
      'Of models with recurrent state: a prompt leaves a snapshot every so many tokens, and at its end; prompts that begin alike go on from one. Each takes what `monolith inspect` shows.',
    ),
    speculation: setting(
      kind.choice('auto', 'off'),
      'auto',
      'Several tokens of one answer in a step, where it repeats its prompt or itself, or its draft knows it: the same tokens, sooner. auto: as long as measured to pay.',
    ),
    mtp: setting(
      kind.choice('auto', 'always', 'off'),
      'auto',
      "Guesses by the model's own layer for that (multi-token prediction, `nextn` tensors), where its file has one and it has no draft: auto: on a processor, as long as measured to pay; always: whatever they cost, on GPUs too; off: the layer is not loaded.",
    ),
  },

  structured_outputs: {
    white_space: setting(
      kind.choice('compact', 'flexible'),
      'compact',
      'White space in JSON answers to response_format and its kin: none, or as the model likes.',
    ),
    call_white_space: setting(
      kind.choice('compact', 'flexible'),
      'flexible',
      'The same in the arguments of tool calls, which models have learned to write with some.',
    ),
  },

  images: {
    max_bytes: setting(kind.bytes(1024, 1024 ** 3), 20_971_520, 'Largest image, decoded from base64 or fetched.'),
    max_pixels: setting(kind.integer(1, 1e9), 50_000_000, 'Most pixels of one image.'),
    max_per_request: setting(kind.integer(1, 10_000), 100, 'Most images of one request, those of its chain included.'),
    max_tiles: setting(
      kind.integer(0, 1_000),
      0,
      'Most tiles that an image is cut into, for models that do so; 0 for as many as the model has learned.',
    ),
    max_tokens: setting(kind.integer(1, 1e6), 16_384, 'Most tokens that one image may take of a prompt; above it 422.'),
    max_request_tokens: setting(
      kind.integer(1, 1e7),
      131_072,
      'Most tokens that all images of a request may take together; above it 422.',
    ),
    cache_bytes: setting(
      kind.bytes(0, 2 ** 40),
      268_435_456,
      'Memory in which a model keeps what it has seen of images, for when they come again; as much again may belong to requests under way.',
    ),
    max_held_bytes: setting(
      kind.bytes(1024, 2 ** 40),
      1_073_741_824,
      'Memory that the images of all requests may take at once, from their loading until their request is over, half of it for one organization; above it 503. Of a model that runs elsewhere an image counts five times its bytes. The images of one request always fit.',
    ),
    allowed_hosts: setting(
      kind.list,
      [],
      'Hosts that images may be fetched from over https, e.g. images.example.com; *.example.com for all below; * for every public host. Others are refused.',
      { shown: 'none' },
    ),
    fetch_timeout_ms: setting(
      kind.integer(100, 600_000),
      10_000,
      'Longest time fetching one image may take, redirects included.',
    ),
  },

  messages: {
    foreign_thinking: setting(
      kind.choice('reject', 'drop'),
      'reject',
      'What becomes of thinking blocks sent back with a signature that is not ours: refused, or left out.',
    ),
  },

  responses: {
    retention_days: setting(kind.integer(1, 36_500), 30, 'Days a stored response can be retrieved and continued.'),
    reasoning_events: setting(
      kind.choice('auto', 'openai', 'openresponses'),
      'auto',
      "Names of the raw-reasoning stream events; auto goes by the client's User-Agent.",
    ),
    openai_user_agents: setting(
      kind.list,
      OPENAI_USER_AGENTS,
      'Beginnings of a User-Agent that auto takes for an OpenAI client, besides every one with x-stainless headers.',
      { shown: OPENAI_USER_AGENTS.join(', ') },
    ),
    compact_max_tokens: setting(
      kind.integer(1, 65_535),
      2_048,
      'Longest summary of a compacted conversation, in tokens.',
    ),
  },

  ws: {
    max_age_s: setting(
      kind.integer(1, 86_400),
      3_600,
      'Seconds after which a WebSocket connection takes no further turn.',
    ),
    max_connections: setting(
      kind.integer(1, 1_000_000),
      64,
      'Maximum number of open WebSocket connections per organization; above it 429. Times ws.max_message_bytes they must fit into half of http.max_reading_bytes; above it 503.',
    ),
    max_message_bytes: setting(
      kind.bytes(1024, 1024 ** 3),
      4_194_304,
      'Largest WebSocket message, in bytes; above it the connection is closed with 1009.',
    ),
  },

  state: {
    url: setting(
      kind.nullable(kind.databaseUrl),
      null,
      'A PostgreSQL database that several servers share: postgres://user:password@host:5432/name. Without it, everything is kept in the data folder by this one. docs/guides/scaling.md says what is shared, what faults it was tried by and what nobody has tried.',
      { alias: 'state', secret: true, shown: 'the data folder' },
    ),
    connections: setting(
      kind.integer(2, 1_000),
      10,
      'Connections to that database that each answering thread has at most, besides one for notifications.',
    ),
    timeout_ms: setting(
      kind.integer(100, 600_000),
      5_000,
      'Longest wait for that database, for a connection and for one statement; then 503.',
    ),
    away_s: setting(
      kind.integer(0, 86_400),
      60,
      'Seconds that API keys which are known go on while that database is away; others get 503 meanwhile.',
    ),
  },

  secrets: {
    signing_keys: setting(
      kind.list,
      [],
      'Keys that sign thinking blocks and seal reasoning, 64 hex digits each: the current one first, then those still accepted. Made and kept in the database if none is given.',
      { secret: true, shown: 'created' },
    ),
  },

  models: setting(
    kind.modelSettings,
    { aliases: {}, overrides: {} },
    'Per model: {"hal-1.0": {"context_window", "max_output_tokens", "max_repeats", "load", "idle_minutes", "pinned", "default_effort", "sampling", "display_name", "image_input", "lifecycle", "deprecated_at", "retires_at", "successor", "quantize", "draft", "vision", "vision_precision", "vision_resize", "upstream"}}; `upstream` is a model that runs elsewhere (docs/guides/upstreams.md); further names of models: {"aliases": {"gpt-4o": "hal-1.0"}}.',
    { shown: 'models/catalog.json', secret: true },
  ),

  upstream: {
    connect_ms: setting(
      kind.integer(10, 600_000),
      5_000,
      'Longest time to connect to a server that a model runs on elsewhere (models.<id>.upstream).',
    ),
    first_token_ms: setting(
      kind.integer(10, 86_400_000),
      300_000,
      'Longest wait for the first token of such a model, retries included; then 503.',
    ),
    idle_ms: setting(
      kind.integer(10, 86_400_000),
      60_000,
      'Longest silence between two of its tokens; then the answer fails.',
    ),
    concurrency: setting(
      kind.integer(1, 1_000_000),
      1_024,
      'Requests that such a model has under way at once. More wait in turns of the organizations, up to engine.queue_max and engine.queue_wait_ms.',
    ),
    retries: setting(
      kind.integer(0, 10),
      2,
      'Further attempts at a request that failed before its first token, on other servers of the model first.',
    ),
    breaker_failures: setting(
      kind.integer(1, 1_000),
      5,
      'So many failures in a row, and a server is asked no more for a while.',
    ),
    breaker_ms: setting(
      kind.integer(10, 3_600_000),
      10_000,
      'How long; then one request tries. Each time in a row that it fails this doubles, up to eight times as long.',
    ),
    max_event_bytes: setting(
      kind.bytes(1024, 1024 ** 3),
      4_194_304,
      "Largest single event of an upstream's stream, in bytes; above it the request fails with 500.",
    ),
    max_answer_bytes: setting(
      kind.bytes(1024, 1024 ** 4),
      268_435_456,
      'Most bytes that an upstream may send for one request; above it the request fails with 500. Text and arguments have a bound of their own, by max_tokens.',
    ),
  },

  hub: {
    endpoint: setting(
      kind.url('https', 'http'),
      'https://huggingface.co',
      "The hub that models are pulled from: any server that speaks the Hugging Face hub's API.",
      { variables: ['HF_ENDPOINT'] },
    ),
    token: setting(
      kind.nullable(kind.text(1, 1024)),
      null,
      "Token for private and gated models; sent to the hub's own address alone.",
      { secret: true, shown: 'none', variables: ['HF_TOKEN'] },
    ),
    cache: setting(
      kind.path,
      join(hubHome, 'hub'),
      "Folder of what was pulled, laid out as the hub's other clients do, and shared with them. HF_HOME moves the default.",
      { shown: '~/.cache/huggingface/hub', variables: ['HF_HUB_CACHE'] },
    ),
    offline: setting(kind.flag, false, 'Ask no hub: serve what is in the cache.', { variables: ['HF_HUB_OFFLINE'] }),
  },

  accounts: {
    signup: setting(
      kind.choice('auto', 'open', 'invited'),
      'auto',
      'Who may sign up on the dashboard: anybody, or with an invitation. auto: anybody as long as the server listens on this machine only. The first user always may, beyond this machine with the code shown at the start.',
    ),
    operator_second_factor: setting(
      kind.choice('optional', 'required'),
      'optional',
      'Whether operators need a second factor: without one, their own pages and API are closed to them until they turn it on.',
    ),
    organizations_per_user: setting(
      kind.integer(1, 50),
      5,
      'Organizations one person may own: each has limits of its own. Operators may own more.',
    ),
  },

  oidc: {
    issuer: setting(
      kind.nullable(kind.url('https', 'http')),
      null,
      "A provider of OpenID Connect that people may sign in by, e.g. https://accounts.example.com. Its registration of this server wants the redirect address: the dashboard's, then /dashboard/api/oidc/callback.",
      { shown: 'none' },
    ),
    client_id: setting(kind.nullable(kind.text(1, 512)), null, 'The name under which the provider knows this server.', {
      shown: 'none',
    }),
    client_secret: setting(
      kind.nullable(kind.text(1, 1024)),
      null,
      'The secret that goes with it; without it the server is a public client, by PKCE alone.',
      { secret: true, shown: 'none' },
    ),
    name: setting(kind.text(1, 64), 'single sign-on', 'What the button says behind "Sign in with".'),
    domains: setting(
      kind.list,
      [],
      'Domains of e-mail addresses that may come in by the provider; none: all that it vouches for.',
      { shown: 'all' },
    ),
    signup: setting(
      kind.choice('invited', 'open'),
      'invited',
      'Whether an account is made for who has none: for everybody who may come in, or with an invitation.',
    ),
    unverified_email: setting(
      kind.flag,
      false,
      'Take addresses that the provider does not say it has verified: some never say so. Only where nobody can choose theirs there.',
    ),
  },

  dashboard: {
    enabled: setting(kind.flag, true, 'Serve the dashboard and its API.'),
    url: setting(
      kind.nullable(kind.url('https', 'http')),
      null,
      'Where people reach the dashboard, e.g. https://models.example.com: for links in mail, the allowed Origin, and Secure cookies.',
      { shown: 'as it is reached' },
    ),
  },

  mail: {
    smtp_url: setting(
      kind.nullable(kind.url('smtps', 'smtp')),
      null,
      'Server for outgoing mail, e.g. smtps://user:password@mail.example.com; needs dashboard.url. Without it, links for invitations and passwords are shown to whoever asks for them with the right, and never sent.',
      { secret: true, shown: 'none' },
    ),
    from: setting(kind.text(3, 256), 'Monolith <monolith@localhost>', 'Sender of mail.'),
  },

  admin: {
    token: setting(
      kind.nullable(kind.text(16, 512)),
      null,
      'Bearer token of the operator API; without it there is none.',
      { secret: true, shown: 'none' },
    ),
    host: setting(kind.text(1, 255), '127.0.0.1', 'Address the operator API listens on.'),
    port: setting(kind.integer(0, 65_535), 8081, 'Port of the operator API.'),
  },

  usage: {
    row_days: setting(kind.integer(1, 36_500), 90, 'Days a row of usage per request is kept.'),
    aggregate_days: setting(kind.integer(1, 36_500), 730, 'Days hourly sums of usage are kept.'),
  },

  requests: {
    days: setting(
      kind.integer(0, 365),
      7,
      'Days the request log is kept; 0 for none. Prompts and answers are in it only of organizations that turn that on.',
    ),
    max_rows: setting(
      kind.integer(1_000, 1e8),
      500_000,
      'Most requests in the request log; beyond that the oldest go.',
    ),
    max_bytes: setting(
      kind.bytes(1_048_576, 2 ** 40),
      536_870_912,
      'Most bytes of the request log, about; beyond that the oldest go.',
    ),
    text_characters: setting(
      kind.integer(100, 1e6),
      32_768,
      'Most characters kept of one prompt, and as many of its answer, where an organization has them kept.',
    ),
  },

  webhooks: {
    public_only: setting(
      kind.flag,
      true,
      'Send webhooks (budget alerts) to public internet addresses only. Organization admins choose the URLs; false also allows addresses of your own network.',
    ),
    timeout_ms: setting(kind.integer(100, 600_000), 10_000, 'Longest time one attempt may take.'),
    attempts: setting(kind.integer(1, 10), 4, 'Attempts at one webhook, with growing pauses between them.'),
  },

  metrics: {
    token: setting(
      kind.nullable(kind.text(16, 512)),
      null,
      "Bearer token that reads /metrics and all of /readyz, for what scrapes them; without it an operator's API key does.",
      { secret: true, shown: 'none' },
    ),
    public: setting(kind.flag, false, 'Serve /metrics to everybody.'),
    names: setting(
      kind.choice('both', 'monolith', 'vllm'),
      'both',
      'Whose names /metrics has: our own, those that boards and gateways made for vLLM read, or both.',
    ),
  },

  telemetry: {
    traces: {
      endpoint: setting(
        kind.nullable(kind.url('http', 'https')),
        null,
        'Where traces of requests are sent to: a collector that speaks OTLP over HTTP, e.g. http://localhost:4318/v1/traces. Off without one; OTEL_EXPORTER_OTLP_ENDPOINT names one as well, without /v1/traces.',
        { variables: ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] },
      ),
      headers: setting(
        kind.headerFields,
        {},
        'Headers that the collector wants, such as a key of its own: authorization=Bearer ….',
        { secret: true, shown: 'none' },
      ),
      sample_ratio: setting(
        kind.share,
        1,
        'Share of requests that are recorded, from 0 to 1; of those whose client says by traceparent whether it records, what it says counts.',
      ),
      by_parent: setting(
        kind.flag,
        true,
        "Record what a client's traceparent says is recorded, and leave out what it says is not; false: the share decides for all. Set it to false where clients are strangers.",
      ),
    },
  },
} as const satisfies SettingTree;

type SettingTree = { readonly [name: string]: Setting<never> | Setting<unknown> | SettingTree };

type ValueOf<T> = T extends { kind: Kind<infer V> } ? V : { readonly [K in keyof T]: ValueOf<T[K]> };

/** The checked, frozen settings of one process. Names are those of the file keys: `config.http.max_body_bytes`. */
export type Config = ValueOf<typeof settings> & {
  /** Settings that were not left to their default, by key, with the flag, the variable or the place in a file that gave them. */
  readonly given: Readonly<Record<string, string>>;
};

export interface Declared {
  key: string; // http.keepalive_ms
  flag: string; // --http-keepalive-ms
  variable: string; // MONOLITH_HTTP_KEEPALIVE_MS
  aliasFlag: string | null;
  aliasVariable: string | null;
  /** Variables of others, taken where none of ours is set. */
  others: readonly string[];
  setting: Setting<unknown>;
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
      flag: `--${key.replace(/[._]/g, '-')}`,
      variable: variableOf(key),
      aliasFlag: alias === null ? null : `--${alias}`,
      aliasVariable: alias === null ? null : variableOf(alias),
      others: node.variables ?? [],
      setting: node,
    };
  }
}

const variableOf = (key: string): string => `MONOLITH_${key.replace(/[.-]/g, '_').toUpperCase()}`;

/** Every setting in the order of declaration. */
export const declared: readonly Declared[] = [...declarations(settings, '')];
