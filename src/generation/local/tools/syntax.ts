// The interface of a tool-call syntax. Each syntax has its own file; the model's template selects one (dialect.ts).
import type { GrammarOptions } from '../../../engine/addon-grammar-types.js';
import type { ToolCall } from '../../types.js';
import type { WrittenCall } from '../template/probe.js';
import type { CallSyntax } from './call-stream.js';
import type { ParametersSchema } from './value-kinds.js';

export interface ToolSyntax extends CallSyntax {
  readonly name: string;
  /** The text by which the engine recognizes a call: `open`, a prefix of it, or the start of a bare call. */
  readonly engineOpen: string;
  /** The text after `engineOpen`, up to the arguments or up to the part before them that the model generates. */
  head(tool: string): string;
  /**
   * Like head(), for tools whose name is a prefix of another tool's name. Needed only if no text in the head marks the
   * end of the name.
   */
  headApart?(tool: string): string;
  /** The part between the head and the arguments that the model generates: an ID and the text after it. */
  readonly lead?: GrammarOptions['lead'];
  /** The notation of the arguments. Defaults to a JSON object. */
  spelling?(schema: ParametersSchema): NonNullable<GrammarOptions['spelling']>;
  /** The text after the arguments: the end of the call, and of the section if it contains only one call. */
  readonly tail: string;
  /** The section ends with the tail even though there is no close marker, and another section may follow. */
  readonly endsItself?: boolean;
  /** Present if a section may contain several calls. */
  readonly several?: {
    /**
     * The text between the end of one call and the arguments of the next. `number`: minimum number of preceding calls.
     */
    next(tool: string, number: number): string;
    /**
     * Present if the text contains the call's number. The number of different call numbers that the grammar
     * distinguishes.
     */
    readonly numbered?: number;
    /** The text that follows the last call and ends the section. */
    readonly end: string;
  };
  /**
   * Present if the model chooses an ID for each call: matches the text around a call's arguments, without white space.
   * Group 1 is the ID in the form that is passed to a template.
   */
  readonly callId?: RegExp;
  /**
   * Present if models and templates write the text around a call's arguments in different orders: puts the parts into
   * one order and normalizes white space.
   */
  ordered?(around: string): string;
  /** Writes calls as the model would, for templates that do not support calls. */
  write(calls: readonly WrittenArguments[]): string;
}

export type WrittenArguments = Pick<ToolCall, 'name' | 'arguments'>;

/**
 * Variants of a syntax that differ in spacing. The template's own spacing is used, because the model was trained with
 * it.
 */
export interface SyntaxFamily {
  /** Returns null if the call uses a different syntax. */
  recognize(written: WrittenCall): ToolSyntax | null;
  /** The syntax with the usual spacing, for templates that do not show calls, if the vocabulary has `token`. */
  readonly usual: ToolSyntax;
  readonly token?: string;
}

const JSON_HEAD = /\{\s*"name":\s*"$/;
const JSON_TAIL = /^",\s*"(?:arguments|parameters)":/;

/**
 * Returns the text before a call's JSON object and the object's text up to its arguments, or null if it is not a JSON
 * call.
 */
export function jsonCall({ before, after }: WrittenCall): { lead: string; head: string; tail: string } | null {
  const head = JSON_HEAD.exec(before)?.[0];
  const tail = JSON_TAIL.exec(after)?.[0];
  return head === undefined || tail === undefined ? null : { lead: before.slice(0, -head.length), head, tail };
}
