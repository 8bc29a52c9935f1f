// What a wire format of servers elsewhere has to do: write a request, read an answer. Types, and what readers share.
import { parseExact, stringifyExact } from '../../../shared/exact-json.js';
import type { Upstream } from '../../../config/upstream.js';
import type { GenerationRequest, OutputFormat } from '../../types.js';
import type { AnswerEvents } from '../answer-events.js';
import { notUnderstood, type UpstreamFault } from '../fault.js';
import { JsonEntries, RawJson } from '../json-reader.js';

export interface Asked {
  readonly request: GenerationRequest;
  /** The cap of each choice; null: the server's own. */
  readonly cap: number | null;
  /** Where a format cannot do without one. */
  readonly maxOutputTokens: number;
  readonly upstream: Upstream;
}

/** A JSON object; without the model, which each server calls its own way. */
export type Body = Record<string, unknown>;

export interface UpstreamApi {
  /** Below the server's address. */
  readonly path: string;
  /** Throws ApiError 422 for what the format cannot say. */
  body(asked: Asked): Body;
  /** Whether an answer is held to the form by what the body says of it. */
  holds(format: OutputFormat, held: Upstream['structured_outputs']): boolean;
  headers(key: string): Record<string, string>;
  reader(answer: AnswerEvents, fault: (error: unknown) => UpstreamFault): AnswerReader;
}

/** Reads one answer. What its methods return emits the answer as it is iterated, and may pause after each step. Throws UpstreamFault. */
export interface AnswerReader {
  event(name: string | null, event: Json): Generator<void, void>;
  /** `[DONE]`. */
  done(): void;
  /** Of a server that does not stream. */
  whole(answer: unknown): Generator<void, void>;
  /** The stream is over. */
  end(): void;
}

export type Json = Readonly<Record<string, unknown>>;

export const objectIn = (value: unknown): Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
export const listIn = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
export const textIn = (value: unknown): string => (typeof value === 'string' ? value : '');
export const numberIn = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined;
/** The number of a choice, a call or a block. */
export const placeIn = (value: unknown): number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : 0;

/** The arguments of a call as JSON text. Some servers send an object instead, or null where there are none. */
export const argumentsIn = (value: unknown): string =>
  value instanceof RawJson
    ? value.text
    : typeof value === 'object' && value !== null
      ? stringifyExact(value)
      : textIn(value);

/** The entries of a list of log-probabilities; a long list in batches. */
export const batchesIn = (value: unknown): Iterable<readonly unknown[]> =>
  value instanceof JsonEntries ? value.batches() : Array.isArray(value) && value.length > 0 ? [value] : [];

/** The object of an event: parsed from its data, or already read. Throws UpstreamFault. */
export function parsed(data: unknown): Json {
  let value = data;
  if (typeof data === 'string') {
    try {
      value = parseExact(data);
    } catch {
      throw notUnderstood('with what is not JSON');
    }
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw notUnderstood('with what is no object');
  return value as Json;
}

export const bearer = (key: string): Record<string, string> => ({ authorization: `Bearer ${key}` });

/** Without what is undefined. */
export function given(fields: Body): Body {
  for (const name of Object.keys(fields)) if (fields[name] === undefined) delete fields[name];
  return fields;
}
