// Schemas of chat completions responses, streamed or not, as published in openapi.json.
import { z } from 'zod';

const count = () => z.int().min(0);
const finishReason = z.enum(['stop', 'length', 'tool_calls', 'function_call']);

const candidate = z.strictObject({ token: z.string(), logprob: z.number(), bytes: z.array(z.int().min(0).max(255)) });
const logprobs = z.strictObject({
  content: z.array(candidate.extend({ top_logprobs: z.array(candidate).max(20) })),
  refusal: z.null(),
});

export const usage = z.strictObject({
  prompt_tokens: count(),
  completion_tokens: count(),
  total_tokens: count(),
  prompt_tokens_details: z.strictObject({ cached_tokens: count(), audio_tokens: count() }),
  completion_tokens_details: z.strictObject({
    reasoning_tokens: count(),
    audio_tokens: count(),
    accepted_prediction_tokens: count(),
    rejected_prediction_tokens: count(),
  }),
});

const envelope = {
  id: z.string().regex(/^chatcmpl-([0-9A-Za-z]{29}|[0-9a-f]{48})$/),
  created: z.int(),
  model: z.string(),
  system_fingerprint: z.string().regex(/^fp_[0-9a-f]{10}$/),
  service_tier: z.literal('default'),
};

export const promptLogprobs = z.array(
  z
    .record(
      z.string(),
      z.strictObject({ logprob: z.number(), rank: z.int().min(1).nullable(), decoded_token: z.string() }),
    )
    .nullable(),
);
export const tokenIds = z.array(count());

const callId = z.string().regex(/^call_[0-9A-Za-z]{24}$/);
const toolCall = z.discriminatedUnion('type', [
  z.strictObject({
    id: callId,
    type: z.literal('function'),
    function: z.strictObject({ name: z.string(), arguments: z.string() }),
  }),
  z.strictObject({
    id: callId,
    type: z.literal('custom'),
    custom: z.strictObject({ name: z.string(), input: z.string() }),
  }),
]);

export const chatCompletion = z.strictObject({
  ...envelope,
  object: z.literal('chat.completion'),
  choices: z
    .array(
      z.strictObject({
        index: count(),
        message: z.strictObject({
          role: z.literal('assistant'),
          content: z.string().nullable(),
          reasoning_content: z.string().optional(),
          reasoning: z.string().optional(),
          tool_calls: z.array(toolCall).min(1).optional(),
          function_call: z.strictObject({ name: z.string(), arguments: z.string() }).optional(),
          refusal: z.null(),
          annotations: z.array(z.never()),
        }),
        logprobs: logprobs.nullable(),
        finish_reason: finishReason,
        stop_reason: z.string().nullable(),
        token_ids: tokenIds.optional(),
      }),
    )
    .min(1),
  usage,
  prompt_token_ids: tokenIds.optional(),
  prompt_logprobs: promptLogprobs.optional(),
  metadata: z.record(z.string(), z.string()).optional(),
});

const page = { first_id: z.string().nullable(), last_id: z.string().nullable(), has_more: z.boolean() };
export const chatCompletionList = z.strictObject({
  object: z.literal('list'),
  data: z.array(chatCompletion),
  ...page,
});
export const chatCompletionDeleted = z.strictObject({
  id: envelope.id,
  object: z.literal('chat.completion.deleted'),
  deleted: z.literal(true),
});
/** Messages have the fields that the client sent. */
export const chatMessageList = z.strictObject({
  object: z.literal('list'),
  data: z.array(z.looseObject({ id: z.string(), role: z.string() })),
  ...page,
});

const toolCallDelta = z.union([
  z.strictObject({
    index: count(),
    id: callId,
    type: z.literal('function'),
    function: z.strictObject({ name: z.string(), arguments: z.literal('') }),
  }),
  z.strictObject({ index: count(), function: z.strictObject({ arguments: z.string() }) }),
  z.strictObject({
    index: count(),
    id: callId,
    type: z.literal('custom'),
    custom: z.strictObject({ name: z.string(), input: z.literal('') }),
  }),
  z.strictObject({ index: count(), custom: z.strictObject({ input: z.string() }) }),
]);

export const chatCompletionChunk = z.strictObject({
  ...envelope,
  object: z.literal('chat.completion.chunk'),
  choices: z.array(
    z.strictObject({
      index: count(),
      delta: z.strictObject({
        role: z.literal('assistant').optional(),
        content: z.string().optional(),
        reasoning_content: z.string().optional(),
        reasoning: z.string().optional(),
        tool_calls: z.array(toolCallDelta).length(1).optional(),
        function_call: z.strictObject({ name: z.string().optional(), arguments: z.string() }).optional(),
      }),
      logprobs: logprobs.nullable(),
      finish_reason: finishReason.nullable(),
      stop_reason: z.string().nullable().optional(),
      token_ids: tokenIds.optional(),
    }),
  ),
  prompt_token_ids: tokenIds.optional(),
  usage: usage.nullable().optional(),
});
