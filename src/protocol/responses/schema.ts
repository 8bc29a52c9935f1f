// Schema of a create request, field by field. Unknown fields are dropped. For every optional field, null means absent.
// input_tokens and compact use parts of it.
import { z } from 'zod';
import {
  bounded,
  cacheOptionFields,
  cacheRetention,
  component,
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
import { REASONING_EFFORTS } from '../../generation/types.js';
import { templateVariablesField } from '../template-variables.js';
import { MAX_TOOLS } from '../../config/tool-limit.js';
import { opaque } from '../unread.js';
import { contextManagementField } from './context-management.js';
import { itemSchema, toolSchema } from './schema-items.js';

const text = z.string();
const summary = z.enum(['auto', 'concise', 'detailed']).nullish();

/**
 * Maximum number of input items per request, far more than fit in a context. Longer lists are rejected without
 * validating their entries.
 */
export const MAX_ITEMS = 32_768;

const toolName = z.object({ type: z.enum(['function', 'custom']), name: text, namespace: text.nullish() });

/**
 * Tool types that are accepted in `tools` but ignored. Choosing such a tool in tool_choice is an error, as for any tool
 * that does not exist.
 */
const HOSTED_TOOLS = [
  'file_search',
  'code_interpreter',
  'image_generation',
  'mcp',
  'local_shell',
  'shell',
  'apply_patch',
  'tool_search',
  'programmatic_tool_calling',
];
/** Families of tool types whose names end in a date or version. */
const HOSTED_FAMILIES = [/^web_search/, /^computer/];
const isHosted = (type: string): boolean =>
  HOSTED_TOOLS.includes(type) || HOSTED_FAMILIES.some((family) => family.test(type));
/** `server_label` is checked after the tools have been read. */
const mcpToolChoice = z.object({ type: z.literal('mcp'), server_label: text.nullish(), name: text.nullish() });
const hostedChoice = opaque(
  z.object({
    type: text
      .refine(isHosted, { abort: true })
      .meta({ anyOf: [{ enum: HOSTED_TOOLS }, ...HOSTED_FAMILIES.map(({ source: pattern }) => ({ pattern }))] }),
  }),
);

const toolChoice = z.union([
  z.enum(['none', 'auto', 'required']),
  z.discriminatedUnion('type', [
    toolName,
    z.object({
      type: z.literal('allowed_tools'),
      mode: z.enum(['auto', 'required']).nullish(),
      tools: z
        .array(z.object({ type: text, name: text.nullish(), namespace: text.nullish(), server_label: text.nullish() }))
        .min(1)
        .max(MAX_TOOLS),
    }),
  ]),
  mcpToolChoice,
  hostedChoice,
]);

const textFormat = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text') }),
  z.object({ type: z.literal('json_object') }),
  z.object({
    type: z.literal('json_schema'),
    name: schemaName(),
    schema: jsonObject(),
    strict: z.boolean().nullish(),
    description: text.nullish(),
  }),
]);

const include = z.enum([
  'reasoning.encrypted_content',
  'message.output_text.logprobs',
  'message.input_image.image_url',
  'file_search_call.results',
  'web_search_call.results',
  'web_search_call.action.sources',
  'computer_call_output.output.image_url',
  'code_interpreter_call.outputs',
]);

export const inputSchema = z.union([text, z.array(itemSchema).max(MAX_ITEMS)]);

// Only for the published schema; parse.ts rejects a body without these fields.
const hasInput = given('input', { allOf: [component('ResponseInput')], minItems: 1 });
const hasPrevious = given('previous_response_id', { type: 'string' });
const hasConversation = { required: ['conversation'] };
const hasModel = given('model', { type: 'string' });

const createFields = z.object({
  model: text.nullish(),
  input: inputSchema.nullish(),
  instructions: text.nullish(),
  previous_response_id: text.nullish(),
  conversation: z.union([text, z.object({ id: text })]).nullish(),
  store: z.boolean().nullish(),
  background: z.boolean().nullish(),
  stream: z.boolean().nullish(),
  stream_options: z.object({ include_obfuscation: z.boolean().nullish() }).nullish(),
  max_output_tokens: integer().min(1).nullish(),

  ...samplingFields,
  stop: z.union([stopString(), z.array(stopString()).max(MAX_STOP_STRINGS)]).nullish(),
  top_logprobs: integer().min(0).max(20).nullish(),

  reasoning: z
    .object({
      effort: z.enum(REASONING_EFFORTS).nullish(),
      summary,
      generate_summary: summary,
    })
    .nullish(),
  chat_template_kwargs: templateVariablesField,
  ...constraintFields,
  text: z.object({ format: textFormat.nullish(), verbosity: z.enum(VERBOSITIES).nullish() }).nullish(),
  tools: z.array(toolSchema).max(MAX_TOOLS).nullish(),
  tool_choice: toolChoice.nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  max_tool_calls: integer().min(1).nullish(),
  truncation: z.enum(['auto', 'disabled']).nullish(),
  include: z.array(include).max(64).nullish(),

  metadata: metadataField,
  prompt_cache_key: bounded(512).nullish(),
  safety_identifier: bounded(512).nullish(),
  user: bounded(512).nullish(),
  service_tier: z.enum(['auto', 'default', 'flex', 'scale', 'priority', 'fast', 'ultrafast']).nullish(),
  prompt_cache_options: z
    .object({
      ...cacheOptionFields,
      prewarm: z.boolean().nullish(),
      /** The response whose prompt is compared with this request's prompt. */
      comparison_response_id: bounded(512).nullish(),
    })
    .nullish(),
  generate: z.boolean().nullish(),

  prompt_cache_retention: cacheRetention(),
  context_management: contextManagementField,
  image: z.unknown().optional(),
  access_programs: z.unknown().optional(),
  ignore_eos: z.boolean().nullish(),

  prompt: z.unknown().optional(),
  moderation: z.unknown().optional(),
});

export const createSchema = createFields.meta({
  allOf: [
    {
      anyOf: [
        hasInput,
        hasPrevious,
        hasConversation,
        given('generate', { const: false }),
        given('prompt_cache_options', { type: 'object', ...given('prewarm', { const: true }) }),
      ],
    },
    { anyOf: [hasModel, hasPrevious] },
  ],
});

/** The same schema without validation of the items, which are validated one by one, stopping at the first error. */
export const createEnvelopeSchema = createFields.extend({
  input: z.union([text, z.array(z.unknown()).max(MAX_ITEMS)]).nullish(),
});

export type CreateEnvelope = z.infer<typeof createEnvelopeSchema>;

/** The same schema for a WebSocket message. */
export const socketCreateSchema = createFields.extend({
  type: z.literal('response.create'),
  stream_id: text.regex(/^[A-Za-z0-9_.-]{1,256}$/, 'must be 1 to 256 letters, digits, _, . or -').nullish(),
});

export const inputTokensSchema = createFields
  .pick({
    model: true,
    input: true,
    previous_response_id: true,
    conversation: true,
    instructions: true,
    tools: true,
    tool_choice: true,
    text: true,
    reasoning: true,
    chat_template_kwargs: true,
    parallel_tool_calls: true,
    truncation: true,
    max_output_tokens: true,
  })
  .extend(constraintFields)
  .meta({ allOf: [{ anyOf: [hasInput, hasPrevious, hasConversation] }, { anyOf: [hasModel, hasPrevious] }] });

export const compactSchema = createFields
  .pick({
    input: true,
    previous_response_id: true,
    instructions: true,
    prompt_cache_key: true,
    prompt_cache_retention: true,
    prompt_cache_options: true,
    service_tier: true,
  })
  .extend({ model: text })
  .meta({ anyOf: [hasInput, hasPrevious] });
