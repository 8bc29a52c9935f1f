// Response schemas of completions and the token endpoints, as published in openapi.json. Stream chunks have the same
// schema as non-streamed responses.
import { z } from 'zod';
import { promptLogprobs, tokenIds, usage } from './chat.js';

const logprobs = z.strictObject({
  tokens: z.array(z.string()),
  token_logprobs: z.array(z.number().nullable()),
  top_logprobs: z.array(z.record(z.string(), z.number()).nullable()),
  text_offset: z.array(z.int().min(0)),
});

export const completion = z.strictObject({
  id: z.string().regex(/^cmpl-[0-9A-Za-z]{29}$/),
  object: z.literal('text_completion'),
  created: z.int(),
  model: z.string(),
  system_fingerprint: z.string().regex(/^fp_[0-9a-f]{10}$/),
  choices: z.array(
    z.strictObject({
      index: z.int().min(0),
      text: z.string(),
      logprobs: logprobs.nullable(),
      finish_reason: z.enum(['stop', 'length']).nullable(),
      stop_reason: z.string().nullable(),
      prompt_logprobs: promptLogprobs.optional(),
      token_ids: tokenIds.optional(),
      prompt_token_ids: tokenIds.optional(),
    }),
  ),
  usage: usage.nullable().optional(),
});

export const tokens = z.strictObject({
  count: z.int().min(0),
  max_model_len: z.int().min(1),
  tokens: tokenIds,
  token_strs: z.array(z.string()).nullable(),
});

export const detokenized = z.strictObject({ prompt: z.string() });

export const renderedPrompt = z.strictObject({ prompt: z.string() });

export const tokenizerInfo = z.strictObject({
  tokenizer_class: z.literal('Monolith'),
  bos_token: z.string().nullable(),
  eos_token: z.string().nullable(),
  pad_token: z.null(),
  chat_template: z.string().nullable(),
});

const count = z.int().min(0);
const amount = z.number().min(0);
/** A response, or the last part of a stream, if `stop` is true. */
export const infill = z.strictObject({
  index: z.literal(0),
  content: z.string(),
  tokens: tokenIds,
  id_slot: z.literal(-1),
  stop: z.boolean(),
  model: z.string().optional(),
  tokens_predicted: count.optional(),
  tokens_evaluated: count.optional(),
  tokens_cached: count.optional(),
  has_new_line: z.boolean().optional(),
  truncated: z.literal(false).optional(),
  stop_type: z.enum(['eos', 'word', 'limit']).optional(),
  stopping_word: z.string().optional(),
  timings: z
    .strictObject({
      cache_n: count,
      prompt_n: count,
      prompt_ms: amount,
      prompt_per_token_ms: amount,
      prompt_per_second: amount,
      predicted_n: count,
      predicted_ms: amount,
      predicted_per_token_ms: amount,
      predicted_per_second: amount,
    })
    .optional(),
});
