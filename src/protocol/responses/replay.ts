// Recreates a stored response's events from its items, with one delta per part. Pure except for reading the response's
// log.
import { isUnfinished, type ResponseStore } from '../../storage/response-store.js';
import type { StoredEvent } from '../../shared/stored-event.js';
import type { EventDialect } from './encode-items.js';
import type {
  CustomToolCallItem,
  FunctionCallItem,
  McpCallItem,
  McpListItem,
  MessageItem,
  OutputItem,
  ReasoningItem,
  ResponseResource,
  WebSearchItem,
} from './resource.js';

/** Returns all events, numbered from 0. The last one is the terminal event, unless the response is unfinished. */
export function replayEvents(resource: ResponseResource, dialect: EventDialect): StoredEvent[] {
  const out = new EventList(0);
  const before: ResponseResource = {
    ...resource,
    status: resource.background ? 'queued' : 'in_progress',
    completed_at: null,
    error: null,
    incomplete_details: null,
    output: [],
    usage: null,
  };
  out.write('response.created', { response: before });
  if (resource.background) out.write('response.queued', { response: before });
  if (resource.status !== 'queued')
    out.write('response.in_progress', { response: { ...before, status: 'in_progress' } });
  resource.output.forEach((item, index) => {
    // Items that were open when the response failed have no `.done` events.
    const done = resource.status !== 'failed' || !('status' in item) || item.status === 'completed';
    new ItemReplay(out, index, dialect, done).item(item);
  });
  writeTerminal(out, resource);
  return out.events;
}

/** Returns the last events of a response whose log is incomplete, numbered from `next`. */
export function terminalEvents(resource: ResponseResource, next: number): StoredEvent[] {
  const out = new EventList(next);
  writeTerminal(out, resource);
  return out.events;
}

class EventList {
  readonly events: StoredEvent[] = [];

  constructor(private readonly first: number) {}

  write(type: string, fields: object): void {
    const sequence = this.first + this.events.length;
    this.events.push({ sequence, type, data: JSON.stringify({ type, sequence_number: sequence, ...fields }) });
  }
}

const TERMINAL: ReadonlySet<string> = new Set(['response.completed', 'response.incomplete', 'response.failed']);

export const isTerminal = ({ type }: StoredEvent): boolean => TERMINAL.has(type);

/** Whether an event is one of the events that end a response. */
export const isOfEnd = (event: StoredEvent): boolean => isTerminal(event) || event.type === 'error';

/**
 * Returns the events from number `after` + 1 up to the first gap. A log has a gap if the database was unavailable for a
 * long time.
 */
export function unbroken(events: readonly StoredEvent[], after: number): readonly StoredEvent[] {
  const end = events.findIndex(({ sequence }, at) => sequence !== after + 1 + at);
  return end < 0 ? events : events.slice(0, end);
}

/** Returns the last events from the log, or [] if the log is incomplete. */
export async function endOf(
  responses: Pick<ResponseStore, 'events' | 'lastEvent'>,
  id: string,
): Promise<readonly StoredEvent[]> {
  const last = await responses.lastEvent(id);
  if (last === null || !isTerminal(last)) return [];
  return ((await responses.events(id, last.sequence - 2)) ?? []).filter(isOfEnd);
}

/**
 * Returns the last events after number `after` for a response whose log expired before it was read completely. Null if
 * the response no longer exists or is unfinished.
 */
export async function endOfStored(
  responses: Pick<ResponseStore, 'get'>,
  organizationId: string,
  id: string,
  after: number,
): Promise<readonly StoredEvent[] | null> {
  const record = await responses.get(organizationId, id);
  return record === null || isUnfinished(record.status)
    ? null
    : terminalEvents(record.resource as unknown as ResponseResource, after + 1);
}

/**
 * The standard has no event for a cancelled response, so the stream ends with response.incomplete and the status
 * `cancelled`.
 */
function writeTerminal(out: EventList, resource: ResponseResource): void {
  const { status, error } = resource;
  switch (status) {
    case 'queued':
    case 'in_progress':
      return;
    case 'failed': {
      const shed = error?.code === 'rate_limit_exceeded';
      const type = shed ? 'service_unavailable' : 'internal_error';
      const code = shed ? 'capacity_exhausted' : 'model_error';
      const message = error?.message ?? 'The response failed.';
      out.write('error', { error: { type, code, message, param: null }, code, message, param: null });
      out.write('response.failed', { response: resource });
      return;
    }
    default:
      out.write(status === 'completed' ? 'response.completed' : 'response.incomplete', { response: resource });
  }
}

class ItemReplay {
  constructor(
    private readonly out: EventList,
    private readonly index: number,
    private readonly dialect: EventDialect,
    private readonly done: boolean,
  ) {}

  item(item: OutputItem): void {
    switch (item.type) {
      case 'message':
        this.#message(item);
        break;
      case 'function_call':
        this.#call(item);
        break;
      case 'custom_tool_call':
        this.#customCall(item);
        break;
      case 'reasoning':
        this.#reasoning(item);
        break;
      case 'compaction':
      case 'mcp_approval_request':
        this.#added(item);
        break;
      case 'mcp_list_tools':
        this.#mcpListing(item);
        break;
      case 'mcp_call':
        this.#mcpCall(item);
        break;
      case 'web_search_call':
        this.#search(item);
    }
    if (this.done) this.out.write('response.output_item.done', { output_index: this.index, item });
  }

  #message(item: MessageItem): void {
    this.#added({ ...item, status: 'in_progress', content: [] });
    item.content.forEach((part, content_index) => {
      const { text, logprobs } = part;
      const place = { item_id: item.id, output_index: this.index, content_index };
      this.out.write('response.content_part.added', { ...place, part: { ...part, text: '', logprobs: [] } });
      if (text !== '' || logprobs.length > 0)
        this.out.write('response.output_text.delta', { ...place, delta: text, logprobs });
      this.#done('response.output_text.done', { ...place, text, logprobs });
      this.#done('response.content_part.done', { ...place, part });
    });
  }

  #call(item: FunctionCallItem): void {
    const place = { item_id: item.id, output_index: this.index };
    this.#added({ ...item, status: 'in_progress', arguments: '' });
    if (item.arguments !== '')
      this.out.write('response.function_call_arguments.delta', { ...place, delta: item.arguments });
    this.#done('response.function_call_arguments.done', { ...place, name: item.name, arguments: item.arguments });
  }

  #customCall(item: CustomToolCallItem): void {
    const place = { item_id: item.id, output_index: this.index };
    this.#added({ ...item, status: 'in_progress', input: '' });
    if (item.input !== '') this.out.write('response.custom_tool_call_input.delta', { ...place, delta: item.input });
    this.#done('response.custom_tool_call_input.done', { ...place, input: item.input });
  }

  #search({ results: _results, ...item }: WebSearchItem): void {
    const { sources: _sources, ...action } = item.action;
    this.#added({ ...item, status: 'in_progress', action });
    const place = { output_index: this.index, item_id: item.id };
    this.out.write('response.web_search_call.in_progress', place);
    this.out.write('response.web_search_call.searching', place);
    if (item.status === 'completed') this.out.write('response.web_search_call.completed', place);
  }

  #mcpListing({ error, ...item }: McpListItem): void {
    this.#added({ ...item, tools: [] });
    const place = { output_index: this.index, item_id: item.id };
    this.out.write('response.mcp_list_tools.in_progress', place);
    this.#done(`response.mcp_list_tools.${error === undefined ? 'completed' : 'failed'}`, place);
  }

  #mcpCall(item: McpCallItem): void {
    this.#added({ ...item, status: 'in_progress', arguments: '', output: null, error: null });
    const place = { output_index: this.index, item_id: item.id };
    this.out.write('response.mcp_call.in_progress', place);
    if (item.arguments !== '') this.out.write('response.mcp_call_arguments.delta', { ...place, delta: item.arguments });
    this.out.write('response.mcp_call_arguments.done', { ...place, arguments: item.arguments });
    if (item.status === 'completed' || item.status === 'failed')
      this.out.write(`response.mcp_call.${item.status}`, place);
  }

  #reasoning(item: ReasoningItem): void {
    this.#added({ id: item.id, type: 'reasoning', status: 'in_progress', summary: [] });
    const at = { item_id: item.id, output_index: this.index };
    item.summary.forEach(({ text }, summary_index) => {
      this.#reasoningPart(
        { ...at, summary_index },
        'response.reasoning_summary_part',
        'summary_text',
        'response.reasoning_summary_text',
        text,
      );
    });
    item.content?.forEach(({ text }, content_index) => {
      const event = this.dialect === 'openai' ? 'response.reasoning_text' : 'response.reasoning';
      this.#reasoningPart({ ...at, content_index }, 'response.content_part', 'reasoning_text', event, text);
    });
  }

  #reasoningPart(place: object, partEvent: string, type: string, event: string, text: string): void {
    this.out.write(`${partEvent}.added`, { ...place, part: { type, text: '' } });
    if (text !== '') this.out.write(`${event}.delta`, { ...place, delta: text });
    this.#done(`${event}.done`, { ...place, text });
    this.#done(`${partEvent}.done`, { ...place, part: { type, text } });
  }

  #added(item: object): void {
    this.out.write('response.output_item.added', { output_index: this.index, item });
  }

  #done(type: string, fields: object): void {
    if (this.done) this.out.write(type, fields);
  }
}

const RENAMED: Readonly<Record<EventDialect, readonly [from: string, to: string]>> = {
  openai: ['response.reasoning.', 'response.reasoning_text.'],
  openresponses: ['response.reasoning_text.', 'response.reasoning.'],
};

/** Returns a logged event with the names of `dialect`, which may differ from the dialect in which it was logged. */
export function inDialect(event: StoredEvent, dialect: EventDialect): StoredEvent {
  const [from, to] = RENAMED[dialect];
  if (!event.type.startsWith(from)) return event;
  const type = to + event.type.slice(from.length);
  return { ...event, type, data: event.data.replace(`{"type":"${event.type}"`, `{"type":"${type}"`) };
}
