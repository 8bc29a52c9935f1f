// Finds the parts of a request that have no effect, for each format: fields that are not in the schema, and values that
// this server accepts but cannot honor. No side effects.
import type { z } from 'zod';
import { chatRequestSchema } from './chat-completions/schema.js';
import { completionRequestSchema } from './completions/schema.js';
import { decisionRequestSchema } from './decisions/schema.js';
import { embeddingsRequestSchema } from './embeddings/schema.js';
import { isRecord } from './entry-limits.js';
import { infillSchema } from './infill/schema.js';
import { messagesRequestSchema } from './messages/schema.js';
import { rerankRequestSchema, scoreRequestSchema } from './rerank/schema.js';
import { withType } from './responses/bounds.js';
import { createSchema } from './responses/schema.js';
import { SAMPLER_FIELDS } from './samplers.js';
import { saysNothing, unreadFields, type NeutralFields } from './unread.js';

type Body = Readonly<Record<string, unknown>>;
type Rules = Readonly<Record<string, (value: unknown, body: Body) => boolean>>;

const always = (): boolean => true;
/** The prefix cache is always on and has no lifetimes, so marks with the default lifetime are considered honored. */
const defaultLifetime = (value: unknown): boolean => !isRecord(value) || value['ttl'] == null || value['ttl'] === '5m';
/** The default values of `prompt_cache_options`, which have no effect. */
const neutralOptions: Readonly<Record<string, unknown>> = { mode: 'implicit', ttl: '30m' };
const directly = (value: unknown): boolean => isRecord(value) && value['type'] === 'direct';

/** Fields that responses contain, and that clients send back with the history. */
const echoed: NeutralFields = {
  annotations: always,
  logprobs: always,
  index: always,
  caller: directly,
};
const cacheMarks: NeutralFields = { cache_control: defaultLifetime, prompt_cache_breakpoint: defaultLifetime };
/** Never listed: they are rejected if they have an effect (samplers.ts). */
const samplers: NeutralFields = Object.fromEntries([...SAMPLER_FIELDS].map((name) => [name, always]));
const toolFields: NeutralFields = {
  allowed_callers: (value) => Array.isArray(value) && value.every((caller) => caller === 'direct'),
};

/**
 * For each field of a web search tool: the values that need not be listed as ignored, which are the default and values
 * without effect.
 */
export const searchFields: NeutralFields = {
  ...cacheMarks,
  type: always,
  allowed_callers: (value) => Array.isArray(value) && value.includes('direct'),
  external_web_access: (value) => value === true,
  response_inclusion: (value) => value === 'full',
  search_content_types: (value) => Array.isArray(value) && value.every((type) => type === 'text'),
  search_context_size: (value) => value === 'medium',
};

/** For each field of an MCP tool: the values that need not be listed as ignored. */
export const mcpFields: NeutralFields = { ...cacheMarks, ...toolFields, type: always };

const neutral: NeutralFields = { ...echoed, ...cacheMarks, ...samplers, ...toolFields };

/** Returns the value at a path of member names, or undefined. */
function at(body: Body, ...names: string[]): unknown {
  let value: unknown = body;
  for (const name of names) {
    if (!isRecord(value)) return undefined;
    value = value[name];
  }
  return value;
}

/** This server does not pad streams to hide the length of deltas, so requests for padding are ignored. */
const obfuscation = (body: Body): string[] =>
  at(body, 'stream_options', 'include_obfuscation') === true ? ['stream_options.include_obfuscation'] : [];

/** An output schema's description is not passed to the model, so it is ignored. */
function description(body: Body, ...names: string[]): string[] {
  const value = at(body, ...names, 'description');
  return saysNothing(value) || value === '' ? [] : [[...names, 'description'].join('.')];
}

/** For each parameter: whether a value has no effect. */
const chatRules: Rules = {
  add_generation_prompt: (value, body) => value === false && body['continue_final_message'] !== true,
};

const messagesRules: Rules = {
  cache_control: (value) => !defaultLifetime(value),
  inference_geo: (value) => value !== null,
  speed: (value) => value === 'fast',
};

const responsesRules: Rules = {
  access_programs: (value) => !saysNothing(value),
  image: (value) => !saysNothing(value),
};

export function ineffectiveInChat(body: Body): string[] {
  return [
    ...unreadFields(chatRequestSchema, body, neutral),
    ...ineffectiveValues(chatRules, body),
    ...cacheOptions(body),
    ...obfuscation(body),
    ...description(body, 'response_format', 'json_schema'),
  ];
}

export function ineffectiveInCompletions(body: Body): string[] {
  return [...unreadFields(completionRequestSchema, body, neutral), ...obfuscation(body)];
}

export function ineffectiveInEmbeddings(body: Body): string[] {
  return unreadFields(embeddingsRequestSchema, body, neutral);
}

/** llama-server's defaults for these fields have no effect. */
const infillFields: NeutralFields = {
  cache_prompt: (value) => value === null || value === true,
  id_slot: (value) => value === null || value === -1,
  n_keep: (value) => value === null || value === 0,
};

export const ineffectiveInInfill = (body: Body): string[] => [
  ...unreadFields(infillSchema, body, { ...neutral, ...infillFields }),
  ...(body['cache_prompt'] === false ? ['cache_prompt'] : []),
];
export const ineffectiveInRerank = (body: Body): string[] => unreadFields(rerankRequestSchema, body, neutral);
export const ineffectiveInScore = (body: Body): string[] => unreadFields(scoreRequestSchema, body, neutral);

export function ineffectiveInDecisions(body: Body): string[] {
  const { input } = body;
  const typed = Array.isArray(input) ? { ...body, input: input.map(withType) } : body;
  return [...unreadFields(decisionRequestSchema, typed, neutral), ...cacheOptions(body)];
}

export function ineffectiveInMessages(body: Body): string[] {
  const { thinking } = body;
  return [
    ...unreadFields(messagesRequestSchema, body, { ...neutral, eager_input_streaming: always }),
    ...ineffectiveValues(messagesRules, body),
    ...(isRecord(thinking) && thinking['type'] === 'between_tools' ? ['thinking.type'] : []),
    ...(isRecord(thinking) && thinking['display'] === 'updates' ? ['thinking.display'] : []),
  ];
}

export function ineffectiveInResponses(body: Body): string[] {
  const { input } = body;
  const typed = Array.isArray(input) ? { ...body, input: input.map(withType) } : body;
  return [
    ...unreadFields(createSchema, typed, {
      ...neutral,
      mode: (value) => value === null || value === 'standard',
      context: (value) => value === null || value === 'auto',
      type: (value) => value === 'response.create',
      stream_id: always,
    }),
    ...ineffectiveValues(responsesRules, body),
    ...cacheOptions(body),
    ...obfuscation(body),
    ...description(body, 'text', 'format'),
  ];
}

export function ineffectiveInConversations(schema: z.core.$ZodType, body: Body): string[] {
  const { items } = body;
  return unreadFields(schema, Array.isArray(items) ? { ...body, items: items.map(withType) } : body, neutral);
}

/** Used for requests whose schema lists every field that has an effect. */
export function ineffectiveIn(schema: z.core.$ZodType, body: Body): string[] {
  return unreadFields(schema, body, neutral);
}

export const ineffectiveInFiles = (schema: z.core.$ZodType, body: Body): string[] =>
  unreadFields(schema, body, neutral);

/** This server's own rules determine how long models stay loaded, so `keep_alive` never has an effect. */
export function ineffectiveInOllama(schema: z.core.$ZodType, body: Body): string[] {
  const read = unreadFields(schema, body, { ...samplers, debug: saysNothing, _debug: saysNothing });
  return saysNothing(body['keep_alive']) ? read : [...read, 'keep_alive'];
}

function ineffectiveValues(rules: Rules, body: Body): string[] {
  return Object.entries(rules).flatMap(([name, isIneffective]) =>
    Object.hasOwn(body, name) && isIneffective(body[name], body) ? [name] : [],
  );
}

/**
 * Lists the requested options that the cache cannot honor, because it has neither lifetimes nor explicit breakpoints.
 */
function cacheOptions({ prompt_cache_options: options }: Body): string[] {
  if (!isRecord(options)) return [];
  return Object.entries(neutralOptions).flatMap(([name, neutral]) =>
    options[name] == null || options[name] === neutral ? [] : [`prompt_cache_options.${name}`],
  );
}
