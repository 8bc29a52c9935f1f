// The shape of a chat completions request, field by field as the contract lists them (sections 1 and 2).
// Unknown fields are dropped; null means absent for every optional field.
import { z } from 'zod';
import type { ErrorCode } from '../../errors.js';
import { bounded, clientId, integer, metadataField, MAX_STOP_STRINGS, samplingFields, stopString } from '../fields.js';

const text = z.string();

const textPart = z.object({ type: z.literal('text'), text });
const imagePart = z.object({
  type: z.literal('image_url'),
  image_url: z.object({ url: text, detail: z.enum(['auto', 'low', 'high', 'original']).nullish() }),
});
const userPart = z.discriminatedUnion('type', [
  textPart, imagePart, z.object({ type: z.literal('input_audio') }), z.object({ type: z.literal('file') }),
]);
const assistantPart = z.discriminatedUnion('type', [textPart, z.object({ type: z.literal('refusal'), refusal: text })]);
const toolPart = z.discriminatedUnion('type', [textPart, imagePart]);
const parts = <T extends z.ZodType>(part: T) => z.union([text, z.array(part).min(1)]);

const toolCall = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('function'),
    id: clientId(),
    function: z.object({ name: z.string().min(1).max(128), arguments: text }),
  }),
  z.object({ type: z.literal('custom') }),
]);

export const messageSchema = z.discriminatedUnion('role', [
  z.object({ role: z.literal('system'), content: parts(z.discriminatedUnion('type', [textPart])), name: text.nullish() }),
  z.object({ role: z.literal('developer'), content: parts(z.discriminatedUnion('type', [textPart])), name: text.nullish() }),
  z.object({ role: z.literal('user'), content: parts(userPart), name: text.nullish() }),
  z.object({
    role: z.literal('assistant'),
    content: parts(assistantPart).nullish(),
    refusal: text.nullish(),
    reasoning_content: text.nullish(),
    tool_calls: z.array(toolCall).nullish(),
    name: text.nullish(),
  }).superRefine((message, context) => {
    if (message.content != null || message.refusal != null || message.tool_calls?.length) return;
    context.addIssue({
      code: 'custom', path: ['content'], message: 'must be given unless refusal or tool_calls is',
      params: { api: 'missing_required_parameter' satisfies ErrorCode },
    });
  }),
  z.object({ role: z.literal('tool'), content: parts(toolPart), tool_call_id: clientId() }),
  z.object({ role: z.literal('function') }),
]);

export const chatRequestSchema = z.object({
  model: text,
  messages: z.array(messageSchema).min(1).max(100_000),

  max_completion_tokens: integer().min(1).nullish(),
  max_tokens: integer().min(1).nullish(),
  stop: z.union([stopString(), z.array(stopString()).max(MAX_STOP_STRINGS)]).nullish(),
  n: integer().min(1).max(128).nullish(),

  ...samplingFields,
  logprobs: z.boolean().nullish(),
  top_logprobs: integer().min(0).max(20).nullish(),
  ignore_eos: z.boolean().nullish(),

  stream: z.boolean().nullish(),
  stream_options: z.object({ include_usage: z.boolean().nullish(), include_obfuscation: z.boolean().nullish() }).nullish(),
  response_format: z.discriminatedUnion('type', [
    z.object({ type: z.literal('text') }), z.object({ type: z.literal('json_object') }), z.object({ type: z.literal('json_schema') }),
  ]).nullish(),
  tools: z.array(z.object({ type: text })).max(128).nullish(),
  tool_choice: z.union([
    z.enum(['none', 'auto', 'required']),
    z.discriminatedUnion('type', [
      z.object({ type: z.literal('function'), function: z.object({ name: text }) }),
      z.object({ type: z.literal('custom'), custom: z.object({ name: text }) }),
      z.object({ type: z.literal('allowed_tools'), allowed_tools: z.object({ mode: z.enum(['auto', 'required']), tools: z.array(z.unknown()).max(128) }) }),
    ]),
  ]).nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  reasoning_effort: z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']).nullish(),
  include_reasoning: z.boolean().nullish(),
  continue_final_message: z.boolean().nullish(),
  chat_template_kwargs: z.object({ enable_thinking: z.boolean().nullish() }).nullish(),

  metadata: metadataField,
  store: z.boolean().nullish(),
  user: bounded(512).nullish(),
  safety_identifier: bounded(512).nullish(),
  prompt_cache_key: bounded(512).nullish(),
  prompt_cache_options: z.unknown().optional(),
  prompt_cache_retention: z.unknown().optional(),
  prediction: z.unknown().optional(),
  verbosity: z.unknown().optional(),
  service_tier: z.enum(['auto', 'default', 'flex', 'scale', 'priority', 'fast', 'ultrafast']).nullish(),
  modalities: z.array(z.enum(['text', 'audio'])).max(2).nullish(),

  audio: z.unknown().optional(),
  web_search_options: z.unknown().optional(),
  moderation: z.unknown().optional(),
  functions: z.unknown().optional(),
  function_call: z.unknown().optional(),
});

export type ChatRequest = z.infer<typeof chatRequestSchema>;
export type ChatMessage = z.infer<typeof messageSchema>;

/** Every field name this format knows; others are ignored and named in the x-ignored-parameters header. */
export const KNOWN_FIELDS: ReadonlySet<string> = new Set(Object.keys(chatRequestSchema.shape));
