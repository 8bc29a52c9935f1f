// Schema of a chat completions request, field by field. Unknown fields are dropped. For every optional field, null
// means absent.
import { z } from 'zod';
import type { ErrorCode } from '../../shared/error-codes.js';
import {
  MAX_CHOICE_CHARACTERS,
  MAX_CHOICES,
  MAX_GRAMMAR_CHARACTERS,
  MAX_PATTERN_CHARACTERS,
} from '../../generation/output-format.js';
import {
  bounded,
  cacheOptionFields,
  cacheRetention,
  clientId,
  component,
  evaluationFields,
  given,
  integer,
  jsonObject,
  metadataField,
  MAX_STOP_STRINGS,
  samplingFields,
  schemaName,
  stopString,
  VERBOSITIES,
} from '../fields.js';
import { constraintFields } from '../constraints.js';
import { customGrammar } from '../custom-tools.js';
import { REASONING_EFFORTS } from '../../generation/types.js';
import { templateVariablesField } from '../template-variables.js';
import { MAX_TOOLS } from '../../config/tool-limit.js';
import { opaque } from '../unread.js';

const text = z.string();

// The schema accepts every part in every role. Content checks (422) reject parts that a role does not support.
const part = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), text }),
  z.object({
    type: z.literal('image_url'),
    image_url: z.object({ url: text, detail: z.enum(['auto', 'low', 'high', 'original']).nullish() }),
  }),
  z.object({ type: z.literal('refusal'), refusal: text }),
  opaque(z.object({ type: z.literal('input_audio') })),
  z.object({
    type: z.literal('file'),
    file: z.object({ file_id: text.nullish(), file_data: text.nullish(), filename: text.nullish() }),
  }),
]);
export const messageContent = z.union([text, z.array(part).min(1)]);
const content = messageContent;
/** Some clients send an empty list for a turn or a tool result without text. */
const contentOrNothing = z.union([text, z.array(part)]);

export const toolCall = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('function'),
    id: clientId(),
    function: z.object({ name: z.string().min(1).max(128), arguments: text }),
  }),
  z.object({
    type: z.literal('custom'),
    id: clientId(),
    custom: z.object({ name: z.string().min(1).max(128), input: text }),
  }),
]);

/**
 * One entry of OpenRouter's `reasoning_details`. Only the text is read, because encrypted entries come from a
 * different service.
 */
const reasoningDetail = opaque(z.object({ type: text, text: text.nullish() }));

export const messageSchema = z.discriminatedUnion('role', [
  z.object({ role: z.literal('system'), content, name: text.nullish() }),
  z.object({ role: z.literal('developer'), content, name: text.nullish() }),
  z.object({ role: z.literal('user'), content, name: text.nullish() }),
  z
    .object({
      role: z.literal('assistant'),
      content: contentOrNothing.nullish(),
      refusal: text.nullish(),
      reasoning_content: text.nullish(),
      reasoning: text.nullish(),
      reasoning_details: z.array(reasoningDetail).nullish(),
      tool_calls: z.array(toolCall).nullish(),
      function_call: z.object({ name: z.string().min(1).max(128), arguments: text }).nullish(),
      name: text.nullish(),
    })
    .superRefine((message, context) => {
      if (message.content != null || message.refusal != null || message.tool_calls?.length) return;
      if (message.function_call != null) return;
      context.addIssue({
        code: 'custom',
        path: ['content'],
        message: 'is required unless refusal, tool_calls or function_call is given',
        params: { api: 'missing_required_parameter' satisfies ErrorCode },
      });
    })
    .meta({
      anyOf: [
        given('content', component('ChatMessageContent')),
        given('refusal', { type: 'string' }),
        given('tool_calls', { type: 'array', minItems: 1, items: component('ChatToolCall') }),
        given('function_call', { type: 'object' }),
      ],
    }),
  z.object({ role: z.literal('tool'), content: contentOrNothing.nullable(), tool_call_id: clientId() }),
  z.object({ role: z.literal('function'), content: contentOrNothing.nullable(), name: text }),
]);

// Tools of any other type are ignored. Without `abort`, the union would report the errors of this branch.
const TOOL_TYPES = ['function', 'custom'];
const otherType = text
  .refine((type) => !TOOL_TYPES.includes(type), { abort: true })
  .meta({ not: { enum: [...TOOL_TYPES] } });
const tool = z.union([
  z.discriminatedUnion('type', [
    z.object({
      type: z.literal('function'),
      function: z.object({
        name: text,
        description: text.nullish(),
        parameters: jsonObject().nullish(),
        strict: z.boolean().nullish(),
      }),
    }),
    z.object({
      type: z.literal('custom'),
      custom: z.object({
        name: text,
        description: text.nullish(),
        format: z
          .discriminatedUnion('type', [
            z.object({ type: z.literal('text') }),
            z.object({ type: z.literal('grammar'), grammar: customGrammar }),
          ])
          .nullish(),
      }),
    }),
  ]),
  opaque(z.object({ type: otherType })),
]);
const namedTool = z.discriminatedUnion('type', [
  z.object({ type: z.literal('function'), function: z.object({ name: text }) }),
  z.object({ type: z.literal('custom'), custom: z.object({ name: text }) }),
]);
const toolReference = z.union([namedTool, z.object({ type: otherType })]);

const toolChoice = z.union([
  z.enum(['none', 'auto', 'required']),
  z.discriminatedUnion('type', [
    ...namedTool.options,
    z.object({
      type: z.literal('allowed_tools'),
      allowed_tools: z.object({ mode: z.enum(['auto', 'required']), tools: z.array(toolReference).max(MAX_TOOLS) }),
    }),
  ]),
]);

export const responseFormat = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text') }),
  // `schema` as in llama-server.
  z.object({ type: z.literal('json_object'), schema: jsonObject().nullish() }),
  z.object({
    type: z.literal('json_schema'),
    json_schema: z.object({
      name: schemaName(),
      schema: jsonObject(),
      strict: z.boolean().nullish(),
      description: text.nullish(),
    }),
  }),
  // Extensions specific to this server; see docs/reference/structured-output.md.
  z.object({ type: z.literal('regex'), pattern: z.string().min(1).max(MAX_PATTERN_CHARACTERS) }),
  z.object({ type: z.literal('grammar'), grammar: z.string().min(1).max(MAX_GRAMMAR_CHARACTERS) }),
  z.object({
    type: z.literal('choice'),
    choices: z.array(z.string().min(1).max(MAX_CHOICE_CHARACTERS)).min(1).max(MAX_CHOICES),
  }),
  z.object({ type: z.literal('structural_tag') }),
]);

export const MAX_MESSAGES = 100_000;

export const chatRequestSchema = z.object({
  model: text,
  messages: z.array(messageSchema).min(1).max(MAX_MESSAGES),

  max_completion_tokens: integer().min(1).nullish(),
  max_tokens: integer().min(1).nullish(),
  stop: z.union([stopString(), z.array(stopString()).max(MAX_STOP_STRINGS)]).nullish(),
  n: integer().min(1).max(128).nullish(),

  ...samplingFields,
  logprobs: z.boolean().nullish(),
  top_logprobs: integer().min(0).max(20).nullish(),
  ...evaluationFields,

  stream: z.boolean().nullish(),
  stream_options: z
    .object({
      include_usage: z.boolean().nullish(),
      include_obfuscation: z.boolean().nullish(),
      continuous_usage_stats: z.boolean().nullish(),
    })
    .nullish(),
  response_format: responseFormat.nullish(),
  ...constraintFields,
  tools: z.array(tool).max(MAX_TOOLS).nullish(),
  tool_choice: toolChoice.nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  reasoning_effort: z.enum(REASONING_EFFORTS).nullish(),
  include_reasoning: z.boolean().nullish(),
  continue_final_message: z.boolean().nullish(),
  add_generation_prompt: z.boolean().nullish(),
  chat_template_kwargs: templateVariablesField,
  // Template variables that clients send as parameters. `thinking` as an object is DeepSeek's and GLM's parameter.
  enable_thinking: z.boolean().nullish(),
  preserve_thinking: z.boolean().nullish(),
  clear_thinking: z.boolean().nullish(),
  thinking: z
    .union([
      z.boolean(),
      z.object({
        type: z.enum(['enabled', 'disabled', 'adaptive', 'auto']),
        budget_tokens: integer().min(0).nullish(),
        clear_thinking: z.boolean().nullish(),
      }),
    ])
    .nullish(),

  metadata: metadataField,
  store: z.boolean().nullish(),
  user: bounded(512).nullish(),
  safety_identifier: bounded(512).nullish(),
  prompt_cache_key: bounded(512).nullish(),
  prompt_cache_options: z.object(cacheOptionFields).nullish(),
  prompt_cache_retention: cacheRetention(),
  prediction: z
    .object({
      type: z.literal('content'),
      content: z.union([z.string(), z.array(z.object({ type: z.literal('text'), text: z.string() }))]),
    })
    .nullish(),
  verbosity: z.enum(VERBOSITIES).nullish(),
  service_tier: z.enum(['auto', 'default', 'flex', 'scale', 'priority', 'fast', 'ultrafast']).nullish(),
  modalities: z
    .array(z.enum(['text', 'audio']))
    .max(2)
    .nullish(),

  audio: z.unknown().optional(),
  /** The fields are read by web-search.ts. */
  web_search_options: opaque(z.looseObject({})).nullish(),
  moderation: z.unknown().optional(),
  // The deprecated equivalents of `tools` and `tool_choice`; see functions.ts.
  functions: z
    .array(z.object({ name: text, description: text.nullish(), parameters: jsonObject().nullish() }))
    .max(MAX_TOOLS)
    .nullish(),
  function_call: z.union([z.enum(['none', 'auto']), z.object({ name: text })]).nullish(),
});

/** The same schema without validation of the messages, which are validated one by one, stopping at the first error. */
export const chatEnvelopeSchema = chatRequestSchema.extend({ messages: z.array(z.unknown()).min(1).max(MAX_MESSAGES) });

/** The body of a request that updates a stored chat completion. */
export const chatUpdateSchema = z.object({ metadata: metadataField }).meta({ required: ['metadata'] });

export type ChatEnvelopeFields = z.infer<typeof chatEnvelopeSchema>;
export type ChatMessage = z.infer<typeof messageSchema>;
export type ChatPart = z.infer<typeof part>;
