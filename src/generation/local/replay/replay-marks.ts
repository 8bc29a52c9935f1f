// Finds in a rendered prompt the calls and reasoning blocks whose tokens are known, and marks their places. The items
// are rendered with a mark that no client text can contain, so text that only looks like a call is never replaced. An
// item is replaced as a whole, and only if its tokens decode to the same call or the same reasoning. Pure.
import { keyOfCallId, reasoningKey } from '../../replay/replay-item.js';
import type { GenerationRequest, ToolCall } from '../../types.js';
import type { ReasoningMarkers } from '../reasoning.js';
import type { ToolSyntax } from '../tools/syntax.js';
import { hasSections, readSection, sectionStart, type CallSection } from './call-section.js';
import { equalJson } from './json-equal.js';
import { isLead, isReasoning } from './same-reasoning.js';

/** The items by the number in their mark. `name`: the call's ID, or the path of the reasoning. */
export type ReplayedItems = readonly { readonly ids: Int32Array; readonly name: string }[];

export interface ReplayMarksOptions {
  readonly guard: number;
  /** The tokens of items, by key. */
  readonly replays: ReadonlyMap<string, Int32Array>;
  readonly request: Pick<GenerationRequest, 'messages' | 'tools' | 'promptParam'>;
  /** Returns the text of tokens, including special tokens; '' for tokens of another vocabulary. */
  readonly decode: (ids: Int32Array) => string;
}

interface Marked {
  readonly ids: Int32Array;
  readonly name: string;
  /** The call's place in its message. Null: reasoning. */
  readonly call: CallPlace | null;
  readonly reasoning: string;
}

interface CallPlace {
  readonly toolCalls: readonly ToolCall[];
  readonly nth: number;
}

interface Splice {
  readonly start: number;
  readonly end: number;
  readonly item: Marked;
}

/** A mark's place in the prompt. `before`: where the item before it ends, or its mark if that was not replaced. */
interface Place {
  readonly plain: string;
  readonly before: number;
  readonly at: number;
}

/** The rendering of calls may be longer than their JSON texts by this factor, and by this many characters. */
const MAX_GROWTH = 8;
const MAX_AROUND = 16_384;

/** Each character of reasoning may have a guard before it. */
const MAX_GUARDED = 2;
/** Maximum number of characters between reasoning and the marker that closes it. */
const MAX_SPACE = 64;

export class ReplayMarks {
  readonly #marked: Marked[] = [];
  readonly #guard: string;
  readonly #callPlaces = new Map<ToolCall, CallPlace>();
  readonly #paths = new Map<string, string>();
  /** The calls that have a mark. A key belongs to one call, so a repeated ID is not replayed again. */
  readonly #calls = new Set<string>();
  readonly #tools: Map<string, Readonly<Record<string, unknown>> | null>;

  constructor(private readonly options: ReplayMarksOptions) {
    this.#guard = String.fromCodePoint(options.guard);
    const { messages, tools, promptParam } = options.request;
    this.#tools = new Map(tools.map(({ name, parameters }) => [name, parameters]));
    for (const [at, message] of messages.entries()) {
      if (message.role !== 'assistant') continue;
      const { toolCalls = [], reasoning, thoughts } = message;
      toolCalls.forEach((call, nth) => {
        this.#callPlaces.set(call, { toolCalls, nth });
        if (!this.#tools.has(call.name)) this.#tools.set(call.name, null);
      });
      if (reasoning !== undefined)
        this.#paths.set(reasoning, thoughts?.[0]?.path ?? `${message.path ?? `${promptParam}[${at}]`}.reasoning`);
    }
  }

  /** The mark that precedes a call's name; '' if its tokens are not known. */
  call(call: ToolCall): string {
    const key = keyOfCallId(call.id);
    const ids = key === null ? undefined : this.options.replays.get(key);
    const place = this.#callPlaces.get(call);
    if (key === null || ids === undefined || place === undefined || this.#calls.has(key)) return '';
    this.#calls.add(key);
    return this.#mark({ ids, name: call.id, call: place, reasoning: '' });
  }

  /** Returns the text of a reasoning block with a mark, if its tokens are known. Templates trim the text's ends. */
  reasoning(text: string, shielded: string): string {
    const ids = this.options.replays.get(reasoningKey(text));
    if (ids === undefined) return shielded;
    const mark = this.#mark({ ids, name: this.#paths.get(text) ?? 'reasoning', call: null, reasoning: text });
    const begun = shielded.length - shielded.trimStart().length;
    return shielded.slice(0, begun) + mark + shielded.slice(begun);
  }

  #mark(item: Marked): string {
    return `${this.#guard}${this.#guard}m${this.#marked.push(item) - 1}${this.#guard}`;
  }

  /**
   * `marked`: the prompt rendered with the marks; `plain`: without them. Returns the plain text with a mark in place of
   * each item, or null if there are none.
   */
  found(
    marked: string,
    plain: string,
    syntax: ToolSyntax,
    markers: ReasoningMarkers | null,
  ): { text: string; items: ReplayedItems } | null {
    const splices: Splice[] = [];
    let before = 0; // where the search for an item's start ends
    for (const { item, at } of this.#places(marked, plain)) {
      const place = { plain, before, at };
      const splice =
        item.call === null
          ? markers === null
            ? null
            : this.#reasoningAt(place, item, markers)
          : this.#callsAt(place, item, item.call, syntax);
      if (splice !== null) splices.push(splice);
      before = Math.max(at, splice?.end ?? 0);
    }
    if (splices.length === 0) return null;
    const parts: string[] = [];
    let at = 0;
    for (const [number, { start, end }] of splices.entries()) {
      parts.push(plain.slice(at, start), `${this.#guard}${this.#guard}s${number}${this.#guard}`);
      at = end;
    }
    parts.push(plain.slice(at));
    return { text: parts.join(''), items: splices.map(({ item: { ids, name } }) => ({ ids, name })) };
  }

  /** The marks' places in the plain text. Empty if the template has changed a marked text, or shows it twice. */
  #places(marked: string, plain: string): { item: Marked; at: number }[] {
    const parts = marked.split(new RegExp(`${this.#guard}{2}m(\\d+)${this.#guard}`, 'u'));
    const places: { item: Marked; at: number }[] = [];
    const seen = new Set<number>();
    let at = 0;
    for (const [index, part] of parts.entries()) {
      if (index % 2 === 0) {
        if (!plain.startsWith(part, at)) return [];
        at += part.length;
        continue;
      }
      const number = Number(part);
      const item = this.#marked[number];
      if (item === undefined || seen.has(number)) return [];
      seen.add(number);
      places.push({ item, at });
    }
    return at === plain.length ? places : [];
  }

  #callsAt(
    { plain, before, at }: Place,
    item: Marked,
    { toolCalls, nth }: CallPlace,
    syntax: ToolSyntax,
  ): Splice | null {
    if (!hasSections(syntax)) return null;
    const start = lastStart(plain, syntax.bare ? syntax.engineOpen : syntax.open, before, at);
    if (start === -1) return null;
    const text = this.options.decode(item.ids);
    const written = sectionStart(text, 0, syntax) === 0 ? readSection(text, 0, syntax, this.#tools) : null;
    if (written === null) return null;
    // A section with more calls than the written one is longer than this window, or is read to its end.
    const calls = toolCalls.slice(nth, nth + written.calls.length);
    if (!isSame(written, calls)) return null;
    const length = calls.reduce((sum, { arguments: given }) => sum + MAX_GROWTH * given.length, MAX_AROUND);
    const window = plain.slice(start, start + length);
    const shown = readSection(window.replaceAll(this.#guard, ''), 0, syntax, this.#tools);
    if (shown === null || shown.calls.length !== calls.length || !isSame(shown, calls)) return null;
    // The template may show the call's ID, which the model has not written.
    if (!written.calls.every(({ around }, nth) => around === shown.calls[nth]?.around)) return null;
    const end = endLike(written, text, shown, window.replaceAll(this.#guard, ''));
    if (end === null) return null;
    const stop = start + guardedLength(window, end, this.#guard);
    return stop <= at ? null : { start, end: stop, item };
  }

  #reasoningAt({ plain, before, at }: Place, item: Marked, { open, close, label }: ReasoningMarkers): Splice | null {
    const start = lastStart(plain, open, before, at);
    if (start === -1 || !isLead(plain.slice(start + open.length, at), label)) return null;
    const window = plain.slice(at, at + MAX_GUARDED * item.reasoning.length + MAX_SPACE + close.length);
    const closed = window.indexOf(close);
    if (closed === -1) return null;
    if (window.slice(0, closed).replaceAll(this.#guard, '').trim() !== item.reasoning.trim()) return null;
    const written = this.options.decode(item.ids);
    if (!written.startsWith(open) || !written.endsWith(close)) return null;
    const isWritten = isReasoning(written.slice(open.length, -close.length), item.reasoning, label);
    return isWritten ? { start, end: at + closed + close.length, item } : null;
  }
}

/** The last place at or before `at`, but not before `before`, where `marker` starts; -1 if there is none. */
function lastStart(plain: string, marker: string, before: number, at: number): number {
  const found = plain.slice(before, at + marker.length).lastIndexOf(marker, at - before);
  return found === -1 ? -1 : before + found;
}

/** Whether the section consists of the first of these calls. */
const isSame = ({ calls: read }: CallSection, calls: readonly ToolCall[]): boolean =>
  read.length <= calls.length &&
  read.every(
    (call, nth) => call.name === calls[nth]?.name && equalJson(call.arguments, (calls[nth] as ToolCall).arguments),
  );

/**
 * Where the shown section ends if it is to end like the written one: with its closing marker or, if the output ended
 * before that, after its last call and the same white space. Null if there is no such place.
 */
function endLike(written: CallSection, text: string, shown: CallSection, shownText: string): number | null {
  if (written.end !== null) return written.end === text.length ? shown.end : null;
  const rest = text.slice(written.callsEnd);
  return rest.trim() === '' && shownText.startsWith(rest, shown.callsEnd) ? shown.callsEnd + rest.length : null;
}

/** The length of the shortest beginning of `text` that has this many characters apart from guards. */
function guardedLength(text: string, length: number, guard: string): number {
  let at = 0;
  for (let left = length; left > 0 && at < text.length; at++) if (text[at] !== guard) left--;
  return at;
}
