// The interface of an upstream's API format, which writes requests and reads responses, and helpers shared by the
// formats.
import { parseExact, stringifyExact } from '../../../shared/exact-json.js';
import type { Upstream } from '../../../config/upstream.js';
import type { GenerationRequest, OutputFormat } from '../../types.js';
import type { AnswerEvents } from '../answer-events.js';
import { notUnderstood, type UpstreamFault } from '../fault.js';
import { JsonEntries, RawJson } from '../json-reader.js';
import type { TakesBack } from '../select-thoughts.js';

export interface Asked {
  readonly request: GenerationRequest;
  /** The output limit for each choice; null = the upstream's default. */
  readonly cap: number | null;
  /** The output limit for formats that require one. */
  readonly maxOutputTokens: number;
  readonly upstream: Upstream;
  /** Whether to request encrypted reasoning. Only the `responses` format supports it. */
  readonly encryptsReasoning: boolean;
}

/** A JSON object without the model name, which may differ from server to server. */
export type Body = Record<string, unknown>;

export interface UpstreamApi {
  /** The format's path, relative to the server's base URL. */
  readonly path: string;
  /** The form in which the API accepts the reasoning of earlier turns. */
  readonly takesBack: TakesBack;
  /** Whether the request turns thinking on. Needed only if `takesBack` is `thinking`. */
  thinks?(asked: Asked): boolean;
  /** Whether the format supports predicted outputs. Defaults to false. */
  readonly takesPrediction?: boolean;
  /** Throws ApiError 422 for parameters that the format does not support. */
  body(asked: Asked): Body;
  /** Whether the request makes the upstream enforce the output format. */
  holds(format: OutputFormat, held: Upstream['structured_outputs']): boolean;
  headers(key: string): Record<string, string>;
  reader(answer: AnswerEvents, fault: (error: unknown) => UpstreamFault): AnswerReader;
}

/**
 * Reads one response. The generators returned by its methods emit events while they are being iterated, and may pause
 * after each step. Throws UpstreamFault.
 */
export interface AnswerReader {
  event(name: string | null, event: Json): Generator<void, void>;
  /** Called for `[DONE]`. */
  done(): void;
  /** Called for a non-streamed response. */
  whole(answer: unknown): Generator<void, void>;
  /** Called at the end of the stream. */
  end(): void;
}

export type Json = Readonly<Record<string, unknown>>;

export const objectIn = (value: unknown): Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
export const listIn = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
export const textIn = (value: unknown): string => (typeof value === 'string' ? value : '');
export const numberIn = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined;
/** Returns the index of a choice, call or block, or 0 if it is invalid. */
export const placeIn = (value: unknown): number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : 0;

/** Returns a call's arguments as JSON text. Some upstreams send an object instead, or null for no arguments. */
export const argumentsIn = (value: unknown): string =>
  value instanceof RawJson
    ? value.text
    : typeof value === 'object' && value !== null
      ? stringifyExact(value)
      : textIn(value);

/** Returns the entries of a list of log probabilities. A long list is returned in batches. */
export const batchesIn = (value: unknown): Iterable<readonly unknown[]> =>
  value instanceof JsonEntries ? value.batches() : Array.isArray(value) && value.length > 0 ? [value] : [];

/** Returns an event's object. Parses the event's data unless it has already been parsed. Throws UpstreamFault. */
export function parsed(data: unknown): Json {
  let value = data;
  if (typeof data === 'string') {
    try {
      value = parseExact(data);
    } catch {
      throw notUnderstood('with invalid JSON');
    }
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw notUnderstood('with JSON that is not an object');
  return value as Json;
}

export const bearer = (key: string): Record<string, string> => ({ authorization: `Bearer ${key}` });

/** Removes undefined fields. */
export function given(fields: Body): Body {
  for (const name of Object.keys(fields)) if (fields[name] === undefined) delete fields[name];
  return fields;
}
