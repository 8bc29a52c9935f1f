// Converts generation events to the events and the resource of one response. The same state machine serves streamed and
// non-streamed responses. Pure except for IDs.
//
//   begin ─► created (queued) ─► in_progress ─► item by item ─► end ─► terminal
//                                                │ one open at a time; opening the next closes it
//
// A malformed stream is impossible by construction: item events exist only as methods of an open item
// (encode-items.ts), and the state machine has at most one open item.
import { newToolCallId } from '../../shared/ids.js';
import type { ApiError } from '../../shared/errors.js';
import type { EndReason, GenerationEvent, JsonSchema } from '../../generation/types.js';
import type { Usage } from '../usage.js';
import {
  OpenCall,
  OpenCustomCall,
  OpenMessage,
  OpenReasoning,
  type OpenItem,
  type ReasoningForm,
} from './encode-items.js';
import { approvalRequest, OpenMcpCall, OpenMcpListing } from './encode-mcp.js';
import { OpenSearch, type SearchForm } from './encode-search.js';
import { EventWriter, type WireEvent } from './encode-writer.js';
import type { ToolName } from './tools.js';
import type { SearchResult } from '../../generation/web-search/outcome.js';
import { wireToolUsage, wireUsage, type CompactionItem, type OutputItem, type ResponseResource } from './resource.js';

export interface MachineOptions {
  reasoning: ReasoningForm;
  /** Maps the model's tool names to the client's, for custom tools and tools in namespaces. */
  toolNames: ReadonlyMap<string, ToolName>;
  searchForm: SearchForm;
  /** Receives the events. Null if only the resource is needed. */
  take: ((event: WireEvent) => void) | null;
}

/** The end reasons of a complete response. A response that ended for any other reason was cut off. */
const WHOLE: ReadonlySet<EndReason> = new Set<EndReason>(['end_of_turn', 'stop_string', 'tool_calls']);

/** Item types that do not count as an answer. */
const NO_ANSWER: ReadonlySet<OutputItem['type']> = new Set<OutputItem['type']>([
  'reasoning',
  'web_search_call',
  'mcp_list_tools',
  'mcp_call',
  'compaction',
]);

type Phase = 'new' | 'created' | 'running' | 'ended';

export class ResponseMachine {
  readonly #out: EventWriter;
  #phase: Phase = 'new';
  #started = false;
  #open: OpenItem | null = null;
  /** The upstream's own blocks, by the ID of the reasoning item. */
  readonly blocks = new Map<string, JsonSchema>();
  /** The results of web searches, by the ID of their item. */
  readonly results = new Map<string, readonly SearchResult[]>();
  /** Fields of the response.created event in addition to the response. */
  created: Readonly<Record<string, unknown>> = {};

  /** The state machine takes ownership of `resource`. */
  constructor(
    readonly resource: ResponseResource,
    private readonly options: MachineOptions,
  ) {
    this.#out = new EventWriter(options.take);
  }

  /** Whether response.created was sent. */
  get started(): boolean {
    return this.#started;
  }

  /** Sends response.created, and response.queued for a background response. Idempotent. */
  begin(): void {
    if (this.#phase !== 'new') return;
    this.#phase = 'created';
    this.#started = true;
    this.#lifecycle('response.created', this.created);
    if (this.resource.status === 'queued') this.#lifecycle('response.queued');
  }

  event(event: Exclude<GenerationEvent, { type: 'failed' }>): void {
    this.#run();
    switch (event.type) {
      case 'started':
      case 'finished':
      case 'hosted_called':
      case 'continued':
        return;
      case 'search_started':
        this.#add((index) => new OpenSearch(this.#out, index, event.query ?? '', this.options.searchForm));
        return;
      case 'search_finished': {
        if (!(this.#open instanceof OpenSearch)) throw new Error('received the end of a search that is not running');
        this.#open.outcome = event.outcome;
        if ('results' in event.outcome) this.results.set(this.#open.id, event.outcome.results);
        this.#close('completed');
        return;
      }
      case 'mcp_listing_started':
        this.#add((index) => new OpenMcpListing(this.#out, index, event.label));
        return;
      case 'mcp_listing_finished':
        if (!(this.#open instanceof OpenMcpListing)) throw new Error('received the end of a listing that is not open');
        this.#open.listing = event.listing;
        this.#close('completed');
        return;
      case 'mcp_started':
        this.#add((index) => new OpenMcpCall(this.#out, index, event));
        return;
      case 'mcp_finished':
        if (!(this.#open instanceof OpenMcpCall))
          throw new Error('received the end of an MCP call that is not running');
        this.#open.outcome = event.outcome;
        this.#close('completed');
        return;
      case 'mcp_approval':
        this.#close('completed');
        this.#whole(approvalRequest(event));
        return;
      case 'text':
        if (event.text === '' && !event.logprobs?.length) return;
        if (event.section === 'content') this.#message().delta(event.text, event.logprobs);
        else if (event.text !== '') this.#reasoning().delta(event.text);
        return;
      case 'thought': {
        const item = this.#reasoning();
        item.block = event.block;
        this.blocks.set(item.id, event.block);
        this.#close('completed');
        return;
      }
      case 'call_started':
        this.#startCall(
          this.options.toolNames.get(event.name) ?? { name: event.name, namespace: null, custom: false },
          newToolCallId(event.key),
        );
        return;
      case 'call_arguments':
        this.#call().delta(event.text);
        return;
      case 'call_finished':
        this.#call();
        this.#close(event.complete ? 'completed' : 'incomplete');
    }
  }

  /** Adds the summary that replaces the conversation. Must precede all other items. */
  compaction(item: CompactionItem): void {
    this.#whole(item);
  }

  /** Adds an item that is already complete. */
  #whole(item: OutputItem): void {
    const place = { output_index: this.resource.output.length, item };
    this.#out.write('response.output_item.added', place);
    this.#out.write('response.output_item.done', place);
    this.resource.output.push(item);
  }

  /**
   * Called when the generation has ended naturally or at a limit. Closes open items. terminal() emits the response's
   * last event.
   */
  end(reason: EndReason, usage: Usage, completedAt: number): void {
    this.#run();
    const whole = WHOLE.has(reason);
    // A generation without tokens still counts as a response, and clients expect it to contain a message.
    if (whole && !this.resource.output.some(({ type }) => !NO_ANSWER.has(type))) this.#message();
    this.#close(whole ? 'completed' : 'incomplete');
    this.#settle(whole ? 'completed' : 'incomplete', usage);
    if (whole) this.resource.completed_at = completedAt;
    else this.resource.incomplete_details = { reason: 'max_output_tokens' };
  }

  /** Ends a request that only prepares the prompt and generates no output. */
  endPrewarm(usage: Usage, completedAt: number): void {
    this.#run();
    this.#settle('completed', usage);
    this.resource.completed_at = completedAt;
  }

  /**
   * Called when the client has cancelled the response. The output so far is kept, and its open item becomes incomplete.
   * No event is emitted for the item.
   */
  cancel(usage: Usage): void {
    this.#close('incomplete');
    this.#settle('cancelled', usage);
    this.resource.completed_at = null; // an earlier end that could not be stored may have set it
    this.resource.incomplete_details = null;
  }

  /**
   * Called when the generation has failed. The open item is kept in its current state, without `.done` events. `usage`:
   * null if no output was generated. failure() emits the response's last events.
   */
  settleFailure(error: ApiError, usage: Usage | null): void {
    if (this.#open instanceof OpenCustomCall) this.#open.flush();
    if (this.#open !== null) this.resource.output.push(this.#open.item('incomplete'));
    this.#open = null;
    const { resource } = this;
    this.#settle('failed', usage);
    resource.completed_at = null;
    resource.incomplete_details = null;
    resource.error = { code: isShed(error, resource) ? 'rate_limit_exceeded' : 'server_error', message: error.message };
  }

  /**
   * Emits the last events of a failed response. `errorEvent`: whether an `error` event precedes them, as in event
   * streams.
   */
  failure({ type, code, message, param }: ApiError, errorEvent: boolean): void {
    if (errorEvent) this.#out.write('error', { error: { type, code, message, param }, code, message, param });
    this.#lifecycle('response.failed');
  }

  /** Emits the last event of a response that ended as completed or incomplete. */
  terminal(): void {
    this.#lifecycle(this.resource.status === 'completed' ? 'response.completed' : 'response.incomplete');
  }

  /** Sends response.in_progress once, after response.created. */
  #run(): void {
    if (this.#phase === 'running') return;
    if (this.#phase === 'ended') throw new Error('received an event after the end of the response');
    this.begin();
    this.#phase = 'running';
    this.resource.status = 'in_progress';
    this.#lifecycle('response.in_progress');
  }

  #lifecycle(type: string, more: Readonly<Record<string, unknown>> = {}): void {
    this.#out.write(type, { response: this.resource, ...more });
  }

  #settle(status: ResponseResource['status'], usage: Usage | null): void {
    this.#phase = 'ended';
    this.resource.status = status;
    this.resource.usage = usage === null ? null : wireUsage(usage);
    if (usage?.webSearches !== undefined) this.resource.tool_usage = wireToolUsage(usage.webSearches);
  }

  #message(): OpenMessage {
    return this.#open instanceof OpenMessage ? this.#open : this.#add((index) => new OpenMessage(this.#out, index));
  }

  #reasoning(): OpenReasoning {
    return this.#open instanceof OpenReasoning
      ? this.#open
      : this.#add((index) => new OpenReasoning(this.#out, index, this.options.reasoning));
  }

  #startCall(tool: ToolName, id: string): void {
    const Call = tool.custom ? OpenCustomCall : OpenCall;
    this.#add((index): OpenCall | OpenCustomCall => new Call(this.#out, index, tool, id));
  }

  #call(): OpenCall | OpenCustomCall {
    if (this.#open instanceof OpenCall || this.#open instanceof OpenCustomCall) return this.#open;
    throw new Error('received an event for a tool call that is not open');
  }

  #add<T extends OpenItem>(make: (index: number) => T): T {
    this.#close('completed');
    const item = make(this.resource.output.length);
    this.#open = item;
    return item;
  }

  #close(status: 'completed' | 'incomplete'): void {
    if (this.#open === null) return;
    const item: OutputItem = this.#open.close(status);
    this.#open = null;
    this.resource.output.push(item);
  }
}

/**
 * Whether a background response was rejected because of limits or lack of capacity. The HTTP status has already been
 * sent, so the response object must report this.
 */
function isShed(error: ApiError, resource: ResponseResource): boolean {
  return resource.background && (error.status === 429 || error.code === 'capacity_exhausted');
}
