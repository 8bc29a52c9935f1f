// Decodes the packed event stream of one wake-up, record by record (see native/engine/events.h for the format).
// Although the stream comes from our own engine, every bound is checked, so a malformed record throws an Error instead
// of producing wrong events.

export type Section = 'content' | 'reasoning' | 'tool';
export type EndReason = 'end_of_turn' | 'stop_string' | 'max_tokens' | 'context_full' | 'time_limit' | 'repetition';
export type FailureCode = 'queue_timeout' | 'engine_error' | 'shutdown';

export interface RawLogprob {
  token: number;
  logprob: number;
}
export interface RawTokenLogprob extends RawLogprob {
  top: RawLogprob[];
}

export interface StartedEvent {
  type: 'started';
  promptTokens: number;
  cachedTokens: number;
  queueMs: number;
  towerMs: number;
}
export interface TextEvent {
  type: 'text';
  choice: number;
  section: Section;
  text: string;
  /** Number of generated tokens that this text completes; 0 if it only releases held-back text. */
  tokens: number;
  logprobs: RawTokenLogprob[] | null;
}
export interface FinishedEvent {
  type: 'finished';
  choice: number;
  reason: EndReason;
  completionTokens: number;
  reasoningTokens: number;
  /** Index into the request's stop strings, or -1. */
  stopIndex: number;
  prefillMs: number;
  decodeMs: number;
  /** Number of tokens of SubmitOptions.prediction that the output has repeated. */
  predictedTokens: number;
}
/**
 * Log probabilities of the prompt's tokens, starting at position `first`. All of these events precede the choices'
 * first events.
 */
export interface PromptEvent {
  type: 'prompt';
  first: number;
  logprobs: RawTokenLogprob[];
}
/**
 * The generated tokens in order, emitted before the first text that they produce. Includes the token that ended the
 * choice.
 */
export interface TokensEvent {
  type: 'tokens';
  choice: number;
  ids: number[];
}
/** The prompt's pooled vector, which is not normalized, or the scores of a reranker. The `finished` event follows. */
export interface VectorEvent {
  type: 'vector';
  values: Float32Array;
}
export interface FailedEvent {
  type: 'failed';
  code: FailureCode;
  message: string;
}

export type EngineEvent =
  | StartedEvent
  | TextEvent
  | FinishedEvent
  | FailedEvent
  | PromptEvent
  | TokensEvent
  | VectorEvent;

// Values as in native/engine/events.h and request.h.
const kHeader = 12;
const enum Kind {
  Started = 1,
  Text = 2,
  Finished = 3,
  Failed = 4,
  Prompt = 5,
  Tokens = 6,
  Vector = 7,
}
const kSections: readonly Section[] = ['content', 'reasoning', 'tool'];
const kReasons: readonly EndReason[] = [
  'end_of_turn',
  'stop_string',
  'max_tokens',
  'context_full',
  'time_limit',
  'repetition',
];
const kFailures: readonly (FailureCode | undefined)[] = [undefined, 'queue_timeout', 'engine_error', 'shutdown'];

const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

/** Thrown for a record that does not conform to native/engine/events.h. */
export class EventStreamError extends Error {
  constructor(offset: number, problem: string) {
    super(`event record at byte ${offset}: ${problem}`);
    this.name = 'EventStreamError';
  }
}

/**
 * Calls `deliver(request, event)` for each record in order. Throws EventStreamError at the first malformed record,
 * after delivering all preceding records.
 */
export function decodeEvents(buffer: Uint8Array, deliver: (request: number, event: EngineEvent) => void): void {
  const view = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  const record = new RecordReader(buffer, view);
  let at = 0;
  while (at < buffer.length) {
    if (buffer.length - at < kHeader)
      throw new EventStreamError(at, `${buffer.length - at} bytes, shorter than a header`);
    const size = view.getUint32(at, true);
    if (size < kHeader || size % 4 !== 0)
      throw new EventStreamError(at, `size ${size} is not a multiple of 4 from ${kHeader} up`);
    if (size > buffer.length - at)
      throw new EventStreamError(at, `size ${size} exceeds the ${buffer.length - at} bytes left`);
    deliver(view.getUint32(at + 4, true), record.read(at, at + size));
    at += size;
  }
}

/** Reads the fields of consecutive records in order, and never past the end of a record. */
class RecordReader {
  #start = 0;
  #at = 0;
  #end = 0;

  constructor(
    private readonly bytes: Uint8Array,
    private readonly view: DataView,
  ) {}

  read(start: number, end: number): EngineEvent {
    this.#start = start;
    this.#at = start + kHeader;
    this.#end = end;
    const kind = this.view.getUint8(start + 8);
    const choice = this.view.getUint8(start + 9);
    const detail = this.view.getUint8(start + 10);
    const flags = this.view.getUint8(start + 11);
    const event = this.#event(kind, choice, detail, flags);
    if (this.#at !== end) throw this.#wrong(`${end - this.#at} bytes too many`);
    return event;
  }

  #event(kind: number, choice: number, detail: number, flags: number): EngineEvent {
    switch (kind) {
      case Kind.Started:
        return {
          type: 'started',
          promptTokens: this.#u32(),
          cachedTokens: this.#u32(),
          queueMs: this.#f32(),
          towerMs: this.#f32(),
        };
      case Kind.Text: {
        const section = this.#known(kSections[detail], 'section', detail);
        const tokens = this.#u32();
        const text = this.#text();
        return { type: 'text', choice, section, text, tokens, logprobs: (flags & 1) === 0 ? null : this.#logprobs() };
      }
      case Kind.Finished:
        return {
          type: 'finished',
          choice,
          reason: this.#known(kReasons[detail], 'finish reason', detail),
          completionTokens: this.#u32(),
          reasoningTokens: this.#u32(),
          stopIndex: this.#i32(),
          prefillMs: this.#f32(),
          decodeMs: this.#f32(),
          predictedTokens: this.#u32(),
        };
      case Kind.Failed:
        return { type: 'failed', code: this.#known(kFailures[detail], 'failure code', detail), message: this.#text() };
      case Kind.Prompt:
        return { type: 'prompt', first: this.#u32(), logprobs: this.#logprobs() };
      case Kind.Tokens: {
        const ids: number[] = [];
        for (let n = this.#count(4); n > 0; n--) ids.push(this.#i32());
        return { type: 'tokens', choice, ids };
      }
      case Kind.Vector: {
        const values = new Float32Array(this.#count(4));
        for (let i = 0; i < values.length; i++) values[i] = this.#f32();
        return { type: 'vector', values };
      }
      default:
        throw this.#wrong(`unknown kind ${kind}`);
    }
  }

  #logprobs(): RawTokenLogprob[] {
    const entries: RawTokenLogprob[] = [];
    for (let n = this.#count(12); n > 0; n--) {
      const token = this.#i32();
      const logprob = this.#f32();
      const top: RawLogprob[] = [];
      for (let m = this.#count(8); m > 0; m--) top.push({ token: this.#i32(), logprob: this.#f32() });
      entries.push({ token, logprob, top });
    }
    return entries;
  }

  #text(): string {
    const length = this.#count(1);
    const start = this.#take((length + 3) & ~3);
    // A token's text usually consists of a few ASCII characters. Concatenating these is faster than using TextDecoder.
    if (length <= 12) {
      let text = '';
      for (let i = start; i < start + length; i++) {
        const byte = this.bytes[i] as number;
        if (byte > 0x7f) return utf8.decode(this.bytes.subarray(start, start + length));
        text += String.fromCharCode(byte);
      }
      return text;
    }
    return utf8.decode(this.bytes.subarray(start, start + length));
  }

  /**
   * Reads a count of entries of at least `size` bytes each, and checks that the entries fit in the rest of the record.
   */
  #count(size: number): number {
    const count = this.#u32();
    if (count * size > this.#end - this.#at)
      throw this.#wrong(`a count of ${count} exceeds the ${this.#end - this.#at} bytes left`);
    return count;
  }

  #u32(): number {
    return this.view.getUint32(this.#take(4), true);
  }
  #i32(): number {
    return this.view.getInt32(this.#take(4), true);
  }
  #f32(): number {
    return this.view.getFloat32(this.#take(4), true);
  }

  #take(size: number): number {
    const at = this.#at;
    if (size > this.#end - at) throw this.#wrong('shorter than its kind');
    this.#at = at + size;
    return at;
  }

  #known<T>(value: T | undefined, what: string, number: number): T {
    if (value === undefined) throw this.#wrong(`unknown ${what} ${number}`);
    return value;
  }

  #wrong(problem: string): EventStreamError {
    return new EventStreamError(this.#start, problem);
  }
}
