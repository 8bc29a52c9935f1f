// What a way to write tool calls has to say of itself. One file for each syntax; a template decides which (dialect.ts).
import type { GrammarOptions } from '../../../engine/addon-types.js';
import type { ToolCall } from '../../types.js';
import type { WrittenCall } from '../template-probe.js';
import type { CallSyntax } from './call-stream.js';
import type { ParametersSchema } from './value-kinds.js';

export interface ToolSyntax extends CallSyntax {
  readonly name: string;
  /** The opening that the engine tells calls by: `open`, its beginning, or for a bare call what such an answer begins with. */
  readonly engineOpen: string;
  /** What follows it up to the arguments, or to what the model makes up before them. */
  head(tool: string): string;
  /** The same where one tool's name is the beginning of another's, if nothing of the head's own ends a name. */
  headApart?(tool: string): string;
  /** What a model makes up between head and arguments: an id, and the text behind it. */
  readonly lead?: GrammarOptions['lead'];
  /** How the arguments are written; absent: as a JSON object. */
  spelling?(schema: ParametersSchema): NonNullable<GrammarOptions['spelling']>;
  /** What follows the arguments: the end of the call, and of the section where it holds one call only. */
  readonly tail: string;
  /** Without a close marker: the section ends with the tail all the same, and another may follow. */
  readonly endsItself?: boolean;
  /** Of a section that holds several calls. */
  readonly several?: {
    /** What stands between a call's tail and the next one's arguments; `number`: how many calls came before, at least. */
    next(tool: string, number: number): string;
    /** The numbers are written: after so many calls they are told apart no more. */
    readonly numbered?: number;
    /** What ends the section behind the last call's tail. */
    readonly end: string;
  };
  /** Calls as the model itself would have written them: for templates that have no place for them. */
  write(calls: readonly WrittenArguments[]): string;
}

export type WrittenArguments = Pick<ToolCall, 'name' | 'arguments'>;

/** A syntax as a template writes it, spacing included: that is what the model has learned. */
export interface SyntaxFamily {
  /** Null if the call is written in another way. */
  recognize(written: WrittenCall): ToolSyntax | null;
  /** As it is usually spaced: for templates without a place for calls, where the vocabulary has `token`. */
  readonly usual: ToolSyntax;
  readonly token?: string;
}

const JSON_HEAD = /\{\s*"name":\s*"$/;
const JSON_TAIL = /^",\s*"(?:arguments|parameters)":/;

/** What stands before a call's JSON object and what it is like up to its arguments; null if it is none. */
export function jsonCall({ before, after }: WrittenCall): { lead: string; head: string; tail: string } | null {
  const head = JSON_HEAD.exec(before)?.[0];
  const tail = JSON_TAIL.exec(after)?.[0];
  return head === undefined || tail === undefined ? null : { lead: before.slice(0, -head.length), head, tail };
}
