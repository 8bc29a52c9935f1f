// Finds the tool calls and reasoning blocks in a rendered prompt whose token IDs were recorded when the model generated
// them. The prompt is rendered twice: as usual, and with a mark in front of each such item. No client text can contain
// a mark, so text that only looks like a call is never replaced. An item is replaced as a whole, and only if its token
// IDs decode to the same call or the same reasoning. Pure.
import { keyOfCallId, reasoningKey } from '../../replay/replay-item.js';
import type { GenerationRequest, ToolCall } from '../../types.js';
import type { ReasoningMarkers } from '../reasoning.js';
import type { ToolSyntax } from '../tools/syntax.js';
import { readSection, sectionStart, type CallSection } from './call-section.js';
import { equalJson } from './json-equal.js';
import { isLead, isReasoning } from './same-reasoning.js';

/**
 * The replayed items. An item's index is the number in its mark. `name`: the ID of a tool call, or the path of a
 * reasoning block in the request.
 */
export type ReplayedItems = readonly { readonly ids: Int32Array; readonly name: string }[];

export interface ReplayMarksOptions {
  readonly guard: number;
  /** The recorded token IDs of tool calls and reasoning blocks, by key. */
  readonly replays: ReadonlyMap<string, Int32Array>;
  readonly request: Pick<GenerationRequest, 'messages' | 'tools' | 'promptParam'>;
  /** Detokenizes token IDs; special tokens are included as text. Returns '' if an ID is not in the vocabulary. */
  readonly decode: (ids: Int32Array) => string;
}

/** The prompt with a mark in place of each item, and the items. */
export interface FoundItems {
  readonly text: string;
  readonly items: ReplayedItems;
}

/** A recorded section of calls, named by the ID of its first call, and the IDs that the model chose for its calls. */
export interface SectionIds {
  readonly name: string;
  readonly ids: ReadonlyMap<ToolCall, string>;
}

interface Marked {
  readonly ids: Int32Array;
  readonly name: string;
  /** The call's position in its message; null if the item is a reasoning block. */
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

/**
 * `at`: the offset of an item's mark in the prompt `plain`. `before`: the end offset of the previous item or, if that
 * item is not replaced, the offset of its mark.
 */
interface Place {
  readonly plain: string;
  readonly before: number;
  readonly at: number;
}

/**
 * Maximum length of a rendered section of calls, in characters: MAX_AROUND plus MAX_GROWTH times the length of the
 * calls' JSON arguments.
 */
const MAX_GROWTH = 8;
const MAX_AROUND = 16_384;

/**
 * Rendered reasoning can be up to this many times as long as the reasoning text, because a guard may be inserted before
 * each character.
 */
const MAX_GUARDED = 2;
/** Maximum number of characters between reasoning and its closing marker. */
const MAX_SPACE = 64;

export class ReplayMarks {
  readonly #marked: Marked[] = [];
  readonly #guard: string;
  readonly #callPlaces = new Map<ToolCall, CallPlace>();
  readonly #paths = new Map<string, string>();
  /**
   * Keys of the calls that already have a mark. If a conversation repeats a call ID, only the first call with the ID is
   * replayed.
   */
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

  /**
   * Returns the recorded sections of calls that the client sent back unchanged, with the IDs that the model chose.
   * Empty if the syntax has no IDs.
   */
  sections(syntax: ToolSyntax): SectionIds[] {
    if (syntax.callId === undefined) return [];
    const sections = new Map<string, SectionIds>();
    for (const [call, { toolCalls, nth }] of this.#callPlaces) {
      const key = keyOfCallId(call.id);
      const ids = key === null ? undefined : this.options.replays.get(key);
      if (key === null || ids === undefined || sections.has(key)) continue;
      const written = this.#written(this.options.decode(ids), syntax);
      const calls = toolCalls.slice(nth, nth + (written?.calls.length ?? 0));
      if (written === null || !isSame(written, calls)) continue;
      const own = new Map<ToolCall, string>();
      for (const [at, { id }] of written.calls.entries()) if (id !== null) own.set(calls[at] as ToolCall, id);
      if (own.size === calls.length) sections.set(key, { name: call.id, ids: own });
    }
    return [...sections.values()];
  }

  /** Returns the mark that is rendered in front of a call's name; '' if the call's token IDs are not recorded. */
  call(call: ToolCall): string {
    const key = keyOfCallId(call.id);
    const ids = key === null ? undefined : this.options.replays.get(key);
    const place = this.#callPlaces.get(call);
    if (key === null || ids === undefined || place === undefined || this.#calls.has(key)) return '';
    this.#calls.add(key);
    return this.#mark({ ids, name: call.id, call: place, reasoning: '' });
  }

  /**
   * Returns a reasoning block's shielded text, with a mark in front of it if its token IDs are recorded. The mark comes
   * after leading white space, because templates trim the text.
   */
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
   * Finds the marked items. `marked`: the prompt rendered with marks. `plain`: the prompt rendered without marks.
   * Returns the plain prompt with a mark in place of each item to replay, or null if no item can be replayed.
   */
  found(marked: string, plain: string, syntax: ToolSyntax, markers: ReasoningMarkers | null): FoundItems | null {
    const splices: Splice[] = [];
    let before = 0; // an item starts at or after the end of the previous one
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

  /**
   * Returns the offset of each mark in the plain prompt. Returns an empty list if the template has changed a marked
   * text or rendered it twice.
   */
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
    const start = lastStart(plain, syntax.bare ? syntax.engineOpen : syntax.open, before, at);
    if (start === -1) return null;
    const text = this.options.decode(item.ids);
    const written = this.#written(text, syntax);
    if (written === null) return null;
    // If the prompt's section contains more calls than the generated section, the comparison below fails: either the
    // additional calls are within the window and are read, or the end of the section is outside the window.
    const calls = toolCalls.slice(nth, nth + written.calls.length);
    if (!isSame(written, calls)) return null;
    const length = calls.reduce((sum, { arguments: given }) => sum + MAX_GROWTH * given.length, MAX_AROUND);
    const window = plain.slice(start, start + length);
    const shown = readSection(window.replaceAll(this.#guard, ''), 0, syntax, this.#tools);
    if (shown === null || shown.calls.length !== calls.length || !isSame(shown, calls)) return null;
    // The template may render the call's ID although the model did not generate it.
    if (!written.calls.every(({ around }, nth) => around === shown.calls[nth]?.around)) return null;
    const end = endLike(written, text, shown, window.replaceAll(this.#guard, ''));
    if (end === null) return null;
    const stop = start + guardedLength(window, end, this.#guard);
    return stop <= at ? null : { start, end: stop, item };
  }

  /** Reads the section of calls that recorded tokens decode to. */
  #written(text: string, syntax: ToolSyntax): CallSection | null {
    return sectionStart(text, 0, syntax) === 0 ? readSection(text, 0, syntax, this.#tools) : null;
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

/** Returns the last offset between `before` and `at` (inclusive) where `marker` starts; -1 if there is none. */
function lastStart(plain: string, marker: string, before: number, at: number): number {
  const found = plain.slice(before, at + marker.length).lastIndexOf(marker, at - before);
  return found === -1 ? -1 : before + found;
}

/** Whether the section's calls have the same names and arguments as the first calls in `calls`. */
const isSame = ({ calls: read }: CallSection, calls: readonly ToolCall[]): boolean =>
  read.length <= calls.length &&
  read.every(
    (call, nth) => call.name === calls[nth]?.name && equalJson(call.arguments, (calls[nth] as ToolCall).arguments),
  );

/**
 * Returns the offset in `shownText` where the rendered section `shown` ends, if it ends in the same way as the
 * generated section `written` in `text`: with its closing marker or, if the output stopped before the marker, with the
 * last call and the same white space. Returns null if it ends differently.
 */
function endLike(written: CallSection, text: string, shown: CallSection, shownText: string): number | null {
  if (written.end !== null) return written.end === text.length ? shown.end : null;
  const rest = text.slice(written.callsEnd);
  return rest.trim() === '' && shownText.startsWith(rest, shown.callsEnd) ? shown.callsEnd + rest.length : null;
}

/** Returns the length of the shortest prefix of `text` that contains `length` characters other than guards. */
function guardedLength(text: string, length: number, guard: string): number {
  let at = 0;
  for (let left = length; left > 0 && at < text.length; at++) if (text[at] !== guard) left--;
  return at;
}
