// Finds in a rendered prompt the calls and reasoning blocks whose tokens are known, and marks their places. The items
// are rendered with a mark that no client text can contain, so text that only looks like a call is never replaced. An
// item is replaced as a whole, and only if its tokens decode to the same call or the same reasoning. Pure.
import { keyOfCallId, reasoningKey } from '../../replay/replay-item.js';
import type { GenerationRequest, ToolCall } from '../../types.js';
import type { ReasoningMarkers } from '../reasoning.js';
import type { ToolSyntax } from '../tools/syntax.js';
import { hasSections, readSection, sectionStart, type CallSection } from './call-section.js';
import { equalJson } from './json-equal.js';

/** The items by the number in their mark. `name`: the call's ID, or the path of the reasoning. */
export type ReplayedItems = readonly { readonly ids: Int32Array; readonly name: string }[];

export interface ReplayMarksOptions {
  readonly guard: number;
  /** The tokens of items, by key. */
  readonly replays: ReadonlyMap<string, Int32Array>;
  readonly request: Pick<GenerationRequest, 'messages' | 'tools' | 'promptParam'>;
  /** Returns the text of tokens, including special tokens. */
  readonly decode: (ids: Int32Array) => string;
}

interface Marked {
  readonly ids: Int32Array;
  readonly name: string;
  /** The call and those after it in its message. Null: reasoning. */
  readonly calls: readonly ToolCall[] | null;
  readonly reasoning: string;
}

interface Splice {
  readonly start: number;
  readonly end: number;
  readonly item: Marked;
}

/** The rendering of a call may be longer than its JSON text by this factor, and by this many characters. */
const MAX_GROWTH = 8;
const MAX_AROUND = 16_384;

export class ReplayMarks {
  readonly #marked: Marked[] = [];
  readonly #guard: string;
  readonly #followers = new Map<ToolCall, readonly ToolCall[]>();
  readonly #paths = new Map<string, string>();
  readonly #tools: Map<string, Readonly<Record<string, unknown>> | null>;

  constructor(private readonly options: ReplayMarksOptions) {
    this.#guard = String.fromCodePoint(options.guard);
    const { messages, tools, promptParam } = options.request;
    this.#tools = new Map(tools.map(({ name, parameters }) => [name, parameters]));
    for (const [at, message] of messages.entries()) {
      if (message.role !== 'assistant') continue;
      const { toolCalls = [], reasoning, thoughts } = message;
      toolCalls.forEach((call, nth) => {
        this.#followers.set(call, toolCalls.slice(nth));
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
    const calls = this.#followers.get(call);
    if (ids === undefined || calls === undefined) return '';
    return this.#mark({ ids, name: call.id, calls, reasoning: '' });
  }

  /** Returns the text of a reasoning block with a mark, if its tokens are known. Templates trim the text's ends. */
  reasoning(text: string, shielded: string): string {
    const ids = this.options.replays.get(reasoningKey(text));
    if (ids === undefined) return shielded;
    const mark = this.#mark({ ids, name: this.#paths.get(text) ?? 'reasoning', calls: null, reasoning: text });
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
    for (const { item, at } of this.#places(marked, plain)) {
      const from = splices.at(-1)?.end ?? 0;
      const splice =
        item.calls === null
          ? markers === null
            ? null
            : this.#reasoningAt(plain, at, item, markers)
          : this.#callsAt(plain, at, item, syntax);
      if (splice !== null && splice.start >= from) splices.push(splice);
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

  #callsAt(plain: string, at: number, item: Marked, syntax: ToolSyntax): Splice | null {
    if (!hasSections(syntax)) return null;
    const start = plain.lastIndexOf(syntax.bare ? syntax.engineOpen : syntax.open, at);
    if (start === -1) return null;
    const calls = item.calls as readonly ToolCall[];
    const length = calls.reduce((sum, { arguments: given }) => sum + MAX_GROWTH * given.length, MAX_AROUND);
    const window = plain.slice(start, start + length);
    const shown = readSection(window.replaceAll(this.#guard, ''), 0, syntax, this.#tools);
    if (shown === null || !isSame(shown, calls)) return null;
    const text = this.options.decode(item.ids);
    const written = sectionStart(text, 0, syntax) === 0 ? readSection(text, 0, syntax, this.#tools) : null;
    if (written === null || written.calls.length !== shown.calls.length || !isSame(written, calls)) return null;
    // The template may show the call's ID, which the model has not written.
    if (!written.calls.every(({ around }, nth) => around === shown.calls[nth]?.around)) return null;
    const end = endLike(written, text, shown, window.replaceAll(this.#guard, ''));
    if (end === null) return null;
    const stop = start + guardedLength(window, end, this.#guard);
    return stop <= at ? null : { start, end: stop, item };
  }

  #reasoningAt(plain: string, at: number, item: Marked, { open, close, label }: ReasoningMarkers): Splice | null {
    const start = plain.lastIndexOf(open, at);
    if (start === -1 || !isLead(plain.slice(start + open.length, at), label)) return null;
    const closed = plain.indexOf(close, at);
    if (closed === -1) return null;
    const text = item.reasoning.trim();
    if (plain.slice(at, closed).replaceAll(this.#guard, '').trim() !== text) return null;
    const written = this.options.decode(item.ids);
    if (!written.startsWith(open) || !written.endsWith(close)) return null;
    const inside = written.slice(open.length, -close.length).trim();
    const isWritten = inside === text || (inside.endsWith(text) && isLead(inside.slice(0, -text.length), label));
    return isWritten ? { start, end: closed + close.length, item } : null;
  }
}

/** Whether a text before reasoning is only white space, or the label. */
const isLead = (text: string, label: string | undefined): boolean => text.trim() === '' || text.trim() === label;

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
