// Schema of a Messages request, field by field. Unknown fields are dropped. For every optional field, null means
// absent. Known but unsupported values pass here and are rejected by parse.ts after the model lookup.
import { z } from 'zod';
import { bounded, given, integer, jsonObject, MAX_STOP_STRINGS, samplingFields, stopString } from '../fields.js';
import { constraintFields } from '../constraints.js';
import { templateVariablesField } from '../template-variables.js';
import { MAX_TOOLS } from '../../config/tool-limit.js';
import { list } from '../list.js';
import { unshownMembers } from '../hosted-text.js';
import { opaque, unreadMembers } from '../unread.js';
import { unreadSettings } from './vendor-tools.js';
import { contextManagementField } from './context-management.js';

const text = z.string();

/** Minimum of `thinking.budget_tokens`, enforced in thinking.ts. */
export const MIN_THINKING_BUDGET = 1_024;

const textBlock = z.object({ type: z.literal('text'), text });
const imageBlock = z.object({
  type: z.literal('image'),
  source: z.discriminatedUnion('type', [
    z.object({ type: z.literal('base64'), media_type: text.nullish(), data: text }),
    z.object({ type: z.literal('url'), url: text }),
    z.object({ type: z.literal('file'), file_id: text }),
  ]),
});
const searchResultBlock = z.object({
  type: z.literal('search_result'),
  title: text,
  source: text,
  content: list(z.discriminatedUnion('type', [textBlock])),
});
const documentBlock = z.object({
  type: z.literal('document'),
  title: text.nullish(),
  context: text.nullish(),
  source: z.discriminatedUnion('type', [
    z.object({ type: z.literal('text'), data: text }),
    z.object({
      type: z.literal('content'),
      content: z.union([text, list(z.discriminatedUnion('type', [textBlock, imageBlock]))]),
    }),
    z.object({ type: z.literal('base64'), media_type: text.nullish(), data: text }),
    z.object({ type: z.literal('file'), file_id: text }),
    opaque(z.object({ type: z.literal('url') })),
  ]),
});

/** Calls and results of tools that Anthropic's servers ran. They are shown to the model as text. */
const hostedBlock = opaque(
  z.looseObject({
    type: z.enum([
      'server_tool_use',
      'web_search_tool_result',
      'web_fetch_tool_result',
      'code_execution_tool_result',
      'bash_code_execution_tool_result',
      'text_editor_code_execution_tool_result',
      'tool_search_tool_result',
      'mcp_tool_use',
      'mcp_tool_result',
      'mcp_tool_listing',
      'advisor_tool_result',
    ]),
  }),
  unshownMembers,
);
const toolReferenceBlock = z.object({ type: z.literal('tool_reference'), tool_name: text });

/** Other block types that only Anthropic's own service can produce or read. */
const unservedTypes = ['fallback', 'tool_addition', 'tool_removal', 'container_upload', 'browser_state'] as const;
const unservedBlock = opaque(z.object({ type: z.enum([...unservedTypes, 'compaction']) }));
/**
 * A summary of the messages before the block. The other members of the block are useful only to the service that wrote
 * it.
 */
const compactionBlock = opaque(
  z.object({ type: z.literal('compaction'), content: text.nullish() }),
  unreadMembers(['type', 'content', 'encrypted_content', 'signature']),
);

const toolResultBlock = z.object({
  type: z.literal('tool_result'),
  tool_use_id: text,
  content: z
    .union([
      text,
      list(
        z.discriminatedUnion('type', [
          textBlock,
          imageBlock,
          searchResultBlock,
          documentBlock,
          toolReferenceBlock,
          hostedBlock,
          unservedBlock,
        ]),
      ),
    ])
    .nullish(),
  is_error: z.boolean().nullish(),
});
const toolUseBlock = z.object({ type: z.literal('tool_use'), id: text, name: text, input: jsonObject() });
// The signature is optional here, so that a missing one is reported as an invalid signature.
const thinkingBlock = z.object({ type: z.literal('thinking'), thinking: text, signature: text.nullish() });
const redactedThinkingBlock = z.object({ type: z.literal('redacted_thinking'), data: text.nullish() });

/** Empty strings pass here; parse.ts reports them as missing. */
const content = <T extends z.ZodType>(block: T, { atLeastOne = true } = {}) =>
  z.union([z.string().meta({ minLength: 1 }), list(block, { atLeastOne })]);

export const messageSchema = z.discriminatedUnion('role', [
  z.object({
    role: z.literal('user'),
    content: content(
      z.discriminatedUnion('type', [
        textBlock,
        imageBlock,
        toolResultBlock,
        documentBlock,
        searchResultBlock,
        hostedBlock,
        unservedBlock,
      ]),
    ),
  }),
  z.object({
    role: z.literal('assistant'),
    content: content(
      z.discriminatedUnion('type', [
        textBlock,
        toolUseBlock,
        thinkingBlock,
        redactedThinkingBlock,
        hostedBlock,
        compactionBlock,
        opaque(z.object({ type: z.enum(unservedTypes) })),
      ]),
      { atLeastOne: false },
    ),
  }),
  z.object({ role: z.literal('system'), content: content(z.discriminatedUnion('type', [textBlock, unservedBlock])) }),
]);

const customTool = z.object({
  type: z.literal('custom').nullish(),
  name: text,
  description: text.nullish(),
  input_schema: jsonObject().meta(given('type', { const: 'object' })),
  strict: z.boolean().nullish(),
  /** If true, the tool is shown to the model only after a tool_reference or a call has named it. */
  defer_loading: z.boolean().nullish(),
});
const vendorTool = opaque(
  z.looseObject({ type: text.refine((type) => type !== 'custom').meta({ not: { const: 'custom' } }) }),
  unreadSettings,
);

const oneCall = { disable_parallel_tool_use: z.boolean().nullish() };
const display = z.enum(['summarized', 'omitted', 'updates']).nullish();
/** What to do with thinking blocks that were not created for this organization. */
const blockBinding = z.object({ prefix_mismatch_behavior: z.enum(['error', 'drop_block']).nullish() }).nullish();
const outputFormat = z
  .discriminatedUnion('type', [z.object({ type: z.literal('json_schema'), schema: jsonObject() })])
  .nullish();

export const messagesRequestSchema = z.object({
  model: text,
  max_tokens: integer().min(0),
  messages: list(messageSchema, { atLeastOne: true }),
  system: z.union([text, list(z.discriminatedUnion('type', [textBlock]))]).nullish(),
  stop_sequences: z.array(stopString()).max(MAX_STOP_STRINGS).nullish(),
  stream: z.boolean().nullish(),

  ...samplingFields,
  ignore_eos: z.boolean().nullish(),
  top_k: integer().min(0).nullish(),

  tools: z
    .array(z.union([customTool, vendorTool]))
    .max(MAX_TOOLS)
    .nullish(),
  tool_choice: z
    .discriminatedUnion('type', [
      z.object({ type: z.literal('auto'), ...oneCall }),
      z.object({ type: z.literal('any'), ...oneCall }),
      z.object({ type: z.literal('tool'), name: text, ...oneCall }),
      z.object({ type: z.literal('none') }),
    ])
    .nullish(),
  thinking: z
    .discriminatedUnion('type', [
      z.object({
        type: z.literal('enabled'),
        budget_tokens: integer().meta({ minimum: MIN_THINKING_BUDGET }),
        display,
        block_binding: blockBinding,
      }),
      z.object({ type: z.literal('adaptive'), display, block_binding: blockBinding }),
      z.object({ type: z.enum(['disabled', 'between_tools']) }),
    ])
    .nullish(),
  output_config: z
    .object({ format: outputFormat, effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).nullish() })
    .nullish(),
  output_format: outputFormat,
  chat_template_kwargs: templateVariablesField,
  ...constraintFields,

  metadata: z.object({ user_id: bounded(512).nullish() }).nullish(),
  service_tier: z.enum(['auto', 'standard_only']).nullish(),
  speed: z.enum(['standard', 'fast']).nullish(),

  cache_control: z.object({ type: z.enum(['ephemeral']).nullish(), ttl: z.enum(['5m', '1h']).nullish() }).nullish(),
  inference_geo: z.unknown().optional(),
  diagnostics: z.object({ previous_message_id: bounded(512).nullish() }).nullish(),
  context_management: contextManagementField,
  betas: z.unknown().optional(),

  container: z.unknown().optional(),
  mcp_servers: z.unknown().optional(),
  thread: z.unknown().optional(),
});

/**
 * `max_tokens` is optional for counting, but it affects the count: if it leaves too little room for reasoning, the
 * prompt is different.
 */
export const countTokensSchema = messagesRequestSchema.extend({
  max_tokens: integer().min(0).nullish(),
  stream: z.unknown().optional(),
});

export type MessagesRequest = Omit<z.infer<typeof messagesRequestSchema>, 'max_tokens' | 'stream'>;
export type WireMessage = z.infer<typeof messageSchema>;
export type WireBlock = Exclude<WireMessage['content'], string>[number];
export type WireTool = NonNullable<MessagesRequest['tools']>[number];
