// Schemas of the Responses API's responses, as published in openapi.json. They describe exactly what this server sends;
// the two published standards that they follow are more permissive in places.
import { z } from 'zod';
import { cacheTiers, replayedItems } from './cache-tiers.js';

const count = () => z.int().min(0);
const text = z.string();
const id = (prefix: string) => z.string().regex(new RegExp(`^${prefix}_[0-9a-f]{48}$`));

const status = z.enum(['queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled']);
const itemStatus = z.enum(['in_progress', 'completed', 'incomplete']);

const candidate = z.strictObject({ token: text, logprob: z.number(), bytes: z.array(z.int().min(0).max(255)) });
const logprobs = z.array(candidate.extend({ top_logprobs: z.array(candidate).max(20) }));

const outputText = z.strictObject({ type: z.literal('output_text'), text, annotations: z.array(z.never()), logprobs });
const summaryText = z.strictObject({ type: z.literal('summary_text'), text });
const reasoningText = z.strictObject({ type: z.literal('reasoning_text'), text });

const cacheDiagnostics = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('cache_miss'),
    reason: z.enum([
      'model_changed',
      'tools_changed',
      'text_format_changed',
      'reasoning_effort_changed',
      'verbosity_changed',
      'context_compacted',
      'input_changed',
    ]),
    cache_missed_tokens: count(),
    comparison_reusable_tokens: count(),
    cache: cacheTiers.optional(),
    replayed_items: replayedItems.optional(),
  }),
  z.strictObject({
    type: z.enum(['cache_hit', 'comparison_response_not_found', 'unavailable']),
    cache: cacheTiers.optional(),
    replayed_items: replayedItems.optional(),
  }),
]);

export const outputItem = z.discriminatedUnion('type', [
  z.strictObject({
    id: id('msg'),
    type: z.literal('message'),
    status: itemStatus,
    role: z.literal('assistant'),
    content: z.array(outputText),
  }),
  z.strictObject({
    id: id('fc'),
    type: z.literal('function_call'),
    status: itemStatus,
    call_id: z.string().regex(/^call_[0-9A-Za-z]{24}$/),
    name: text,
    namespace: text.optional(),
    arguments: text,
  }),
  z.strictObject({
    id: id('ctc'),
    type: z.literal('custom_tool_call'),
    status: itemStatus,
    call_id: z.string().regex(/^call_[0-9A-Za-z]{24}$/),
    name: text,
    namespace: text.optional(),
    input: text,
  }),
  z.strictObject({
    id: id('rs'),
    type: z.literal('reasoning'),
    status: itemStatus,
    summary: z.array(summaryText),
    content: z.array(reasoningText).optional(),
    encrypted_content: text.optional(),
  }),
  z.strictObject({ id: id('cmp'), type: z.literal('compaction'), encrypted_content: text }),
  z.strictObject({
    id: id('ws'),
    type: z.literal('web_search_call'),
    status: z.enum(['in_progress', 'completed', 'failed']),
    action: z.strictObject({
      type: z.literal('search'),
      query: text,
      queries: z.array(text),
      sources: z.array(z.strictObject({ type: z.literal('url'), url: text })).optional(),
    }),
    results: z.array(z.strictObject({ title: text, url: text, text })).optional(),
  }),
  z.strictObject({
    id: id('mcpl'),
    type: z.literal('mcp_list_tools'),
    server_label: text,
    tools: z.array(
      z.strictObject({
        name: text,
        description: text.nullable(),
        input_schema: z.record(z.string(), z.unknown()),
        annotations: z.record(z.string(), z.unknown()).nullable(),
      }),
    ),
    error: text.optional(),
  }),
  z.strictObject({
    id: id('mcp'),
    type: z.literal('mcp_call'),
    status: z.enum(['in_progress', 'completed', 'incomplete', 'failed']),
    server_label: text,
    name: text,
    arguments: text,
    approval_request_id: text.nullable(),
    output: text.nullable(),
    error: z
      .discriminatedUnion('type', [
        z.strictObject({ type: z.literal('mcp_protocol_error'), code: z.number(), message: text }),
        z.strictObject({ type: z.literal('http_error'), code: z.number(), message: text }),
        z.strictObject({
          type: z.literal('mcp_tool_execution_error'),
          content: z.array(z.strictObject({ type: z.literal('text'), text })),
        }),
      ])
      .nullable(),
  }),
  z.strictObject({
    id: id('mcpr'),
    type: z.literal('mcp_approval_request'),
    server_label: text,
    name: text,
    arguments: text,
  }),
]);

const searchType = z.string().regex(/^web_search/);
const searchTool = z.strictObject({
  type: searchType,
  filters: z
    .strictObject({ allowed_domains: z.array(text).nullable(), blocked_domains: z.array(text).optional() })
    .nullable(),
  search_context_size: z.literal('medium'),
  user_location: z.null(),
});

const toolFilter = z.object({ tool_names: z.array(text).nullish(), read_only: z.boolean().nullish() });
const mcpTool = z.strictObject({
  type: z.literal('mcp'),
  server_label: text,
  server_url: text,
  server_description: text.nullable(),
  headers: z.null(),
  allowed_tools: z.union([z.array(text), toolFilter]).nullable(),
  require_approval: z.union([
    z.enum(['always', 'never']),
    z.object({ always: toolFilter.nullish(), never: toolFilter.nullish() }),
  ]),
});

const tool = z.strictObject({
  type: z.literal('function'),
  name: text,
  description: text.nullable(),
  parameters: z.record(z.string(), z.unknown()).nullable(),
  strict: z.boolean().nullable(),
});

const customTool = z.strictObject({
  type: z.literal('custom'),
  name: text,
  description: text.nullable(),
  format: z.discriminatedUnion('type', [
    z.strictObject({ type: z.literal('text') }),
    z.strictObject({ type: z.literal('grammar'), syntax: z.enum(['lark', 'regex']), definition: text }),
  ]),
});

const usage = z.strictObject({
  input_tokens: count(),
  input_tokens_details: z.strictObject({ cached_tokens: count(), cache_write_tokens: count() }),
  output_tokens: count(),
  output_tokens_details: z.strictObject({ reasoning_tokens: count() }),
  total_tokens: count(),
});

const effort = z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']);

export const response = z.strictObject({
  id: id('resp'),
  object: z.literal('response'),
  created_at: z.int(),
  completed_at: z.int().nullable(),
  status,
  background: z.boolean(),
  error: z.strictObject({ code: z.enum(['server_error', 'rate_limit_exceeded']), message: text }).nullable(),
  incomplete_details: z.strictObject({ reason: z.literal('max_output_tokens') }).nullable(),
  instructions: text.nullable(),
  model: text,
  previous_response_id: text.nullable(),
  conversation: z.strictObject({ id: text }).nullable().optional(), // absent in responses stored by earlier releases
  output: z.array(outputItem),
  tools: z.array(
    z.union([tool, customTool, searchTool, mcpTool, z.looseObject({ type: z.literal('namespace'), name: text })]),
  ),
  tool_choice: z.union([
    z.enum(['none', 'auto', 'required']),
    z.looseObject({ type: z.enum(['function', 'custom']), name: text }),
    z.strictObject({ type: searchType }),
    z.strictObject({ type: z.literal('mcp'), server_label: text, name: text.optional() }),
    z.looseObject({
      type: z.literal('allowed_tools'),
      mode: z.enum(['auto', 'required']),
      tools: z.array(z.unknown()),
    }),
  ]),
  parallel_tool_calls: z.boolean(),
  max_tool_calls: z.int().nullable(),
  max_output_tokens: z.int().nullable(),
  temperature: z.number(),
  top_p: z.number(),
  presence_penalty: z.number(),
  frequency_penalty: z.number(),
  top_logprobs: z.int(),
  truncation: z.enum(['auto', 'disabled']),
  text: z.strictObject({
    format: z.discriminatedUnion('type', [
      z.strictObject({ type: z.literal('text') }),
      z.strictObject({ type: z.literal('json_object') }),
      z.strictObject({
        type: z.literal('json_schema'),
        name: text,
        description: text.nullable(),
        schema: z.record(z.string(), z.unknown()),
        strict: z.boolean(),
      }),
    ]),
    verbosity: z.enum(['low', 'medium', 'high']).optional(),
  }),
  reasoning: z.strictObject({ effort: effort.nullable(), summary: z.enum(['auto', 'concise', 'detailed']).nullable() }),
  store: z.boolean(),
  service_tier: z.literal('default'),
  metadata: z.record(z.string(), z.string()),
  safety_identifier: text.nullable(),
  prompt_cache_key: text.nullable(),
  user: text.nullable(),
  usage: usage.nullable(),
  tool_usage: z
    .strictObject({
      image_gen: z.looseObject({ total_tokens: z.literal(0) }),
      web_search: z.strictObject({ num_requests: count() }),
    })
    .optional(),
  prompt_cache_diagnostics: cacheDiagnostics.optional(),
});

const event = <T extends z.ZodRawShape>(type: string, fields: T) =>
  z.strictObject({ type: z.literal(type), sequence_number: count(), ...fields });
const output_index = count();
const content_index = z.literal(0);
const summary_index = z.literal(0);
const item_id = text.min(1);

/** Raw-reasoning events have two names: one for OpenAI's clients and one for Open Responses clients. */
const rawReasoning = ['response.reasoning', 'response.reasoning_text'].flatMap((name) => [
  event(`${name}.delta`, { item_id, output_index, content_index, delta: text }),
  event(`${name}.done`, { item_id, output_index, content_index, text }),
]);

export const responseEvent = z.union([
  ...['created', 'queued', 'in_progress', 'completed', 'incomplete', 'failed'].map((name) =>
    event(`response.${name}`, { response }),
  ),
  ...['added', 'done'].map((name) => event(`response.output_item.${name}`, { output_index, item: outputItem })),
  ...['added', 'done'].map((name) =>
    event(`response.content_part.${name}`, {
      item_id,
      output_index,
      content_index,
      part: z.union([outputText, reasoningText]),
    }),
  ),
  event('response.output_text.delta', { item_id, output_index, content_index, delta: text, logprobs }),
  event('response.output_text.done', { item_id, output_index, content_index, text, logprobs }),
  event('response.function_call_arguments.delta', { item_id, output_index, delta: text }),
  event('response.function_call_arguments.done', { item_id, output_index, name: text, arguments: text }),
  event('response.custom_tool_call_input.delta', { item_id, output_index, delta: text }),
  event('response.custom_tool_call_input.done', { item_id, output_index, input: text }),
  ...['in_progress', 'searching', 'completed'].map((state) =>
    event(`response.web_search_call.${state}`, { item_id, output_index }),
  ),
  ...['in_progress', 'completed', 'failed'].flatMap((state) =>
    ['mcp_list_tools', 'mcp_call'].map((item) => event(`response.${item}.${state}`, { item_id, output_index })),
  ),
  event('response.mcp_call_arguments.delta', { item_id, output_index, delta: text }),
  event('response.mcp_call_arguments.done', { item_id, output_index, arguments: text }),
  ...rawReasoning,
  ...['added', 'done'].map((name) =>
    event(`response.reasoning_summary_part.${name}`, { item_id, output_index, summary_index, part: summaryText }),
  ),
  event('response.reasoning_summary_text.delta', { item_id, output_index, summary_index, delta: text }),
  event('response.reasoning_summary_text.done', { item_id, output_index, summary_index, text }),
  event('error', {
    error: z.strictObject({ type: text, code: text, message: text, param: text.nullable() }),
    code: text,
    message: text,
    param: text.nullable(),
  }),
]);

export const responseDeleted = z.strictObject({
  id: id('resp'),
  object: z.literal('response'),
  deleted: z.literal(true),
});
export const responseInputTokens = z.strictObject({
  object: z.literal('response.input_tokens'),
  input_tokens: count(),
});
export const responseItemList = z.strictObject({
  object: z.literal('list'),
  data: z.array(z.looseObject({ id: text, type: text })),
  first_id: text.nullable(),
  last_id: text.nullable(),
  has_more: z.boolean(),
});
export const compaction = z.strictObject({
  id: id('resp'),
  object: z.literal('response.compaction'),
  created_at: z.int(),
  output: z.array(z.looseObject({ id: text, type: z.enum(['message', 'compaction']) })),
  usage,
});
