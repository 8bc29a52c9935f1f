// What the driver needs to know of a way of asking: where, with which body, and what its events mean.

import type { Target, Turn } from '../types.js';

/** What was said and answered before, in this session. */
export interface Exchange {
  readonly said: string;
  readonly answer: string;
}

/** One question with all that it goes on from. */
export interface Question {
  readonly system: string | null;
  readonly before: readonly Exchange[];
  readonly turn: Turn;
  /** Whether the answer is to be stored; and the stored one it goes on from, in the place of `before`. */
  readonly stored: { readonly previous: string | null } | null;
}

/** What an answer has told of itself so far; readers write, the client reads. */
export interface Answer {
  id: string | null;
  text: string;
  finish: string | null;
  promptTokens: number | null;
  cachedTokens: number | null;
  outputTokens: number | null;
  /** The stream's own sign of its end. */
  ended: boolean;
  /** What went wrong within the stream, in the server's words. */
  error: string | null;
}

export const newAnswer = (): Answer => ({
  id: null,
  text: '',
  finish: null,
  promptTokens: null,
  cachedTokens: null,
  outputTokens: null,
  ended: false,
  error: null,
});

export interface DialectRules {
  /** Behind the target's address. */
  readonly path: string;
  body(target: Target, question: Question): Readonly<Record<string, unknown>>;
  /** Takes one event's data; true if it holds a piece of the answer. Throws if it is not of the dialect. */
  take(answer: Answer, data: string): boolean;
}

/** Fields of the target that stand in every body; its own win. */
export const withTarget = (
  target: Target,
  fields: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> => ({
  model: target.model,
  stream: true,
  ...(target.ignoreEos ? { ignore_eos: true } : {}),
  ...fields,
  ...target.body,
});

/** A schema as chat completions and completions name it. */
export const responseFormat = ({ schema }: Turn): Readonly<Record<string, unknown>> =>
  schema === null
    ? {}
    : { response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } } };

export interface WireError {
  message?: unknown;
  code?: unknown;
  type?: unknown;
}

/** The words of an error object, whatever else it has. */
export function wordsOf(error: WireError | string): string {
  if (typeof error === 'string') return error;
  return typeof error.message === 'string' ? error.message : JSON.stringify(error).slice(0, 300);
}
