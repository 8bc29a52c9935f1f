// Schemas of input items and tools. Unknown fields are dropped. For every optional field, null means absent. Known but
// unsupported values pass here and are rejected by the content checks (422).
import { z } from 'zod';
import type { ErrorCode } from '../../shared/error-codes.js';
import { BROKEN_TEXT, clientId, given, isWhole, jsonObject, MAX_ID } from '../fields.js';
import { flatCustomGrammar } from '../custom-tools.js';
import { unshownMembers } from '../hosted-text.js';
import { list } from '../list.js';
import { MAX_TOOLS } from '../../config/tool-limit.js';
import { opaque } from '../unread.js';

const text = z.string();

/** IDs used to store items and to look them up later. */
const storedId = clientId().refine(isWhole, { error: BROKEN_TEXT });
/** IDs of items that clients send back. An empty string counts as absent. */
const itemId = z.string().max(MAX_ID).refine(isWhole, { error: BROKEN_TEXT }).nullish();
const itemStatus = text.nullish();

const imagePart = z
  .object({
    type: z.literal('input_image'),
    image_url: text.nullish(),
    file_id: text.nullish(),
    detail: z.enum(['low', 'high', 'auto', 'original']).nullish(),
  })
  .superRefine((part, context) => {
    if (part.image_url != null || part.file_id != null) return;
    context.addIssue({
      code: 'custom',
      path: ['image_url'],
      message: 'is required',
      params: { api: 'missing_required_parameter' satisfies ErrorCode },
    });
  })
  .meta({ anyOf: [given('image_url', { type: 'string' }), given('file_id', { type: 'string' })] });

/** All part types. Content checks decide which roles may contain which parts. */
export const partSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('input_text'), text }),
  z.object({ type: z.literal('output_text'), text }),
  z.object({ type: z.literal('refusal'), refusal: text }),
  imagePart,
  z.object({
    type: z.literal('input_file'),
    file_id: text.nullish(),
    file_data: text.nullish(),
    file_url: text.nullish(),
    filename: text.nullish(),
  }),
  z.object({ type: z.enum(['input_video', 'input_audio']) }),
]);

const content = z.union([text, list(partSchema, { atLeastOne: true })]);

const messageFields = { type: z.literal('message'), id: itemId, status: itemStatus };

const messageSchema = z.discriminatedUnion('role', [
  z.object({ ...messageFields, role: z.literal('user'), content }),
  z.object({ ...messageFields, role: z.literal('system'), content }),
  z.object({ ...messageFields, role: z.literal('developer'), content }),
  z.object({
    ...messageFields,
    role: z.literal('assistant'),
    content: z.union([text, list(partSchema)]),
    phase: z.enum(['commentary', 'final_answer']).nullish(),
  }),
]);

/**
 * Calls and results of hosted tools that this service does not run. They occur in conversations from other providers
 * and are shown to the model as text.
 */
export const hostedItemTypes = [
  'web_search_call',
  'file_search_call',
  'code_interpreter_call',
  'image_generation_call',
  'computer_call',
  'computer_call_output',
  'local_shell_call',
  'local_shell_call_output',
  'shell_call',
  'shell_call_output',
  'apply_patch_call',
  'apply_patch_call_output',
  'tool_search_call',
  'tool_search_output',
  'mcp_call',
  'mcp_list_tools',
  'mcp_approval_request',
  'mcp_approval_response',
] as const;

/** Codex items that this server cannot read. They are omitted and listed in `x-ignored-content`. */
const leftOutItemTypes = ['ghost_snapshot', 'other'] as const;
/** Compaction items of other Codex versions. They are omitted and listed if this server did not create them. */
const summaryItemTypes = ['compaction_summary', 'context_compaction'] as const;

/** A message between Codex's agents. Parts without text are omitted and listed. */
const agentMessage = z.object({
  type: z.literal('agent_message'),
  id: itemId,
  message: text.nullish(),
  content: z.union([text, list(z.object({ type: text, text: text.nullish() }))]).nullish(),
});

const toolName = z.string().min(1).max(128);
const SERVED_TOOLS: readonly string[] = ['function', 'custom', 'namespace'];

const functionTool = z.object({
  type: z.literal('function'),
  name: text,
  description: text.nullish(),
  parameters: jsonObject().nullish(),
  strict: z.boolean().nullish(),
});

const customTool = z.object({
  type: z.literal('custom'),
  name: text,
  description: text.nullish(),
  format: z.discriminatedUnion('type', [z.object({ type: z.literal('text') }), flatCustomGrammar]).nullish(),
});

/**
 * Hosted tools and any other entries in the list, which are not validated here: web search tools are read by
 * web-search.ts, and the others are ignored. `abort` is set because the union would otherwise select this branch for
 * its error reports.
 */
const otherTool = opaque(
  z.looseObject({
    type: text
      .refine((type) => !SERVED_TOOLS.includes(type), { abort: true })
      .meta({ not: { enum: [...SERVED_TOOLS] } }),
  }),
);

export const toolSchema = z.union([
  z.discriminatedUnion('type', [
    functionTool,
    customTool,
    z.object({
      type: z.literal('namespace'),
      name: text.min(1),
      description: text.nullish(),
      tools: z.array(z.union([z.discriminatedUnion('type', [functionTool, customTool]), otherTool])).max(MAX_TOOLS),
    }),
  ]),
  otherTool,
]);

export const itemSchema = z.discriminatedUnion('type', [
  messageSchema,
  z.object({
    type: z.literal('function_call'),
    id: itemId,
    status: itemStatus,
    call_id: storedId,
    name: toolName,
    namespace: z.string().max(128).nullish(),
    arguments: text,
  }),
  z.object({
    type: z.literal('function_call_output'),
    id: itemId,
    status: itemStatus,
    call_id: storedId.nullish(),
    name: text.nullish(),
    namespace: text.nullish(),
    output: z.union([text, list(partSchema)]),
  }),
  z.object({
    type: z.literal('custom_tool_call'),
    id: itemId,
    status: itemStatus,
    call_id: storedId,
    name: toolName,
    namespace: z.string().max(128).nullish(),
    input: text,
  }),
  z.object({
    type: z.literal('custom_tool_call_output'),
    id: itemId,
    status: itemStatus,
    call_id: storedId,
    output: z.union([text, list(partSchema)]),
  }),
  z.object({
    type: z.literal('reasoning'),
    id: itemId,
    status: itemStatus,
    summary: list(z.object({ type: z.literal('summary_text'), text })),
    content: list(z.object({ type: z.enum(['reasoning_text', 'text']), text })).nullish(),
    encrypted_content: text.nullish(),
  }),
  z.object({ type: z.literal('compaction'), id: itemId, encrypted_content: text }),
  z.object({ type: z.literal('item_reference'), id: storedId }),
  z.object({ type: z.literal('additional_tools'), tools: z.array(toolSchema).max(MAX_TOOLS) }),
  opaque(z.looseObject({ type: z.enum(hostedItemTypes), id: itemId }), unshownMembers),
  agentMessage,
  opaque(z.object({ type: z.literal('agent_reasoning'), id: itemId, text: text.nullish() })),
  opaque(z.object({ type: z.enum(summaryItemTypes), id: itemId, encrypted_content: text.nullish() })),
  opaque(z.object({ type: z.enum(leftOutItemTypes) })),
  z.object({ type: z.literal('compaction_trigger') }),
  opaque(z.object({ type: z.enum(['configuration_update', 'program', 'program_output']) })),
]);

export type HostedItemType = (typeof hostedItemTypes)[number];
export type InputPart = z.infer<typeof partSchema>;
export type WireItem = z.infer<typeof itemSchema>;
export type ToolEntry = z.infer<typeof toolSchema>;
