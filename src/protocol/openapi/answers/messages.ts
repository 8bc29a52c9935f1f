// Schemas of messages responses, streamed or not, as published in openapi.json.
import { z } from 'zod';
import { cacheTiers, replayedItems } from './cache-tiers.js';

const count = () => z.int().min(0);

const text = z.strictObject({ type: z.literal('text'), text: z.string() });
const thinking = z.strictObject({ type: z.literal('thinking'), thinking: z.string(), signature: z.string() });
const direct = z.strictObject({ type: z.literal('direct') });
const toolUse = z.strictObject({
  type: z.literal('tool_use'),
  id: z.string().regex(/^toolu_[0-9A-Za-z]{24}$/),
  name: z.string(),
  input: z.record(z.string(), z.unknown()),
  caller: direct,
});

/** Only in responses to requests with `context_management`. */
const compaction = z.strictObject({
  type: z.literal('compaction'),
  content: z.string().nullable(),
  encrypted_content: z.null(),
});

const serverToolUse = z.strictObject({
  type: z.literal('server_tool_use'),
  id: z.string().regex(/^srvtoolu_[0-9A-Za-z]{24}$/),
  name: z.literal('web_search'),
  input: z.strictObject({ query: z.string().optional() }),
  caller: direct,
});
const searchResult = z.strictObject({
  type: z.literal('web_search_tool_result'),
  tool_use_id: z.string(),
  content: z.union([
    z.array(
      z.strictObject({
        type: z.literal('web_search_result'),
        url: z.string(),
        title: z.string(),
        encrypted_content: z.string(),
        page_age: z.string().nullable(),
      }),
    ),
    z.strictObject({
      type: z.literal('web_search_tool_result_error'),
      error_code: z.enum([
        'invalid_tool_input',
        'max_uses_exceeded',
        'query_too_long',
        'too_many_requests',
        'unavailable',
      ]),
    }),
  ]),
  caller: direct,
});

const mcpToolUse = z.strictObject({
  type: z.literal('mcp_tool_use'),
  id: z.string().regex(/^mcptoolu_[0-9A-Za-z]{24}$/),
  name: z.string(),
  server_name: z.string(),
  input: z.record(z.string(), z.unknown()),
});
const mcpToolResult = z.strictObject({
  type: z.literal('mcp_tool_result'),
  tool_use_id: z.string(),
  is_error: z.boolean(),
  content: z.array(text),
});
/** Only in responses to requests with the beta mcp-client-2026-09-15. */
const mcpToolListing = z.strictObject({
  type: z.literal('mcp_tool_listing'),
  mcp_server_name: z.string(),
  tools: z.array(
    z.strictObject({
      name: z.string(),
      description: z.string().optional(),
      input_schema: z.record(z.string(), z.unknown()),
    }),
  ),
});

const serverTools = z.strictObject({ web_search_requests: count(), web_fetch_requests: z.literal(0) }).nullable();
const outputDetails = z.strictObject({ thinking_tokens: count() });
const usage = z.strictObject({
  input_tokens: count(),
  cache_creation_input_tokens: count(),
  cache_read_input_tokens: count(),
  cache_creation: z.strictObject({ ephemeral_5m_input_tokens: count(), ephemeral_1h_input_tokens: count() }),
  output_tokens: count(),
  output_tokens_details: outputDetails.nullable(),
  server_tool_use: serverTools,
  service_tier: z.literal('standard'),
  speed: z.literal('standard'),
  inference_geo: z.null(),
});

const iterationCounts = {
  input_tokens: count(),
  cache_creation: z.null(),
  cache_creation_input_tokens: count(),
  cache_read_input_tokens: count(),
  output_tokens: count(),
};
/** Only if the conversation was compacted. */
const iterations = z
  .array(
    z.discriminatedUnion('type', [
      z.strictObject({ type: z.literal('compaction'), ...iterationCounts }),
      z.strictObject({ type: z.literal('message'), model: z.string(), ...iterationCounts }),
    ]),
  )
  .optional();

/** Only in responses to requests with `context_management`. */
const contextManagement = z.strictObject({
  applied_edits: z.array(
    z.discriminatedUnion('type', [
      z.strictObject({
        type: z.literal('clear_tool_uses_20250919'),
        cleared_tool_uses: count(),
        cleared_input_tokens: count(),
      }),
      z.strictObject({
        type: z.literal('clear_thinking_20251015'),
        cleared_thinking_turns: count(),
        cleared_input_tokens: count(),
      }),
    ]),
  ),
});

const stopReason = z.enum([
  'end_turn',
  'max_tokens',
  'stop_sequence',
  'tool_use',
  'model_context_window_exceeded',
  'compaction',
]);

const transformation = z.strictObject({
  type: z.literal('thinking_dropped'),
  path: z.string(),
  reason: z.enum(['organization_binding_mismatch', 'model_binding_mismatch']),
});

const diagnostics = z.strictObject({
  cache_miss_reason: z.discriminatedUnion('type', [
    z.strictObject({
      type: z.enum(['model_changed', 'system_changed', 'tools_changed', 'messages_changed']),
      cache_missed_input_tokens: count(),
    }),
    z.strictObject({ type: z.enum(['previous_message_not_found', 'unavailable']) }),
  ]),
  cache: cacheTiers.optional(),
  replayed_items: replayedItems.optional(),
});

export const message = z.strictObject({
  id: z.string().regex(/^msg_[0-9A-Za-z]{24}$/),
  type: z.literal('message'),
  role: z.literal('assistant'),
  model: z.string(),
  content: z.array(
    z.discriminatedUnion('type', [
      text,
      thinking,
      toolUse,
      serverToolUse,
      searchResult,
      mcpToolUse,
      mcpToolResult,
      mcpToolListing,
      compaction,
    ]),
  ),
  stop_reason: stopReason,
  stop_sequence: z.string().nullable(),
  stop_details: z.null(),
  container: z.null(),
  diagnostics: diagnostics.nullable(),
  /** Only with the beta `thinking-binding-controls-2026-08-01`. */
  input_transformations: z.array(transformation).optional(),
  context_management: contextManagement.optional(),
  usage: usage.extend({ iterations }),
});

const index = count();

export const messageEvent = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('message_start'),
    message: message.extend({
      content: z.array(z.never()),
      stop_reason: z.null(),
      stop_sequence: z.null(),
      context_management: z.null().optional(),
      usage,
    }),
  }),
  z.strictObject({ type: z.literal('ping') }),
  z.strictObject({
    type: z.literal('content_block_start'),
    index,
    content_block: z.discriminatedUnion('type', [
      text.extend({ text: z.literal('') }),
      thinking.extend({ thinking: z.literal(''), signature: z.literal('') }),
      toolUse.extend({ input: z.strictObject({}) }),
      serverToolUse.extend({ input: z.strictObject({}) }),
      searchResult,
      mcpToolUse,
      mcpToolResult,
      mcpToolListing,
      compaction.extend({ content: z.null() }),
    ]),
  }),
  z.strictObject({
    type: z.literal('content_block_delta'),
    index,
    delta: z.discriminatedUnion('type', [
      z.strictObject({ type: z.literal('text_delta'), text: z.string() }),
      z.strictObject({ type: z.literal('thinking_delta'), thinking: z.string() }),
      z.strictObject({ type: z.literal('signature_delta'), signature: z.string().min(1) }),
      z.strictObject({ type: z.literal('input_json_delta'), partial_json: z.string() }),
      compaction.extend({ type: z.literal('compaction_delta') }),
    ]),
  }),
  z.strictObject({ type: z.literal('content_block_stop'), index }),
  z.strictObject({
    type: z.literal('message_delta'),
    delta: z.strictObject({
      stop_reason: stopReason,
      stop_sequence: z.string().nullable(),
      stop_details: z.null(),
      container: z.null(),
    }),
    usage: z.strictObject({
      input_tokens: count(),
      cache_creation_input_tokens: count(),
      cache_read_input_tokens: count(),
      output_tokens: count(),
      output_tokens_details: outputDetails.nullable(),
      server_tool_use: serverTools,
      iterations,
    }),
    context_management: contextManagement.optional(),
  }),
  z.strictObject({ type: z.literal('message_stop') }),
]);

export const tokenCount = z.strictObject({
  input_tokens: count(),
  context_management: z.strictObject({ original_input_tokens: count() }).optional(),
});
