// Settings for the API formats: structured output, images, and options for individual formats.
import * as kind from '../kinds.js';
import { setting } from './setting.js';

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

export const structured_outputs = {
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
};

export const images = {
  max_bytes: setting(
    kind.bytes(1024, 1024 ** 3),
    20_971_520,
    'Maximum size of one image file, in bytes, after base64 decoding or download.',
  ),
  max_pixels: setting(kind.integer(1, 1e9), 50_000_000, 'Maximum number of pixels per image.'),
  max_per_request: setting(
    kind.integer(1, 10_000),
    100,
    'Maximum number of images in one request, including images from earlier turns of the conversation.',
  ),
  max_tiles: setting(
    kind.integer(0, 1_000),
    0,
    "Maximum number of tiles per image, for models that split images into tiles; 0 = the model's own maximum.",
  ),
  max_tokens: setting(
    kind.integer(1, 1e6),
    16_384,
    'Maximum prompt tokens per image. Requests with a larger image are rejected with 422.',
  ),
  max_request_tokens: setting(
    kind.integer(1, 1e7),
    131_072,
    'Maximum prompt tokens of all images in one request. Requests over the limit are rejected with 422.',
  ),
  cache_bytes: setting(
    kind.bytes(0, 2 ** 40),
    268_435_456,
    'Memory per model for cached image embeddings, in bytes. The image embeddings of running requests may use the same amount in addition.',
  ),
  max_held_bytes: setting(
    kind.bytes(1024, 2 ** 40),
    1_073_741_824,
    'Memory for the images of all running requests, in bytes; one organization may use half. Requests over the limit are rejected with 503, except that the images of a single request always fit. For upstream models, an image counts as five times its size.',
  ),
  allowed_hosts: setting(
    kind.list,
    [],
    'Hosts from which images may be downloaded over https: images.example.com; *.example.com = all subdomains; * = any public host. Images on other hosts are refused.',
    { shown: 'none' },
  ),
  fetch_timeout_ms: setting(
    kind.integer(100, 600_000),
    10_000,
    'Maximum time to download one image, in ms, including redirects.',
  ),
};

export const chat = {
  reasoning_field: setting(
    kind.choice('both', 'reasoning_content', 'reasoning'),
    'both',
    'Field of chat completions responses that carries the reasoning. both: the same text in reasoning_content and reasoning.',
  ),
};

export const foreign_thinking = setting(
  kind.choice('drop', 'reject'),
  'drop',
  'What to do with reasoning that comes from another service or was sealed with a removed key, in all API formats. drop: leave it out of the prompt and list it in x-ignored-content; reject: reject the request with 400.',
  { renamedFrom: { key: 'messages.foreign_thinking' } },
);

export const responses = {
  retention_days: setting(
    kind.integer(1, 36_500),
    30,
    'Number of days to keep stored responses and chat completions, and conversations without new items.',
  ),
  max_conversations: setting(
    kind.integer(1, 1e9),
    100_000,
    'Maximum number of conversations (`/v1/conversations`) per organization.',
  ),
  reasoning_events: setting(
    kind.choice('auto', 'openai', 'openresponses'),
    'auto',
    "Names of the stream events for raw reasoning. auto: depends on the client's User-Agent.",
  ),
  openai_user_agents: setting(
    kind.list,
    OPENAI_USER_AGENTS,
    'User-Agent prefixes of clients that responses.reasoning_events auto treats as OpenAI clients. Clients that send x-stainless headers are always treated as OpenAI clients.',
    { shown: OPENAI_USER_AGENTS.join(', ') },
  ),
  compact_max_tokens: setting(
    kind.integer(1, 65_535),
    2_048,
    "Maximum length of a compacted conversation's summary, in tokens.",
  ),
};
