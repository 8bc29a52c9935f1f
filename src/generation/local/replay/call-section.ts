// Finds the section of tool calls in a complete text, and reads the calls. Accepts the same syntax as the parser of
// streamed output (tools/call-stream.ts). Pure.
import { isJsonSpace } from '../tools/json-scanner.js';
import type { CallableTools } from '../tools/call-reader.js';
import type { ToolSyntax } from '../tools/syntax.js';
import type { ToolCall } from '../../types.js';

export interface ReadCall extends Pick<ToolCall, 'name' | 'arguments'> {
  /**
   * The call's text apart from its arguments, as returned by ToolSyntax.ordered(), or without white space if the syntax
   * has no such method. Null if the arguments do not occur in the call's text as JSON.
   */
  readonly around: string | null;
  /** The ID that the model chose; null if it has not chosen an ID or the syntax has no IDs. */
  readonly id: string | null;
}

/** One section with one or more tool calls. `start`, `callsEnd` and `end` are offsets into the text. */
export interface CallSection {
  readonly start: number;
  /** The end of the last call. */
  readonly callsEnd: number;
  /** The end of the section, including its closing marker; null if the closing marker does not follow the last call. */
  readonly end: number | null;
  readonly calls: readonly ReadCall[];
}

/** Returns the first offset at or after `from` where a section of calls may start; -1 if there is none. */
export function sectionStart(text: string, from: number, { open, bare }: ToolSyntax): number {
  if (!bare) return text.indexOf(open, from);
  // In a bare syntax, a call is the whole output, and its opening marker is optional.
  const rest = text.slice(from).trimStart();
  return rest.startsWith(open) || rest.startsWith('{') ? text.length - rest.length : -1;
}

/**
 * Reads the section of calls that starts at `start`. Returns null if no complete call starts there. `tools`: the tools
 * that may be called, with the schemas of their parameters.
 */
export function readSection(text: string, start: number, syntax: ToolSyntax, tools: CallableTools): CallSection | null {
  const { open, close } = syntax;
  const calls: ReadCall[] = [];
  let callsEnd = start;
  let at = text.startsWith(open, start) ? start + open.length : start;
  if (at === start && !syntax.bare) return null;
  for (;;) {
    at = afterSeparators(text, at, syntax, calls.length > 0);
    if (calls.length > 0 && close !== '' && text.startsWith(close, at))
      return { start, callsEnd, end: at + close.length, calls };
    const call = readCall(text, at, syntax, tools);
    if (call === null) break;
    calls.push(call.call);
    at = callsEnd = call.end;
    if (call.closes || syntax.endsItself === true) return { start, callsEnd, end: callsEnd, calls };
  }
  if (calls.length === 0) return null;
  return { start, callsEnd, end: close === '' ? endWithoutMarker(text, callsEnd, syntax) : null, calls };
}

/**
 * Returns where a section ends in a syntax without a closing marker. A list of calls ends with its closing bracket. Any
 * other section ends with its last call.
 */
function endWithoutMarker(text: string, callsEnd: number, { several }: ToolSyntax): number {
  const end = several?.end.trim() ?? '';
  const at = end === '' ? -1 : text.slice(callsEnd, callsEnd + MAX_SPACE).search(/\S/);
  return at !== -1 && text.startsWith(end, callsEnd + at) ? callsEnd + at + end.length : callsEnd;
}

const MAX_SPACE = 64;

function afterSeparators(
  text: string,
  from: number,
  { separators, skipped, close }: ToolSyntax,
  afterCall: boolean,
): number {
  for (let at = from; ; at++) {
    if (at >= text.length || (close !== '' && text.startsWith(close, at))) return at;
    const skip = afterCall ? skipped?.find((some) => text.startsWith(some, at)) : undefined;
    if (skip !== undefined) at += skip.length - 1;
    else if (!isJsonSpace(text.charCodeAt(at)) && !separators.includes(text[at] as string)) return at;
  }
}

function readCall(
  text: string,
  at: number,
  syntax: ToolSyntax,
  tools: CallableTools,
): { call: ReadCall; end: number; closes: boolean } | null {
  if (at >= text.length) return null;
  let name = '';
  const parts: string[] = [];
  const reader = syntax.reader(text[at] as string, tools, {
    started: (started) => {
      name = started;
    },
    arguments: (part) => parts.push(part),
    finished: () => undefined,
  });
  if (reader === null) return null;
  const end = reader.read(text, at);
  if (reader.state !== 'complete') return null;
  const given = parts.join('');
  const around = textAround(text.slice(at, end), given);
  const packed = around?.replace(/\s+/g, '') ?? null;
  const call: ReadCall = {
    name,
    arguments: given,
    around: around === null ? null : (syntax.ordered?.(around) ?? packed),
    id: (packed === null ? undefined : syntax.callId?.exec(packed)?.[1]) ?? null,
  };
  return { call, end, closes: reader.closes === true };
}

function textAround(call: string, given: string): string | null {
  const at = given === '' ? -1 : call.indexOf(given);
  return at === -1 ? null : call.slice(0, at) + call.slice(at + given.length);
}
