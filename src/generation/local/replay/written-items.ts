// Collects the token IDs of a request's choices, and finds the tool calls and reasoning blocks in them when a choice
// ends. Event-loop thread only.
import type { Engine } from '../../../engine/engine.js';
import { MAX_ITEM_TOKENS, type WrittenItem } from '../../replay/replay-item.js';
import type { GenerationEvent } from '../../types.js';
import type { ReasoningMarkers } from '../reasoning.js';
import type { CallableTools } from '../tools/call-reader.js';
import type { ToolSyntax } from '../tools/syntax.js';
import { readSection, sectionStart, type ReadCall } from './call-section.js';
import { isReasoning } from './same-reasoning.js';
import { TokenText } from './token-text.js';

/** Tokens of a choice after this many are not searched for items. */
const MAX_CHOICE_TOKENS = 4 * MAX_ITEM_TOKENS;

/** Maximum number of places in a choice that start like a call without being one. The search stops after them. */
const MAX_FOREIGN = 16;

export interface WritingRules {
  /** Null: calls are not collected. */
  readonly calls: { readonly syntax: ToolSyntax; readonly tools: CallableTools } | null;
  /** Null: reasoning is not collected. */
  readonly markers: ReasoningMarkers | null;
  /** The prompt's last tokens if they open the reasoning; otherwise empty. */
  readonly opened: Int32Array;
}

/** What the client received of one choice. */
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

  /** Receives the events that the client receives. */
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

  /** The items of a choice that has ended. */
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
      // Reasoning that consists of several messages is returned as one text, which is no block of the output.
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
      // Output that was ended after a call has no closing marker, but its last token may contain white space.
      const isOver = output.text.slice(section.callsEnd).trim() === '';
      at = section.end ?? (isOver ? output.text.length : section.callsEnd);
      const received = calls.slice(index, index + section.calls.length);
      // The output parser has read something else there, so the calls cannot be told apart.
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
 * The last tokens of a prompt, from the marker that opens the reasoning. Empty if no token starts with it. `text`: the
 * prompt's text.
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
