// Schemas of requests in Ollama's API, field by field. Unknown fields are dropped, and listed by parse.ts. For every
// optional field, null means absent.
import { z } from 'zod';
import { MAX_TOOLS } from '../../config/tool-limit.js';
import { clientId, integer, jsonObject, MAX_STOP_STRINGS, samplingFields, stopString } from '../fields.js';
import { opaque } from '../unread.js';

const text = z.string();

/** The Ollama options that this server supports, under Ollama's names. */
const options = z.object({
  temperature: samplingFields.temperature,
  top_k: samplingFields.top_k,
  top_p: samplingFields.top_p,
  min_p: samplingFields.min_p,
  seed: samplingFields.seed,
  repeat_penalty: samplingFields.repetition_penalty,
  presence_penalty: samplingFields.presence_penalty,
  frequency_penalty: samplingFields.frequency_penalty,
  /** Zero and negative values mean no limit. */
  num_predict: integer().nullish(),
  stop: z.union([stopString(), z.array(stopString()).max(MAX_STOP_STRINGS)]).nullish(),
});

/** Base64, without the prefix of a data URL. */
export const MAX_MESSAGE_IMAGES = 1_000;
const images = z.array(z.string().min(1)).max(MAX_MESSAGE_IMAGES).nullish();

const toolCall = z.object({
  /** Newer clients send back the ID from the response. */
  id: clientId().nullish(),
  type: z.literal('function').nullish(),
  function: z.object({
    index: integer().nullish(),
    name: z.string().min(1).max(128),
    arguments: jsonObject().nullish(),
  }),
});

export const messageSchema = z.object({
  role: z.enum(['system', 'user', 'assistant', 'tool']),
  content: text.nullish(),
  thinking: text.nullish(),
  images,
  tool_calls: z.array(toolCall).max(10_000).nullish(),
  tool_name: z.string().max(128).nullish(),
  /** Earlier releases used this name for `tool_name`. */
  name: z.string().max(128).nullish(),
  tool_call_id: z.string().max(1_000).nullish(),
});

const tool = z.object({
  type: z.literal('function').nullish(),
  function: z.object({
    name: text,
    description: text.nullish(),
    parameters: jsonObject().nullish(),
  }),
});

/** Fields that chat and generate share. */
const generationFields = {
  model: text,
  stream: z.boolean().nullish(),
  format: z.union([text, jsonObject()]).nullish(),
  options: options.nullish(),
  think: z.union([z.boolean(), z.enum(['low', 'medium', 'high', 'max'])]).nullish(),
  keep_alive: z.union([text, z.number()]).nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: integer().min(0).max(20).nullish(),
};

export const MAX_MESSAGES = 100_000;

export const chatRequestSchema = z.object({
  ...generationFields,
  messages: z.array(messageSchema).max(MAX_MESSAGES).nullish(),
  tools: z.array(tool).max(MAX_TOOLS).nullish(),
});

/** The same schema without validation of the messages, which are validated one by one. */
export const chatEnvelopeSchema = chatRequestSchema.extend({
  messages: z.array(z.unknown()).max(MAX_MESSAGES).nullish(),
});

export const generateRequestSchema = z.object({
  ...generationFields,
  prompt: text.nullish(),
  suffix: text.nullish(),
  images,
  system: text.nullish(),
  template: text.nullish(),
  context: opaque(z.array(z.unknown())).nullish(),
  raw: z.boolean().nullish(),
});

export const MAX_EMBED_INPUTS = 2_048;

export const embedRequestSchema = z.object({
  model: text,
  input: z.union([text, z.array(text).max(MAX_EMBED_INPUTS)]).nullish(),
  truncate: z.boolean().nullish(),
  dimensions: integer().min(1).nullish(),
  keep_alive: generationFields.keep_alive,
});

export const embeddingsRequestSchema = z.object({
  model: text,
  prompt: text.nullish(),
  keep_alive: generationFields.keep_alive,
});

/** `name`: the former name of this field. */
const named = { model: text.nullish(), name: text.nullish() };

export const showRequestSchema = z.object(named);

export const pullRequestSchema = z.object({ ...named, stream: z.boolean().nullish() });

export type ChatFields = z.infer<typeof chatEnvelopeSchema>;
export type GenerateFields = z.infer<typeof generateRequestSchema>;
export type OllamaMessage = z.infer<typeof messageSchema>;
export type OptionFields = z.infer<typeof options>;
