// Converts messages to internal messages: merges consecutive messages with the same role, pairs tool calls with
// results, and includes the thinking of the current tool loop. No side effects.
import { apiError } from '../../shared/errors.js';
import { mcpToolName } from '../../generation/mcp/tool-set.js';
import type { Message, Thought, ToolCall } from '../../generation/types.js';
import { stringifyAsWritten } from '../../shared/exact-json.js';
import { summaryText } from '../context/summary-text.js';
import { isRecord } from '../entry-limits.js';
import { MAX_ID } from '../fields.js';
import { hostedText } from '../hosted-text.js';
import { ToolTurns } from '../tool-turns.js';
import {
  BLANK_LINE,
  refuseContent,
  toContent,
  toolResultContent,
  type Placed,
  type ReadableBlock,
  type ToolResultBlock,
} from './content.js';
import type { MessagesRequest, WireBlock, WireMessage } from './schema.js';
import type { OpenedBlocks } from './thinking.js';

const MAX_NAME = 128;

/** A group of consecutive messages with the same role. */
interface Turn {
  role: WireMessage['role'];
  path: string; // path of the first message
  blocks: Placed<WireBlock>[]; // without empty text blocks
}

/**
 * Groups messages into turns. `unseen`: blocks that are not passed to the model. A message with no other blocks is
 * skipped. Throws ApiError 400 for a message without content.
 */
export function toTurns(
  messages: readonly WireMessage[],
  unseen: ReadonlySet<WireBlock>,
  mcpServers: ReadonlySet<string> = new Set(),
): Turn[] {
  const entries = messages.map((message, index) => {
    const path = `messages[${index}]`;
    // The prompt lists the tools of the servers that the request uses.
    const all = placedBlocks(message, `${path}.content`).filter(({ block }) => !isListing(block, mcpServers));
    const seen = all.every(({ block }) => unseen.has(block)) ? [] : all;
    const { role } = message;
    const { summary, blocks } = role === 'assistant' ? fromSummary(seen) : { summary: null, blocks: seen };
    // A response can have no blocks, or only an empty text block. Clients send such a response back unchanged.
    const mayBeEmpty = summary !== null || (role === 'assistant' && typeof message.content !== 'string');
    if (blocks.length === 0 && !mayBeEmpty)
      throw apiError('missing_required_parameter', `${path}.content must not be empty.`, `${path}.content`);
    return { role, path, summary, blocks };
  });
  const turns: Turn[] = [];
  const start = entries.findLastIndex(({ summary }) => summary !== null);
  for (const [index, { role, path, summary, blocks }] of entries.entries()) {
    if (index < start && role !== 'system') continue;
    if (index === start && summary !== null) turns.push(summaryTurn(summary));
    if (blocks.length === 0) continue;
    const last = turns.at(-1);
    if (last?.role === role) for (const block of blocks) last.blocks.push(block);
    else turns.push({ role, path, blocks });
  }
  return turns;
}

const isListing = (block: WireBlock, servers: ReadonlySet<string>): boolean =>
  block.type === 'mcp_tool_listing' && servers.has(String((block as { mcp_server_name?: unknown }).mcp_server_name));

/** Finds the last compaction block, which replaces everything before it. A block without a summary has no effect. */
function fromSummary(blocks: readonly Placed<WireBlock>[]): {
  summary: Placed<string> | null;
  blocks: Placed<WireBlock>[];
} {
  let summary: Placed<string> | null = null;
  let rest: Placed<WireBlock>[] = [];
  for (const placed of blocks) {
    const { block, path } = placed;
    if (block.type !== 'compaction' || !('content' in block)) {
      if (block.type !== 'compaction') rest.push(placed);
    } else if (block.content != null && block.content !== '') {
      summary = { block: block.content, path };
      rest = [];
    }
  }
  return { summary, blocks: rest };
}

/** Returns the summary as a user turn, because many templates require the conversation to start with a user turn. */
function summaryTurn({ block: summary, path }: Placed<string>): Turn {
  return { role: 'user', path, blocks: [{ block: { type: 'text', text: summaryText(summary) }, path }] };
}

function placedBlocks({ content }: WireMessage, path: string): Placed<WireBlock>[] {
  if (typeof content === 'string') return content === '' ? [] : [{ block: { type: 'text', text: content }, path }];
  const placed: Placed<WireBlock>[] = [];
  for (const [at, block] of content.entries())
    if (block.type !== 'text' || block.text !== '') placed.push({ block, path: `${path}[${at}]` });
  return placed;
}

/** Throws ApiError 422. */
export function toMessages(
  turns: readonly Turn[],
  system: MessagesRequest['system'],
  thinking: OpenedBlocks,
  mcpServers: ReadonlySet<string> = new Set(),
): Message[] {
  const messages: Message[] = [];
  const calls = new ToolTurns();
  const running = turns.findLastIndex(
    ({ role, blocks }) => role === 'user' && blocks.some(({ block }) => block.type !== 'tool_result'),
  );
  let prompt = systemPrompt(system);
  for (const [index, turn] of turns.entries()) {
    if (turn.role !== 'user') calls.settle();
    switch (turn.role) {
      case 'system': {
        const text = textOf(turn.blocks, BLANK_LINE);
        if (messages.length > 0) messages.push({ role: 'system', path: turn.path, content: text });
        else prompt = prompt === '' ? withoutBillingLines(text) : prompt + BLANK_LINE + text;
        break;
      }
      case 'user':
        messages.push(...userTurn(turn, calls));
        calls.settle();
        break;
      case 'assistant':
        messages.push(...assistantTurns(turn, { calls, thinking, current: index > running, mcpServers }));
        break;
    }
  }
  calls.settle();
  return prompt === '' ? messages : [{ role: 'system', path: 'system', content: prompt }, ...messages];
}

function* userTurn({ path, blocks }: Turn, calls: ToolTurns): Generator<Message> {
  const rest: Placed<ReadableBlock>[] = [];
  // Tool results go first, wherever they appear in the message, because templates do not support any other position.
  for (const placed of blocks) {
    if (isToolResult(placed)) yield toolMessage(placed, calls);
    else rest.push(placed as Placed<ReadableBlock>);
  }
  if (rest.length > 0) yield { role: 'user', path, content: toContent(rest) };
}

function isToolResult(placed: Placed<WireBlock>): placed is Placed<ToolResultBlock> {
  return placed.block.type === 'tool_result';
}

function toolMessage({ block, path }: Placed<ToolResultBlock>, calls: ToolTurns): Message {
  const id = named(block.tool_use_id, `${path}.tool_use_id`, MAX_ID);
  calls.answer(id, `${path}.tool_use_id`);
  return {
    role: 'tool',
    path,
    content: toolResultContent(block, path),
    toolCallId: id,
    failed: block.is_error === true,
  };
}

interface TurnContext {
  calls: ToolTurns;
  thinking: OpenedBlocks;
  current: boolean;
  /** The MCP servers that the request uses. Their calls are shown as tool calls, and other calls as text. */
  mcpServers: ReadonlySet<string>;
}

/** Splits a turn after each result of an MCP call, because each result is a separate message. */
function* assistantTurns({ path, blocks, role }: Turn, context: TurnContext): Generator<Message> {
  const results = new Map<string, number>(); // the position of the last result of each call
  for (const [at, { block }] of blocks.entries())
    if (block.type === 'mcp_tool_result') results.set(mcpFields(block).id, at);
  let segment: Placed<WireBlock>[] = [];
  const made = new Map<WireBlock, McpCall>();
  const open = new Set<string>(); // IDs of calls without a result
  for (const [at, placed] of blocks.entries()) {
    const { block } = placed;
    const call = block.type === 'mcp_tool_use' ? mcpFields(block) : null;
    if (
      call !== null &&
      context.mcpServers.has(call.server) &&
      (results.get(call.id) ?? -1) > at &&
      !open.has(call.id)
    ) {
      made.set(block, call);
      open.add(call.id);
    }
    if (block.type !== 'mcp_tool_result' || !open.delete(mcpFields(block).id)) {
      segment.push(placed);
      continue;
    }
    if (segment.length > 0) yield assistantTurn({ path, blocks: segment, role }, context, made);
    segment = [];
    yield mcpResult(placed);
  }
  if (segment.length > 0 || blocks.length === 0) yield assistantTurn({ path, blocks: segment, role }, context, made);
}

interface McpCall {
  readonly id: string;
  readonly server: string;
  readonly name: string;
  readonly input: unknown;
}

/** The members of an `mcp_tool_use` or `mcp_tool_result` block. */
function mcpFields(block: WireBlock): McpCall {
  const { id, tool_use_id, server_name, name, input } = block as unknown as Readonly<Record<string, unknown>>;
  return { id: String(tool_use_id ?? id), server: String(server_name), name: String(name), input: input ?? {} };
}

function mcpResult({ block, path }: Placed<WireBlock>): Message {
  const { content, is_error: failed } = block as unknown as Readonly<Record<string, unknown>>;
  const parts =
    typeof content === 'string' ? [{ text: content }] : Array.isArray(content) ? (content as unknown[]) : [];
  const text = parts.map((part) => (isRecord(part) && typeof part['text'] === 'string' ? part['text'] : '')).join('\n');
  return { role: 'tool', path, toolCallId: mcpFields(block).id, content: text, failed: failed === true };
}

/**
 * Text blocks are joined without a separator, because a response that is being continued may have been cut off
 * anywhere.
 */
function assistantTurn(
  { path, blocks }: Turn,
  { calls, thinking: { opened, foreign }, current }: TurnContext,
  mcp: ReadonlyMap<WireBlock, McpCall>,
): Message {
  const toolCalls: ToolCall[] = [];
  const thoughts: Thought[] = [];
  let text = '';
  for (const { block, path: at } of blocks) {
    const made = mcp.get(block);
    if (made !== undefined) {
      const { id, server, name, input } = made;
      toolCalls.push({ id, name: mcpToolName(server, name), arguments: stringifyAsWritten(input) });
      continue;
    }
    text += textIn(block, at, text === '');
    switch (block.type) {
      case 'tool_use': {
        const id = named(block.id, `${at}.id`, MAX_ID);
        calls.call(id, at);
        toolCalls.push({
          id,
          name: named(block.name, `${at}.name`, MAX_NAME),
          arguments: stringifyAsWritten(block.input),
        });
        break;
      }
      case 'thinking':
      case 'redacted_thinking': {
        const thought = opened.get(block);
        if (thought === undefined) break;
        thoughts.push({
          text: thought.text,
          path: at,
          model: thought.model,
          origin: thought.origin,
          after: { text: text.length, calls: toolCalls.length },
          current,
        });
        break;
      }
    }
  }
  return {
    role: 'assistant',
    path,
    content: text === '' && toolCalls.length > 0 ? null : text,
    toolCalls: toolCalls.length > 0 ? toolCalls : undefined,
    ...(thoughts.length > 0 ? { thoughts } : {}),
    ...(blocks.some(({ block }) => foreign.has(block)) ? { lacksReasoning: true } : {}),
  };
}

/** Joins the blocks' text. Throws for block types without text. */
function textOf(blocks: readonly Placed<WireBlock>[], separator: string): string {
  return blocks
    .map(({ block, path }, at) => textIn(block, path, at === 0))
    .filter((text) => text !== '')
    .join(separator);
}

/** Returns the text of a block, or of a hosted tool's call or result. Throws for other block types. */
function textIn(block: WireBlock, path: string, isFirst: boolean): string {
  switch (block.type) {
    case 'text':
      return block.text;
    case 'tool_use':
    case 'thinking':
    case 'redacted_thinking':
      return '';
    case 'image':
    case 'document':
    case 'search_result':
    case 'tool_result':
    case 'compaction':
    case 'fallback':
    case 'tool_addition':
    case 'tool_removal':
    case 'container_upload':
    case 'browser_state':
      return refuseContent(block.type, path);
    default:
      return `${isFirst ? '' : '\n'}${hostedText(block)}\n`;
  }
}

function named(value: string, path: string, most: number): string {
  if (value === '') throw apiError('invalid_value', `${path} must have at least 1 character.`, path);
  if (value.length > most) throw apiError('string_too_long', `${path} may have at most ${most} characters.`, path);
  return value;
}

function systemPrompt(system: MessagesRequest['system']): string {
  const texts = typeof system === 'string' ? [system] : (system ?? []).map(({ text }) => text);
  let leading = true;
  const kept: string[] = [];
  for (const text of texts) {
    const cleaned = leading ? withoutBillingLines(text) : text;
    if (cleaned === '') continue;
    leading = false;
    kept.push(cleaned);
  }
  return kept.join(BLANK_LINE);
}

/**
 * Claude Code starts its system prompt with a line that changes with every request and is meaningless to the model.
 * This line is removed, because it would make the prefix cache useless.
 */
function withoutBillingLines(text: string): string {
  let rest = text;
  while (rest.startsWith('x-anthropic-billing-header:')) {
    const end = rest.indexOf('\n');
    rest = end === -1 ? '' : rest.slice(end + 1).replace(/^[\r\n]+/, '');
  }
  return rest;
}
