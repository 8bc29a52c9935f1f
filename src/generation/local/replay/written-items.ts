// Records the token IDs of a request's choices. When a choice ends, finds its tool calls and reasoning blocks, so that
// their token IDs can be replayed in later prompts. Event-loop thread only.
import type { Engine } from '../../../engine/engine.js';
import { MAX_ITEM_TOKENS, type WrittenItem } from '../../replay/replay-item.js';
import type { GenerationEvent } from '../../types.js';
import type { ReasoningMarkers } from '../reasoning.js';
import type { CallableTools } from '../tools/call-reader.js';
import type { ToolSyntax } from '../tools/syntax.js';
import { readSection, sectionStart, type ReadCall } from './call-section.js';
import { isReasoning } from './same-reasoning.js';
import { TokenText } from './token-text.js';

/** Tool calls and reasoning blocks are searched for only in about this many tokens at the start of a choice. */
const MAX_CHOICE_TOKENS = 4 * MAX_ITEM_TOKENS;

/** The search in a choice stops after this many passages that look like the start of a call but are not. */
const MAX_FOREIGN = 16;

export interface WritingRules {
  /** Null if tool calls are not recorded. */
  readonly calls: { readonly syntax: ToolSyntax; readonly tools: CallableTools } | null;
  /** Null if reasoning blocks are not recorded. */
  readonly markers: ReasoningMarkers | null;
  /** The last tokens of the prompt, if the prompt opens the reasoning block. Otherwise empty. */
  readonly opened: Int32Array;
}

/** One choice: its token IDs, and the reasoning and tool calls as sent to the client. */
interface Choice {
  readonly ids: number[];
  reasoning: string;
  readonly calls: { name: string; arguments: string; isComplete: boolean }[];
}

export class WrittenItems {
  readonly #choices = new Map<number, Choice>();

  constructor(
    private readonly engine: Pick<Engine, 'tokenBytes'>,
    private readonly rules: WritingRules,
  ) {}

  tokens(choice: number, ids: readonly number[]): void {
    const known = this.#choice(choice).ids;
    if (known.length < MAX_CHOICE_TOKENS) known.push(...ids);
  }

  /** Must be called with each event that is sent to the client. */
  event(event: GenerationEvent): void {
    switch (event.type) {
      case 'text':
        if (event.section === 'reasoning' && this.rules.markers !== null)
          this.#choice(event.choice).reasoning += event.text;
        return;
      case 'call_started':
        this.#choice(event.choice).calls.push({ name: event.name, arguments: '', isComplete: false });
        return;
      case 'call_arguments':
      case 'call_finished': {
        const call = this.#choice(event.choice).calls[event.index];
        if (call === undefined) return;
        if (event.type === 'call_arguments') call.arguments += event.text;
        else call.isComplete = event.complete;
        return;
      }
      default:
    }
  }

  /** Returns the tool calls and reasoning blocks of a finished choice. */
  take(index: number): WrittenItem[] {
    const choice = this.#choices.get(index);
    this.#choices.delete(index);
    if (choice === undefined || (choice.reasoning === '' && !choice.calls.some(({ isComplete }) => isComplete)))
      return [];
    const output = TokenText.of(this.engine, choice.ids);
    if (output === null) return [];
    const items: WrittenItem[] = [];
    let from = 0;
    const { markers } = this.rules;
    if (markers !== null && choice.reasoning !== '') {
      const start = this.rules.opened.length > 0 ? 0 : output.text.indexOf(markers.open);
      const close = start === -1 ? -1 : output.text.indexOf(markers.close, start);
      if (close === -1) return items;
      from = close + markers.close.length;
      const begin = this.rules.opened.length > 0 ? 0 : start + markers.open.length;
      // The client may receive several reasoning messages as one text. Such a text does not equal one block, so the
      // reasoning is not recorded.
      const isBlock = isReasoning(output.text.slice(begin, close), choice.reasoning, markers.label);
      const ids = isBlock ? output.between(start, from) : null;
      if (ids !== null) add(items, { kind: 'reasoning', text: choice.reasoning, ids: joined(this.rules.opened, ids) });
    }
    this.#calls(choice, output, from, items);
    return items;
  }

  #calls({ calls }: Choice, output: TokenText, from: number, items: WrittenItem[]): void {
    if (this.rules.calls === null) return;
    const { syntax, tools } = this.rules.calls;
    let index = 0;
    let foreign = 0;
    for (let at = from; index < calls.length && foreign <= MAX_FOREIGN; ) {
      const start = sectionStart(output.text, at, syntax);
      if (start === -1) return;
      const section = readSection(output.text, start, syntax, tools);
      if (section === null) {
        at = start + Math.max(1, syntax.open.length);
        foreign++;
        continue;
      }
      // If the output ends after a call, the section has no closing marker. The last token may contain trailing white
      // space.
      const isOver = output.text.slice(section.callsEnd).trim() === '';
      at = section.end ?? (isOver ? output.text.length : section.callsEnd);
      const received = calls.slice(index, index + section.calls.length);
      // If the output parser has found other calls in this section, calls cannot be matched with their token IDs.
      if (received.length < section.calls.length || !received.every((call, nth) => same(call, section.calls[nth])))
        return;
      const ids = output.between(section.start, at);
      if (ids !== null) add(items, { kind: 'call', index, ids });
      index += section.calls.length;
    }
  }

  #choice(index: number): Choice {
    let choice = this.#choices.get(index);
    if (choice === undefined) this.#choices.set(index, (choice = { ids: [], reasoning: '', calls: [] }));
    return choice;
  }
}

const same = (call: Choice['calls'][number], read: Pick<ReadCall, 'name' | 'arguments'> | undefined): boolean =>
  call.isComplete && call.name === read?.name && call.arguments === read.arguments;

function add(items: WrittenItem[], item: WrittenItem): void {
  if (item.ids.length > 0 && item.ids.length <= MAX_ITEM_TOKENS) items.push(item);
}

function joined(one: Int32Array, other: Int32Array): Int32Array {
  if (one.length === 0) return other;
  const both = new Int32Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}

/**
 * Returns the last tokens of a prompt, starting with the marker that opens the reasoning block. Empty if the marker is
 * missing or does not start at a token boundary. `text`: the text of the prompt's end.
 */
export function openingTokens(
  engine: Pick<Engine, 'tokenBytes'>,
  tokens: Int32Array,
  text: string,
  { open }: Pick<ReasoningMarkers, 'open'>,
): Int32Array {
  const at = text.lastIndexOf(open);
  if (at === -1) return new Int32Array();
  let left = Buffer.byteLength(text.slice(at));
  let first = tokens.length;
  while (left > 0 && first > 0) left -= engine.tokenBytes(tokens[--first] as number).length;
  return left === 0 ? tokens.slice(first) : new Int32Array();
}
