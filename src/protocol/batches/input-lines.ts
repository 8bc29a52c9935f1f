// Reads and checks the input file of a batch: JSON lines, each with custom_id, method, url and body. Problems are
// collected with their line numbers, as in OpenAI's API. The file is read as a stream, so that only one group of lines
// and the custom IDs are in memory.

import { performance } from 'node:perf_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { stringifyInSlices } from '../../http/json-slices.js';
import { SMALL_BYTES } from '../../http/parse-queue.js';
import { ApiError, toApiError } from '../../shared/errors.js';
import { stringifyExact } from '../../shared/exact-json.js';
import type { BatchProblem, NewLine } from '../../storage/batch-store.js';
import { isRecord } from '../entry-limits.js';
import { isLonger } from '../fields.js';

/** Reading stops after this many problems. */
export const MAX_PROBLEMS = 100;
export const MAX_CUSTOM_ID = 512;

export interface InputRules {
  readonly endpoint: string;
  readonly maxLines: number;
  readonly maxLineBytes: number;
  /** Parses a line, in steps if it is large. Rejects with ApiError. */
  parse(line: Uint8Array): Promise<object>;
  /** Throws ApiError if the model is unknown or the key may not use it. Called once, for the first model named. */
  checkModel(model: string): void;
}

export interface ReadInput {
  readonly total: number;
  readonly model: string | null;
  /** The reasons why the file is invalid. Empty if it is valid. */
  readonly problems: readonly BatchProblem[];
}

/**
 * Reads the file and passes its lines to `take` in groups. After the first problem, the remaining lines are only
 * checked.
 */
export async function readInput(
  chunks: AsyncIterable<Uint8Array>,
  rules: InputRules,
  take: (lines: readonly NewLine[]) => Promise<void>,
): Promise<ReadInput> {
  const reader = new InputReader(rules);
  let group: NewLine[] = [];
  let bytes = 0;
  const flush = async (): Promise<void> => {
    if (group.length > 0 && reader.problems.length === 0) await take(group);
    group = [];
    bytes = 0;
  };
  let turnAt = performance.now();
  for await (const text of linesOf(chunks, rules.maxLineBytes)) {
    if (performance.now() - turnAt > TURN_MS) {
      await nextTurn();
      turnAt = performance.now();
    }
    const line = await reader.read(text);
    if (line !== null) {
      group.push(line);
      bytes += line.body.length;
    }
    if (reader.isFull) break;
    if (bytes >= GROUP_BYTES || group.length >= GROUP_LINES) await flush();
  }
  await flush();
  return reader.end();
}

/** Maximum time, in ms, that reading may occupy the event loop before other work gets a turn. */
const TURN_MS = 10;
/** A group of lines is stored when it has this many bytes or lines. */
const GROUP_BYTES = 1_048_576;
const GROUP_LINES = 500;

class InputReader {
  readonly problems: BatchProblem[] = [];
  /** Number of the current line in the file, counted from 1. Empty lines are counted. */
  #line = 0;
  #total = 0;
  #model: string | null = null;
  #isTooLong = false;
  readonly #ids = new Set<string>();

  constructor(private readonly rules: InputRules) {}

  get isFull(): boolean {
    return this.problems.length >= MAX_PROBLEMS || this.#isTooLong;
  }

  /** Checks one line. Returns null if it is empty or has a problem. `bytes` is null if the line is too long. */
  async read(bytes: Uint8Array | null): Promise<NewLine | null> {
    this.#line++;
    if (bytes === null)
      return this.#problem('line_too_long', `The line is longer than ${this.rules.maxLineBytes} bytes.`);
    if (isBlank(bytes)) return null;
    this.#total++;
    if (this.#total > this.rules.maxLines) {
      this.#isTooLong = true;
      return this.#problem('too_many_requests', `A batch may have at most ${this.rules.maxLines} requests.`);
    }
    let value: Readonly<Record<string, unknown>>;
    try {
      value = (await this.rules.parse(bytes)) as Readonly<Record<string, unknown>>;
    } catch (error) {
      return this.#problem('invalid_json_line', `This line is not a valid JSON object. ${toApiError(error).message}`);
    }
    const request = this.#request(value);
    if (request === null) return null;
    const { customId, body } = request;
    const text = bytes.length < SMALL_BYTES ? stringifyExact(body) : await stringifyInSlices(body);
    return { line: this.#total, customId, body: text };
  }

  end(): ReadInput {
    if (this.#total === 0 && this.problems.length === 0)
      this.problems.push({ code: 'empty_file', message: 'The input file has no requests.', param: null, line: null });
    return { total: this.#total, model: this.#model, problems: this.problems };
  }

  #request(value: Readonly<Record<string, unknown>>): { customId: string; body: object } | null {
    const { custom_id: customId, method, url, body } = value;
    const { endpoint } = this.rules;
    for (const name of ['custom_id', 'method', 'url', 'body'])
      if (value[name] == null) return this.#problem('missing_required_parameter', `${name} is required.`, name);
    if (typeof customId !== 'string' || customId === '' || isLonger(customId, MAX_CUSTOM_ID) || customId.includes('\0'))
      return this.#problem(
        'invalid_custom_id',
        `custom_id must be a string of 1 to ${MAX_CUSTOM_ID} characters, without U+0000.`,
        'custom_id',
      );
    if (this.#ids.has(customId))
      return this.#problem(
        'duplicate_custom_id',
        'Another request in this file has the same custom_id. It must be unique within a batch.',
        'custom_id',
      );
    this.#ids.add(customId);
    if (method !== 'POST') return this.#problem('invalid_method', 'method must be "POST".', 'method');
    if (url !== endpoint)
      return this.#problem('invalid_url', `url must be the batch's endpoint, "${endpoint}".`, 'url');
    if (!isRecord(body)) return this.#problem('invalid_body', 'body must be a JSON object.', 'body');
    const model = this.#checkedModel(body['model']);
    const extra = Object.keys(value).find((name) => !KNOWN.has(name));
    if (extra !== undefined)
      return this.#problem(
        'unknown_parameter',
        `Unknown member ${JSON.stringify(extra.slice(0, 64))}.`,
        extra.slice(0, 64),
      );
    if (!model) return null;
    return { customId, body };
  }

  /** Returns whether a line's model is valid. All lines must name the same model. */
  #checkedModel(model: unknown): boolean {
    if (typeof model !== 'string') {
      this.#problem('missing_required_parameter', 'body.model is required and must be a string.', 'body.model');
      return false;
    }
    if (this.#model === model) return true;
    if (this.#model !== null) {
      this.#problem(
        'mismatched_model',
        "The model differs from the first request's model. All requests of a batch must name the same model.",
        'body.model',
      );
      return false;
    }
    this.#model = model;
    try {
      this.rules.checkModel(model);
      return true;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.#problem(error.code, error.message, 'body.model');
      return false;
    }
  }

  #problem(code: string, message: string, param: string | null = null): null {
    this.problems.push({ code, message, param, line: this.#line });
    return null;
  }
}

function isBlank(bytes: Uint8Array): boolean {
  for (const byte of bytes) if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0d) return false;
  return true;
}

const KNOWN: ReadonlySet<string> = new Set(['custom_id', 'method', 'url', 'body']);

const LINE_END = 0x0a;

/** Splits a stream into lines. Yields null for a line that is longer than `maxBytes`. */
async function* linesOf(chunks: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Uint8Array | null> {
  let parts: Uint8Array[] = [];
  let bytes = 0;
  const add = (part: Uint8Array): void => {
    bytes += part.length;
    if (bytes <= maxBytes) parts.push(part);
    else parts = [];
  };
  const taken = (): Uint8Array | null => {
    const line = bytes > maxBytes ? null : parts.length === 1 ? (parts[0] as Uint8Array) : Buffer.concat(parts);
    parts = [];
    bytes = 0;
    return line;
  };
  for await (const chunk of chunks) {
    let from = 0;
    for (let end = chunk.indexOf(LINE_END); end >= 0; end = chunk.indexOf(LINE_END, from)) {
      add(chunk.subarray(from, end));
      yield taken();
      from = end + 1;
    }
    if (from < chunk.length) add(chunk.slice(from));
  }
  if (bytes > 0) yield taken();
}
