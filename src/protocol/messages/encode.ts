// Encodes the generation events of one request as messages JSON, streamed or not. No side effects. One state machine
// decides where content blocks start and end, and both forms write its output, so a stream's joined deltas equal the
// non-streamed response.
import type { EndReason, GenerationEvent, JsonSchema, LeftOut } from '../../generation/types.js';
import type { McpOutcome, McpTool } from '../../generation/mcp/types.js';
import type { SearchOutcome, SearchResult } from '../../generation/web-search/outcome.js';
import { newMcpToolUseId, newServerToolUseId, newToolUseId } from '../../shared/ids.js';
import { parseExact } from '../../shared/exact-json.js';
import { GrowingText } from '../../shared/growing-text.js';
import { isDeeper, MAX_CALL_DEPTH } from '../../shared/json-depth.js';
import { toSearchContent } from '../search-content.js';
import type { Usage } from '../usage.js';
import { compactionEvents, wireApplied, wireCompaction, wireIterations, type ContextReport } from './context-answer.js';
import type { MessageDiagnostics } from './diagnostics.js';
import { completePart } from './partial-json.js';

export interface MessageEnvelope {
  id: string;
  model: string; // the model name from the request
  /** If false, the thinking text is sent only in encrypted form, in the signature. */
  visibleThinking: boolean;
  /**
   * Returns the signature that the client must send back with a thinking block. `block`: the upstream's own block, or
   * null.
   */
  signature(thinking: string, block: JsonSchema | null): string;
  /** Whether the response contains blocks with the tools listed by MCP servers. */
  showsListings: boolean;
  /** Whether no output was requested, in which case the response has no blocks. */
  empty: boolean;
  /** Whether the output limit comes from the context window rather than from the request. */
  cappedByContext: boolean;
  /** Returns the reasoning that was not passed to the model. Null if the client did not request this list. */
  leftOut: (() => readonly LeftOut[]) | null;
  /** Null if the request has no `context_management`. */
  context: ContextReport | null;
  /** Returns the result of the comparison with an earlier message's prompt. Null if no comparison was requested. */
  diagnostics: () => MessageDiagnostics | null;
}

type OutputEvent = Exclude<GenerationEvent, { type: 'started' | 'failed' }>;
type FinishedEvent = Extract<GenerationEvent, { type: 'finished' }>;
type BlockStart =
  | { type: 'thinking' }
  | { type: 'text' }
  | { type: 'tool_use' | 'server_tool_use'; id: string; name: string }
  | { type: 'mcp_tool_use'; id: string; name: string; server: string }
  /** A block that is complete from the start. */
  | { type: 'mcp_tool_result'; id: string; outcome: McpOutcome }
  | { type: 'mcp_tool_listing'; server: string; tools: readonly McpTool[] }
  | { type: 'web_search_tool_result'; id: string; outcome: SearchOutcome };

/**
 * Receives the state machine's output. For each block: a start, any number of appends, at most one signature, and a
 * stop.
 */
interface BlockWriter {
  start(block: BlockStart): void;
  append(text: string): void;
  sign(signature: string): void;
  stop(): void;
}

const STOP_REASONS = {
  end_of_turn: 'end_turn',
  stop_string: 'stop_sequence',
  tool_calls: 'tool_use',
  max_tokens: 'max_tokens',
  context_full: 'model_context_window_exceeded',
  time_limit: 'max_tokens',
  repetition: 'max_tokens',
  malformed_call: 'max_tokens',
} as const satisfies Record<EndReason, string>;

/**
 * Decides where blocks start and end. At most one block is open at a time, and text is appended only to the open block.
 */
class Blocks {
  #open: BlockStart['type'] | null = null;
  #last: BlockStart['type'] | null = null;
  #thinking = new GrowingText(); // text of the open thinking block
  #arguments = false; // whether the open call has arguments
  #search = ''; // ID of the running search
  #mcp = ''; // ID of the running MCP call
  #server = ''; // the MCP server that lists its tools

  constructor(
    private readonly envelope: MessageEnvelope,
    private readonly writer: BlockWriter,
  ) {}

  take(event: OutputEvent): void {
    switch (event.type) {
      case 'text':
        if (event.text === '') return;
        if (event.section === 'content') {
          this.#switchTo({ type: 'text' });
          this.writer.append(event.text);
          return;
        }
        this.#switchTo({ type: 'thinking' });
        this.#thinking.add(event.text);
        if (this.envelope.visibleThinking) this.writer.append(event.text);
        return;
      case 'thought':
        this.#switchTo({ type: 'thinking' });
        this.#close(event.block);
        return;
      case 'call_started':
        this.#close();
        this.#start({ type: 'tool_use', id: newToolUseId(event.key), name: event.name });
        this.#arguments = false;
        return;
      case 'call_arguments': {
        if (this.#open !== 'tool_use') throw new Error('received arguments for a tool call that is not open');
        // Clients' parsers accept any prefix of a JSON object, except whitespace alone.
        const text = this.#arguments ? event.text : event.text.trimStart();
        if (text === '') return;
        this.#arguments = true;
        this.writer.append(text);
        return;
      }
      case 'call_finished':
        if (this.#open !== 'tool_use') throw new Error('received the end of a tool call that is not open');
        if (event.complete && !this.#arguments) this.writer.append('{}');
        this.#close();
        return;
      case 'search_started':
        this.#close();
        this.#search = newServerToolUseId();
        this.#start({ type: 'server_tool_use', id: this.#search, name: 'web_search' });
        this.writer.append(JSON.stringify(event.query === null ? {} : { query: event.query }));
        this.#close();
        return;
      case 'search_finished':
        this.#start({ type: 'web_search_tool_result', id: this.#search, outcome: event.outcome });
        this.#close();
        return;
      case 'mcp_listing_started':
        this.#server = event.label;
        return;
      case 'mcp_listing_finished':
        if (!this.envelope.showsListings || !('tools' in event.listing)) return;
        this.#close();
        this.#start({ type: 'mcp_tool_listing', server: this.#server, tools: event.listing.tools });
        this.#close();
        return;
      case 'mcp_started':
        this.#close();
        this.#mcp = newMcpToolUseId();
        this.#start({ type: 'mcp_tool_use', id: this.#mcp, name: event.name, server: event.label });
        this.writer.append(event.arguments.trim() === '' ? '{}' : event.arguments.trimStart());
        this.#close();
        return;
      case 'mcp_finished':
        this.#start({ type: 'mcp_tool_result', id: this.#mcp, outcome: event.outcome });
        this.#close();
        return;
      case 'finished':
        this.#close();
        if (this.envelope.empty || this.#last === 'text' || this.#last === 'tool_use') return;
        // Clients read the final text from the last block, so a text block is added at the end.
        this.#start({ type: 'text' });
        this.#close();
    }
  }

  #switchTo(block: { type: 'thinking' } | { type: 'text' }): void {
    if (this.#open === block.type) return;
    this.#close();
    this.#start(block);
  }

  #start(block: BlockStart): void {
    this.#open = this.#last = block.type;
    this.writer.start(block);
  }

  #close(block: JsonSchema | null = null): void {
    if (this.#open === null) return;
    if (this.#open === 'thinking') {
      this.writer.sign(this.envelope.signature(this.#thinking.toString(), block));
      this.#thinking = new GrowingText();
    }
    this.#open = null;
    this.writer.stop();
  }
}

/** In this format, input_tokens excludes the tokens read from the cache. */
function wireCounts(usage: Usage): object {
  return {
    input_tokens: usage.promptTokens - usage.cachedTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: usage.cachedTokens,
    output_tokens: usage.completionTokens,
    output_tokens_details: { thinking_tokens: usage.reasoningTokens },
    server_tool_use:
      usage.webSearches === undefined ? null : { web_search_requests: usage.webSearches, web_fetch_requests: 0 },
  };
}

function wireUsage(usage: Usage): object {
  return {
    ...wireCounts(usage),
    // The cache has no lifetimes, and writing to it is not counted.
    cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
    service_tier: 'standard',
    speed: 'standard',
    inference_geo: null,
  };
}

/**
 * How a message ended. `paused`: after a compaction, without generating a response. Null if the message is
 * unfinished.
 */
type Ended = FinishedEvent | 'paused' | null;

function stopFields({ cappedByContext }: Pick<MessageEnvelope, 'cappedByContext'>, ended: Ended): object {
  const finished = ended === 'paused' ? null : ended;
  const reason = cappedByContext && finished?.reason === 'max_tokens' ? 'context_full' : finished?.reason;
  return {
    stop_reason: ended === 'paused' ? 'compaction' : reason === undefined ? null : STOP_REASONS[reason],
    stop_sequence: finished?.reason === 'stop_string' ? finished.stopString : null,
    stop_details: null,
    container: null,
  };
}

function message(envelope: MessageEnvelope, content: readonly object[], ended: Ended, usage: object): object {
  const { id, model, context } = envelope;
  return {
    id,
    type: 'message',
    role: 'assistant',
    model,
    content,
    ...stopFields(envelope, ended),
    diagnostics: envelope.diagnostics(),
    ...(context === null ? {} : { context_management: ended === null ? null : wireApplied(context.applied) }),
    ...(envelope.leftOut === null ? {} : { input_transformations: envelope.leftOut().map(wireTransformation) }),
    usage,
  };
}

/**
 * The format defines no reason for a block of unknown origin, so such a block is reported as belonging to another
 * organization.
 */
const wireTransformation = ({ path, reason }: LeftOut): object => ({
  type: 'thinking_dropped',
  path: path.replace(/\[(\d+)\]/g, '.$1'),
  reason: reason === 'foreign' ? 'organization_binding_mismatch' : 'model_binding_mismatch',
});

/**
 * As in Anthropic's own responses, there is no `citations` field, because clients whose schema makes the field optional
 * reject null.
 */
const wireText = (text: string): object => ({ type: 'text', text });
const wireThinking = (thinking: string, signature: string): object => ({ type: 'thinking', thinking, signature });
const wireCall = (id: string, name: string, input: object): object => ({
  type: 'tool_use',
  id,
  name,
  input,
  caller: { type: 'direct' },
});

const wireServerCall = (id: string, name: string, input: object): object => ({
  ...wireCall(id, name, input),
  type: 'server_tool_use',
});
const wireMcpCall = (id: string, name: string, server: string, input: object): object => ({
  type: 'mcp_tool_use',
  id,
  name,
  server_name: server,
  input,
});
const wireMcpResult = (id: string, { text, error }: McpOutcome): object => ({
  type: 'mcp_tool_result',
  tool_use_id: id,
  is_error: error !== null,
  content: [{ type: 'text', text }],
});
const wireListing = (server: string, tools: readonly McpTool[]): object => ({
  type: 'mcp_tool_listing',
  mcp_server_name: server,
  tools: tools.map(({ name, description, inputSchema }) => ({
    name,
    ...(description === null ? {} : { description }),
    input_schema: inputSchema,
  })),
});
const wireSearch = (id: string, outcome: SearchOutcome): object => ({
  type: 'web_search_tool_result',
  tool_use_id: id,
  content:
    'error' in outcome
      ? { type: 'web_search_tool_result_error', error_code: outcome.error }
      : outcome.results.map(wireResult),
  caller: { type: 'direct' },
});
const wireResult = ({ url, title, content, publishedAt }: SearchResult): object => ({
  type: 'web_search_result',
  url,
  title,
  encrypted_content: toSearchContent(content),
  page_age: publishedAt,
});

/** Parses the arguments into an object, as the format requires. Numbers keep their exact digits. */
function inputOf(text: string): object {
  let value: unknown;
  try {
    value = parseExact(text);
  } catch {
    value = null; // cut off by the output limit, so only the complete members are kept
  }
  const input = typeof value === 'object' && value !== null && !Array.isArray(value) ? value : completePart(text);
  return isDeeper(input, MAX_CALL_DEPTH) ? {} : input;
}

/** Collects a non-streamed response. */
export class MessageCollector {
  readonly #content: object[] = [];
  readonly #blocks: Blocks;
  #ended: Ended;

  constructor(private readonly envelope: MessageEnvelope) {
    const compaction = envelope.context?.compaction ?? null;
    this.#ended = compaction?.pauses === true ? 'paused' : null;
    if (compaction !== null) this.#content.push(wireCompaction(compaction.summary));
    let block: BlockStart = { type: 'text' };
    let growing = new GrowingText();
    let signature = '';
    this.#blocks = new Blocks(envelope, {
      start: (started) => {
        block = started;
        growing = new GrowingText();
        signature = '';
      },
      append: (more) => growing.add(more),
      sign: (value) => {
        signature = value;
      },
      stop: () => {
        const text = growing.toString();
        this.#content.push(wholeBlock(block, text, signature));
      },
    });
  }

  take(event: OutputEvent): void {
    this.#blocks.take(event);
    if (event.type === 'finished') this.#ended = event;
  }

  body(usage: Usage): object {
    const counts = { ...wireUsage(usage), ...wireIterations(this.envelope, usage) };
    return message(this.envelope, this.#content, this.#ended, counts);
  }
}

function wholeBlock(block: BlockStart, text: string, signature: string): object {
  switch (block.type) {
    case 'text':
      return wireText(text);
    case 'thinking':
      return wireThinking(text, signature);
    case 'tool_use':
      return wireCall(block.id, block.name, inputOf(text));
    case 'server_tool_use':
      return wireServerCall(block.id, block.name, inputOf(text));
    case 'mcp_tool_use':
      return wireMcpCall(block.id, block.name, block.server, inputOf(text));
    default:
      return emptyBlock(block);
  }
}

/** `name`: the name of the server-sent event, which equals the data's `type`. */
export type Emit = (data: string, name: string) => void;

/**
 * Emits a stream's events. Deltas are the hot path: their constant parts are serialized once per block, so each token
 * costs one JSON.stringify of its text.
 */
export class MessageStreamEncoder {
  readonly #blocks: Blocks;
  /** Events before the start: the tools listed by MCP servers. */
  readonly #early: OutputEvent[] = [];
  #started = false;
  #ended: Ended = null;

  constructor(
    private readonly envelope: MessageEnvelope,
    private readonly emit: Emit,
  ) {
    let index = envelope.context?.compaction == null ? -1 : 0;
    let head = ''; // constant part of the block's deltas, up to the text
    this.#blocks = new Blocks(envelope, {
      start: (block) => {
        index++;
        const delta = `{"type":"content_block_delta","index":${index},"delta":`;
        emit(
          `{"type":"content_block_start","index":${index},"content_block":${JSON.stringify(emptyBlock(block))}}`,
          'content_block_start',
        );
        switch (block.type) {
          case 'text':
            head = `${delta}{"type":"text_delta","text":`;
            break;
          case 'thinking':
            head = `${delta}{"type":"thinking_delta","thinking":`;
            break;
          case 'tool_use':
          case 'server_tool_use':
          case 'mcp_tool_use':
            head = `${delta}{"type":"input_json_delta","partial_json":`;
            emit(`${head}""}}`, 'content_block_delta');
        }
      },
      append: (text) => emit(`${head}${JSON.stringify(text)}}}`, 'content_block_delta'),
      sign: (signature) =>
        emit(
          `{"type":"content_block_delta","index":${index},"delta":{"type":"signature_delta","signature":${JSON.stringify(signature)}}}`,
          'content_block_delta',
        ),
      stop: () => emit(`{"type":"content_block_stop","index":${index}}`, 'content_block_stop'),
    });
  }

  /** Sends the prompt's token counts. Must be called first. */
  start({ promptTokens, cachedTokens }: Pick<Usage, 'promptTokens' | 'cachedTokens'>): void {
    if (this.#started) throw new Error('the message has already started');
    this.#started = true;
    const usage = {
      ...wireUsage({ promptTokens, cachedTokens, completionTokens: 0, reasoningTokens: 0 }),
      output_tokens_details: null,
    };
    this.emit(
      `{"type":"message_start","message":${JSON.stringify(message(this.envelope, [], null, usage))}}`,
      'message_start',
    );
    this.emit('{"type":"ping"}', 'ping');
    const compaction = this.envelope.context?.compaction ?? null;
    if (compaction !== null) {
      for (const event of compactionEvents(compaction.summary)) this.emit(JSON.stringify(event), event.type);
      if (compaction.pauses) this.#ended = 'paused';
    }
    for (const event of this.#early.splice(0)) this.take(event);
  }

  take(event: OutputEvent): void {
    if (!this.#started && (event.type === 'mcp_listing_started' || event.type === 'mcp_listing_finished')) {
      this.#early.push(event);
      return;
    }
    if (!this.#started || this.#ended !== null) throw new Error('received an event outside a message');
    this.#blocks.take(event);
    if (event.type === 'finished') this.#ended = event;
  }

  /** Sends the last events. Must be called after the `finished` event. */
  end(usage: Usage): void {
    if (this.#ended === null) throw new Error('the message ended before its finished event');
    const { context } = this.envelope;
    this.emit(
      JSON.stringify({
        type: 'message_delta',
        delta: stopFields(this.envelope, this.#ended),
        usage: { ...wireCounts(usage), ...wireIterations(this.envelope, usage) },
        ...(context === null ? {} : { context_management: wireApplied(context.applied) }),
      }),
      'message_delta',
    );
    this.emit('{"type":"message_stop"}', 'message_stop');
  }
}

function emptyBlock(block: BlockStart): object {
  switch (block.type) {
    case 'text':
      return wireText('');
    case 'thinking':
      return wireThinking('', '');
    case 'tool_use':
      return wireCall(block.id, block.name, {});
    case 'server_tool_use':
      return wireServerCall(block.id, block.name, {});
    case 'mcp_tool_use':
      return wireMcpCall(block.id, block.name, block.server, {});
    case 'mcp_tool_result':
      return wireMcpResult(block.id, block.outcome);
    case 'mcp_tool_listing':
      return wireListing(block.server, block.tools);
    case 'web_search_tool_result':
      return wireSearch(block.id, block.outcome);
  }
}
