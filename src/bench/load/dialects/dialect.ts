// The parts of an API format that the driver uses: path, request body, and event parsing.

import type { Target, Turn } from '../types.js';

/** A completed turn of this session. */
export interface Exchange {
  readonly user: string;
  readonly answer: string;
}

/** One request with its conversation history. */
export interface Question {
  readonly system: string | null;
  readonly before: readonly Exchange[];
  readonly turn: Turn;
  /**
   * Whether to store the response, and the ID of the stored response to continue, which is sent instead of
   * `before`.
   */
  readonly stored: { readonly previous: string | null } | null;
}

/** The response so far. Written by the dialect, read by the client. */
export interface Answer {
  id: string | null;
  text: string;
  finish: string | null;
  promptTokens: number | null;
  cachedTokens: number | null;
  outputTokens: number | null;
  /** Whether the stream's end marker has been received. */
  ended: boolean;
  /** The server's message for an error within the stream. */
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
  /** Appended to the target's URL. */
  readonly path: string;
  body(target: Target, question: Question): Readonly<Record<string, unknown>>;
  /**
   * Processes the data of one event. Returns true if it contains part of the response. Throws if it is invalid in this
   * dialect.
   */
  take(answer: Answer, data: string): boolean;
}

/** Adds the target's fields to a request body. They override the dialect's fields. */
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

/** A JSON schema as the `response_format` of chat completions and completions. */
export const responseFormat = ({ schema }: Turn): Readonly<Record<string, unknown>> =>
  schema === null
    ? {}
    : { response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } } };

export interface WireError {
  message?: unknown;
  code?: unknown;
  type?: unknown;
}

/** The message of an error object. */
export function wordsOf(error: WireError | string): string {
  if (typeof error === 'string') return error;
  return typeof error.message === 'string' ? error.message : JSON.stringify(error).slice(0, 300);
}
