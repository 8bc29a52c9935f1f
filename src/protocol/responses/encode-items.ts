// The types of output items while they are open (encode-search.ts and encode-mcp.ts contain the other types). No side
// effects.
import type { JsonSchema, TokenLogprob, Logprob } from '../../generation/types.js';
import { CustomInputReader } from '../../generation/custom-tools.js';
import { newItemId } from '../../shared/ids.js';
import { GrowingText } from '../../shared/growing-text.js';
import { OpenItemBase, type ClosedStatus } from './encode-item.js';
import type { OpenMcpCall, OpenMcpListing } from './encode-mcp.js';
import type { OpenSearch } from './encode-search.js';
import type { EventWriter } from './encode-writer.js';
import type { ToolName } from './tools.js';
import type {
  CustomToolCallItem,
  FunctionCallItem,
  ItemStatus,
  MessageItem,
  ReasoningItem,
  WireLogprob,
  WireTokenLogprob,
} from './resource.js';

export type EventDialect = 'openai' | 'openresponses';

/** Impossible tokens have a log probability of minus infinity, which JSON cannot represent. */
const LOWEST_LOGPROB = -9999;

function wireLogprob({ token, logprob, bytes }: Logprob): WireLogprob {
  return { token, logprob: Number.isFinite(logprob) ? Math.max(logprob, LOWEST_LOGPROB) : LOWEST_LOGPROB, bytes };
}

function wireTokenLogprob(entry: TokenLogprob): WireTokenLogprob {
  return { ...wireLogprob(entry), top_logprobs: entry.top.map(wireLogprob) };
}

export class OpenMessage extends OpenItemBase<MessageItem> {
  readonly #head: string;
  readonly #text = new GrowingText();
  readonly #logprobs: WireTokenLogprob[] = [];

  constructor(out: EventWriter, index: number) {
    super(out, index, newItemId('msg'));
    this.#head = this.head('content_index');
    this.announce({ id: this.id, type: 'message', status: 'in_progress', role: 'assistant', content: [] });
    this.out.write('response.content_part.added', {
      item_id: this.id,
      output_index: index,
      content_index: 0,
      part: this.#part(),
    });
  }

  delta(text: string, logprobs: readonly TokenLogprob[] | null): void {
    this.#text.add(text);
    let wire = '[]';
    if (logprobs !== null && logprobs.length > 0) {
      const entries = logprobs.map(wireTokenLogprob);
      for (const entry of entries) this.#logprobs.push(entry);
      if (this.out.streams) wire = JSON.stringify(entries);
    }
    if (this.out.streams)
      this.out.writeRaw('response.output_text.delta', `${this.#head}${JSON.stringify(text)},"logprobs":${wire}}`);
  }

  item(status: ItemStatus): MessageItem {
    return { id: this.id, type: 'message', status, role: 'assistant', content: [this.#part()] };
  }

  protected finish(): void {
    const place = { item_id: this.id, output_index: this.index, content_index: 0 };
    this.out.write('response.output_text.done', { ...place, text: this.#text.toString(), logprobs: this.#logprobs });
    this.out.write('response.content_part.done', { ...place, part: this.#part() });
  }

  #part(): MessageItem['content'][number] {
    return { type: 'output_text', text: this.#text.toString(), annotations: [], logprobs: [...this.#logprobs] };
  }
}

export class OpenCall extends OpenItemBase<FunctionCallItem> {
  readonly #head: string;
  readonly #arguments = new GrowingText();

  constructor(
    out: EventWriter,
    index: number,
    private readonly tool: ToolName,
    private readonly callId: string,
  ) {
    super(out, index, newItemId('fc'));
    this.#head = this.head(null);
    this.announce(this.item('in_progress'));
  }

  delta(text: string): void {
    if (text === '') return;
    this.#arguments.add(text);
    if (this.out.streams)
      this.out.writeRaw('response.function_call_arguments.delta', `${this.#head}${JSON.stringify(text)}}`);
  }

  item(status: ItemStatus): FunctionCallItem {
    const { name, namespace } = this.tool;
    return {
      id: this.id,
      type: 'function_call',
      status,
      call_id: this.callId,
      name,
      ...(namespace === null ? {} : { namespace }),
      arguments: this.#arguments.toString(),
    };
  }

  protected finish(): void {
    this.out.write('response.function_call_arguments.done', {
      item_id: this.id,
      output_index: this.index,
      name: this.tool.name,
      arguments: this.#arguments.toString(),
    });
  }
}

export class OpenCustomCall extends OpenItemBase<CustomToolCallItem> {
  readonly #head: string;
  readonly #reader = new CustomInputReader();
  readonly #input = new GrowingText();

  constructor(
    out: EventWriter,
    index: number,
    private readonly tool: ToolName,
    private readonly callId: string,
  ) {
    super(out, index, newItemId('ctc'));
    this.#head = this.head(null);
    this.announce(this.item('in_progress'));
  }

  /** `json`: the next part of the arguments' JSON text. */
  delta(json: string): void {
    this.#add(this.#reader.add(json));
  }

  /** Adds the text that the reader still holds back. No event is emitted, because the response has failed. */
  flush(): void {
    this.#input.add(this.#reader.end(false));
  }

  item(status: ItemStatus): CustomToolCallItem {
    const { name, namespace } = this.tool;
    return {
      id: this.id,
      type: 'custom_tool_call',
      status,
      call_id: this.callId,
      name,
      ...(namespace === null ? {} : { namespace }),
      input: this.#input.toString(),
    };
  }

  protected finish(status: ClosedStatus): void {
    this.#add(this.#reader.end(status === 'completed'));
    this.out.write('response.custom_tool_call_input.done', {
      item_id: this.id,
      output_index: this.index,
      input: this.#input.toString(),
    });
  }

  #add(text: string): void {
    if (text === '') return;
    this.#input.add(text);
    if (this.out.streams)
      this.out.writeRaw('response.custom_tool_call_input.delta', `${this.#head}${JSON.stringify(text)}}`);
  }
}

/** How a response presents reasoning. */
export interface ReasoningForm {
  /**
   * If true, the text is emitted as `summary`, with event names on which both standards agree. If false, it is emitted
   * as `content`, with the dialect's event names.
   */
  summary: boolean;
  dialect: EventDialect;
  /**
   * Returns the `encrypted_content`. `block`: the upstream's own block. Null if encrypted content was not
   * requested.
   */
  seal: ((text: string, block: JsonSchema | null) => string) | null;
}

export class OpenReasoning extends OpenItemBase<ReasoningItem> {
  readonly #head: string;
  readonly #event: string;
  readonly #text = new GrowingText();
  #sealed: string | null = null;
  #hasPart = false;
  /** The upstream's own block. */
  block: JsonSchema | null = null;

  constructor(
    out: EventWriter,
    index: number,
    private readonly form: ReasoningForm,
  ) {
    super(out, index, newItemId('rs'));
    this.#head = this.head(form.summary ? 'summary_index' : 'content_index');
    this.#event = form.summary
      ? 'response.reasoning_summary_text'
      : form.dialect === 'openai'
        ? 'response.reasoning_text'
        : 'response.reasoning';
    this.announce({ id: this.id, type: 'reasoning', status: 'in_progress', summary: [] });
  }

  delta(text: string): void {
    if (!this.#hasPart) this.#writePart('added');
    this.#hasPart = true;
    this.#text.add(text);
    if (this.out.streams) this.out.writeRaw(`${this.#event}.delta`, `${this.#head}${JSON.stringify(text)}}`);
  }

  item(status: ItemStatus): ReasoningItem {
    const text = this.#text.toString();
    return {
      id: this.id,
      type: 'reasoning',
      status,
      ...(!this.#hasPart
        ? { summary: [] }
        : this.form.summary
          ? { summary: [{ type: 'summary_text', text }] }
          : { summary: [], content: [{ type: 'reasoning_text', text }] }),
      ...(this.#sealed === null ? {} : { encrypted_content: this.#sealed }),
    };
  }

  protected finish(): void {
    const text = this.#text.toString();
    if (this.#hasPart) {
      this.out.write(`${this.#event}.done`, { ...this.#place(), text });
      this.#writePart('done');
    }
    if (this.form.seal !== null) this.#sealed = this.form.seal(text, this.block);
  }

  #writePart(state: 'added' | 'done'): void {
    const part = { type: this.form.summary ? 'summary_text' : 'reasoning_text', text: this.#text.toString() };
    this.out.write(`response.${this.form.summary ? 'reasoning_summary_part' : 'content_part'}.${state}`, {
      ...this.#place(),
      part,
    });
  }

  #place(): object {
    const at = { item_id: this.id, output_index: this.index };
    return this.form.summary ? { ...at, summary_index: 0 } : { ...at, content_index: 0 };
  }
}

export type OpenItem =
  | OpenMessage
  | OpenCall
  | OpenCustomCall
  | OpenReasoning
  | OpenSearch
  | OpenMcpListing
  | OpenMcpCall;
