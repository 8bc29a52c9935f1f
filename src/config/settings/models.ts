// Settings for individual models, for upstream servers, and for the hub from which models are downloaded.
import { join } from 'node:path';
import { home } from '../home.js';
import * as kind from '../kinds.js';
import { setting } from './setting.js';

/** The cache directory shared by Hugging Face tools. */
const hubHome = process.env['HF_HOME'] ?? join(process.env['XDG_CACHE_HOME'] ?? join(home(), '.cache'), 'huggingface');

export const models = setting(
  kind.modelSettings,
  { aliases: {}, overrides: {} },
  'Settings per model and aliases, as JSON: {"hal-1.0": {"context_window": 8192}, "aliases": {"gpt-4o": "hal-1.0"}}. docs/reference/settings.md lists a model\'s settings.',
  { shown: 'models/catalog.json', secret: true },
);

export const adapters = {
  folder: setting(
    kind.nullable(kind.path),
    null,
    'Directory of LoRA adapters that operators may load with POST /v1/load_lora_adapter. If unset, adapters cannot be loaded at run time.',
    { shown: 'none' },
  ),
};

export const upstream = {
  connect_ms: setting(
    kind.integer(10, 600_000),
    5_000,
    'Maximum time to connect to an upstream server (models.<id>.upstream), in ms.',
  ),
  first_token_ms: setting(
    kind.integer(10, 86_400_000),
    300_000,
    'Maximum time to the first token of an upstream response, in ms, including retries. The request is then rejected with 503.',
  ),
  idle_ms: setting(
    kind.integer(10, 86_400_000),
    60_000,
    'Maximum time between two tokens of an upstream response, in ms. If it is exceeded, the request fails.',
  ),
  concurrency: setting(
    kind.integer(1, 1_000_000),
    1_024,
    'Maximum concurrent requests per upstream model. Further requests are queued fairly among organizations, within engine.queue_max and engine.queue_wait_ms.',
  ),
  retries: setting(
    kind.integer(0, 10),
    2,
    'Maximum number of retries for a request that fails before its first token. Other servers of the model are tried first.',
  ),
  breaker_failures: setting(
    kind.integer(1, 1_000),
    5,
    'Consecutive failures before an upstream server is taken out of rotation.',
  ),
  breaker_ms: setting(
    kind.integer(10, 3_600_000),
    10_000,
    'How long, in ms, a failing upstream server is taken out of rotation. One request then probes the server; each failed probe doubles the time, up to eight times the initial value.',
  ),
  max_event_bytes: setting(
    kind.bytes(1024, 1024 ** 3),
    4_194_304,
    'Maximum size of one event in an upstream stream, in bytes. A larger event makes the request fail with 500.',
  ),
  max_answer_bytes: setting(
    kind.bytes(1024, 1024 ** 4),
    268_435_456,
    'Maximum size of one upstream response, in bytes. A larger response makes the request fail with 500. Text and tool arguments are limited separately, by max_tokens.',
  ),
};

export const hub = {
  endpoint: setting(
    kind.url('https', 'http'),
    'https://huggingface.co',
    'URL of the hub to download models from: any server with the Hugging Face hub API.',
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
};
