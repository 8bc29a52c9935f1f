// Reads the JSON of a large response body or event while it arrives. Only members that an API format reads (WANTED) are
// kept. All others are skipped, so memory use depends only on the size of the members that are kept. Each chunk
// occupies the event loop for about a millisecond. Log probabilities are kept as JSON text outside the JavaScript heap,
// and are parsed later in batches. Skipped values are checked only for balanced quotes and brackets. Event-loop thread
// only.
import { GrowingText } from '../../shared/growing-text.js';

/** Members that an upstream's API format reads, at any depth. All other members are dropped. */
const WANTED: ReadonlySet<string> = new Set([
  // chat completions, completions
  'error',
  'choices',
  'index',
  'delta',
  'message',
  'content',
  'refusal',
  'reasoning',
  'reasoning_content',
  'text',
  'tool_calls',
  'function',
  'name',
  'id',
  'finish_reason',
  'stop_reason',
  'matched_stop',
  'usage',
  'prompt_tokens',
  'completion_tokens',
  'prompt_tokens_details',
  'completion_tokens_details',
  'cached_tokens',
  'prompt_cache_hit_tokens',
  'reasoning_tokens',
  'accepted_prediction_tokens',
  'rejected_prediction_tokens',
  // embeddings (which also use `data`, listed below)
  'embedding',
  // messages
  'type',
  'content_block',
  'thinking',
  'signature',
  'data',
  'partial_json',
  'stop_sequence',
  'input_tokens',
  'output_tokens',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
  'output_tokens_details',
  'thinking_tokens',
  // responses
  'response',
  'item',
  'item_id',
  'output',
  'output_index',
  'part',
  'status',
  'summary',
  'encrypted_content',
  'input_tokens_details',
  // errors
  'code',
  'param',
  'detail',
]);
/**
 * Members whose value is kept as JSON text unless it is a string: tool arguments, which may contain any names and
 * numbers.
 */
const RAW: ReadonlySet<string> = new Set(['arguments', 'input']);
const LOGPROBS = 'logprobs';
/** Names of the lists within a `logprobs` object. */
const LOGPROB_LISTS: ReadonlySet<string> = new Set(['content', 'tokens', 'token_logprobs', 'top_logprobs']);

/** Size assumed for a kept value in addition to its text. */
const NODE_BYTES = 32;
const MAX_NAME = 256;
const MAX_DEPTH = 64;
/** Maximum number of characters in one serialized logprob entry, including its alternatives. */
const MAX_ENTRY = 131_072;
/** Number of characters of a list that are stored and parsed as one batch. */
const BATCH = 16_384;
/** Memory is reserved in steps of this many bytes. */
const STEP = 65_536;

/** The JSON text of a value that was not parsed. */
export class RawJson {
  constructor(readonly text: string) {}
}

/** A list whose entries are parsed in batches. Each batch is freed once it has been read. */
export class JsonEntries {
  readonly #batches: Buffer[] = [];

  /** `free`: called with a batch's size when the batch has been read. */
  constructor(private readonly free: (bytes: number) => void) {}

  add(entries: string): number {
    const batch = Buffer.from(entries);
    this.#batches.push(batch);
    return batch.length;
  }

  /** Throws SyntaxError if an entry is not valid JSON. */
  *batches(): Generator<readonly unknown[]> {
    for (let batch = this.#batches.shift(); batch !== undefined; batch = this.#batches.shift()) {
      this.free(batch.length);
      yield JSON.parse(`[${batch.toString('utf8')}]`) as unknown[];
    }
  }
}

export interface JsonReaderLimits {
  /** Maximum size of the JSON in bytes, excluding log probabilities. */
  readonly maxBytes: number;
  /** Whether log probabilities were requested. */
  readonly logprobs: boolean;
  /** Reserves memory for kept values. May throw. */
  reserve(bytes: number): void;
  free(bytes: number): void;
  /** tooLong() creates the error for a value of more than `maxBytes`, and malformed() the error for invalid JSON. */
  tooLong(): Error;
  malformed(): Error;
}

const enum Expect {
  Value,
  ValueOrEnd,
  Name,
  NameOrEnd,
  Colon,
  CommaOrEnd,
  Nothing,
}
/** The type of token to which the next character belongs. */
const enum Within {
  Structure,
  Text,
  Word,
  Skipped,
  Raw,
  List,
}

interface Open {
  readonly list: unknown[] | null;
  readonly members: Record<string, unknown>;
  readonly isLogprobs: boolean;
  name: string;
}

const QUOTE = 34,
  BACKSLASH = 92,
  COMMA = 44,
  COLON = 58,
  OPEN_BRACE = 123,
  CLOSE_BRACE = 125,
  OPEN_BRACKET = 91,
  CLOSE_BRACKET = 93;
const isSpace = (code: number): boolean => code === 32 || code === 10 || code === 13 || code === 9;
const endsWord = (code: number): boolean =>
  code === COMMA || code === CLOSE_BRACE || code === CLOSE_BRACKET || isSpace(code);

export class JsonReader {
  readonly #open: Open[] = [];
  #expect: Expect = Expect.Value;
  #within: Within = Within.Structure;
  #value: unknown;
  #kept = 0; // not counting log probabilities
  #unreserved = 0;
  #reserved = 0;
  // The string, number, name or value being read.
  #token = new GrowingText();
  #isName = false;
  #cut = ''; // an incomplete escape sequence at the end of a string chunk
  #escaped = false; // the previous character was a backslash
  // State of a value that is not parsed: skipped, raw, or a list.
  #depth = 0;
  #quoted = false;
  #list: JsonEntries | null = null;
  #entry = 0; // characters of the list's current entry
  #ends = false; // the list has ended

  constructor(private readonly limits: JsonReaderLimits) {}

  /** Throws tooLong(), malformed(), or an error from reserve(). */
  push(text: string): void {
    let at = 0;
    while (at < text.length) {
      switch (this.#within) {
        case Within.Structure:
          at = this.#structure(text, at);
          break;
        case Within.Text:
          at = this.#text(text, at);
          break;
        case Within.Word:
          at = this.#word(text, at);
          break;
        case Within.Skipped:
          at = this.#skip(text, at);
          break;
        case Within.Raw:
          at = this.#raw(text, at);
          break;
        case Within.List:
          at = this.#entries(text, at);
          break;
      }
    }
  }

  /**
   * Number of bytes reserved, excluding log probabilities. The caller must free them when the value is no longer used.
   */
  get reserved(): number {
    return this.#reserved;
  }

  /** Returns the value after its last character has been read. Throws malformed(). */
  end(): unknown {
    if (this.#within === Within.Word) this.#endWord();
    if (this.#expect !== Expect.Nothing || this.#within !== Within.Structure) throw this.limits.malformed();
    return this.#value;
  }

  #structure(text: string, from: number): number {
    for (let at = from; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (isSpace(code)) continue;
      switch (this.#expect) {
        case Expect.ValueOrEnd:
          if (code === CLOSE_BRACKET) {
            this.#close(code);
            continue;
          }
          return this.#begin(code, at);
        case Expect.Value:
          return this.#begin(code, at);
        case Expect.NameOrEnd:
        case Expect.Name:
          if (code === CLOSE_BRACE && this.#expect === Expect.NameOrEnd) {
            this.#close(code);
            continue;
          }
          if (code !== QUOTE) throw this.limits.malformed();
          this.#beginText(true);
          return at + 1;
        case Expect.Colon:
          if (code !== COLON) throw this.limits.malformed();
          this.#expect = Expect.Value;
          continue;
        case Expect.CommaOrEnd:
          if (code !== COMMA) this.#close(code);
          else this.#expect = this.#open.at(-1)?.list === null ? Expect.Name : Expect.Value;
          continue;
        case Expect.Nothing:
          throw this.limits.malformed();
      }
    }
    return text.length;
  }

  /**
   * Starts a value at its first character, in the right mode for its member. Returns the position where reading
   * continues.
   */
  #begin(code: number, at: number): number {
    const parent = this.#open.at(-1);
    const name = parent?.list === null ? parent.name : null;
    const isLogprobs = name === LOGPROBS;
    if (
      name !== null &&
      !(isLogprobs
        ? this.limits.logprobs
        : parent?.isLogprobs === true
          ? LOGPROB_LISTS.has(name)
          : RAW.has(name) || WANTED.has(name))
    )
      return this.#beginSkipped(Within.Skipped, at);
    if (code === OPEN_BRACKET && (isLogprobs || parent?.isLogprobs === true)) {
      this.#list = new JsonEntries((bytes) => this.limits.free(bytes));
      this.#token = new GrowingText();
      this.#entry = this.#depth = 0;
      this.#quoted = this.#escaped = this.#ends = false;
      this.#within = Within.List;
      return at + 1;
    }
    if (parent?.isLogprobs === true) return this.#beginSkipped(Within.Skipped, at);
    if (code === QUOTE) {
      this.#beginText(false);
      return at + 1;
    }
    if (name !== null && RAW.has(name)) return this.#beginSkipped(Within.Raw, at);
    if (code === OPEN_BRACE || code === OPEN_BRACKET) {
      if (this.#open.length >= MAX_DEPTH) throw this.limits.malformed();
      this.#keep(NODE_BYTES);
      this.#open.push({ list: code === OPEN_BRACKET ? [] : null, members: {}, isLogprobs, name: '' });
      this.#expect = code === OPEN_BRACKET ? Expect.ValueOrEnd : Expect.NameOrEnd;
      return at + 1;
    }
    this.#token = new GrowingText();
    this.#within = Within.Word;
    return at;
  }

  #close(code: number): void {
    const open = this.#open.pop();
    if (open === undefined || code !== (open.list === null ? CLOSE_BRACE : CLOSE_BRACKET))
      throw this.limits.malformed();
    this.#done(open.list ?? open.members);
  }

  /** Completes a value. */
  #done(value: unknown): void {
    this.#within = Within.Structure;
    const parent = this.#open.at(-1);
    if (parent === undefined) {
      this.#value = value;
      this.#expect = Expect.Nothing;
      return;
    }
    this.#expect = Expect.CommaOrEnd;
    if (value === undefined) return; // skipped
    this.#keep(NODE_BYTES);
    if (parent.list === null) parent.members[parent.name] = value;
    else parent.list.push(value);
  }

  #beginText(isName: boolean): void {
    this.#token = new GrowingText();
    this.#isName = isName;
    this.#escaped = false;
    this.#cut = '';
    this.#within = Within.Text;
  }

  #text(text: string, from: number): number {
    let escaped = this.#escaped;
    let at = from;
    for (; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (escaped) escaped = false;
      else if (code === BACKSLASH) escaped = true;
      else if (code === QUOTE) break;
      else if (code < 32) throw this.limits.malformed();
    }
    this.#escaped = escaped;
    const ends = at < text.length;
    if (this.#isName) {
      // A name longer than all wanted names is truncated, so that it does not match.
      this.#token.add(text.slice(from, Math.min(at, from + Math.max(0, MAX_NAME - this.#token.length))));
      if (ends) this.#endName();
    } else {
      this.#keep(at - from);
      this.#unescape(text.slice(from, at), ends);
      if (ends) this.#done(this.#token.toString());
    }
    return ends ? at + 1 : at;
  }

  /** Decodes a chunk of a string. An incomplete escape sequence at its end is kept until the next chunk arrives. */
  #unescape(piece: string, isLast: boolean): void {
    const raw = this.#cut + piece;
    const end = isLast ? raw.length : endOfEscapes(raw);
    this.#cut = raw.slice(end);
    if (end > 0) this.#token.add(this.#decoded(raw.slice(0, end)));
  }

  #endName(): void {
    const open = this.#open.at(-1);
    if (open === undefined) throw this.limits.malformed();
    open.name = this.#token.length < MAX_NAME ? this.#decoded(this.#token.toString()) : '';
    this.#within = Within.Structure;
    this.#expect = Expect.Colon;
  }

  /** Decoding also copies the text. A slice would keep the whole chunk in memory. */
  #decoded(raw: string): string {
    try {
      return JSON.parse(`"${raw}"`) as string;
    } catch {
      throw this.limits.malformed();
    }
  }

  #word(text: string, from: number): number {
    let at = from;
    while (at < text.length && !endsWord(text.charCodeAt(at))) at++;
    this.#token.add(text.slice(from, at));
    if (this.#token.length > MAX_NAME) throw this.limits.malformed();
    if (at < text.length) this.#endWord();
    return at;
  }

  #endWord(): void {
    try {
      this.#done(JSON.parse(this.#token.toString()));
    } catch {
      throw this.limits.malformed();
    }
  }

  #beginSkipped(within: Within.Skipped | Within.Raw, at: number): number {
    this.#depth = 0;
    this.#quoted = this.#escaped = false;
    this.#token = new GrowingText();
    this.#within = within;
    return at;
  }

  /** Returns the end of a string, or of a value that is not parsed. */
  #valueEnd(text: string, from: number): number {
    let depth = this.#depth,
      quoted = this.#quoted,
      escaped = this.#escaped;
    let at = from;
    for (; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (quoted) {
        if (escaped) escaped = false;
        else if (code === BACKSLASH) escaped = true;
        else if (code === QUOTE) {
          quoted = false;
          if (depth === 0) {
            at++;
            this.#ends = true;
            break;
          }
        }
      } else if (code === QUOTE) quoted = true;
      else if (code === OPEN_BRACE || code === OPEN_BRACKET) depth++;
      else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
        // A number or literal ends at the next character that belongs to its container.
        if (depth === 0) {
          this.#ends = true;
          break;
        }
        if (--depth === 0) {
          at++;
          this.#ends = true;
          break;
        }
      } else if (depth === 0 && endsWord(code)) {
        this.#ends = true;
        break;
      }
    }
    this.#depth = depth;
    this.#quoted = quoted;
    this.#escaped = escaped;
    return at;
  }

  #skip(text: string, from: number): number {
    this.#ends = false;
    const at = this.#valueEnd(text, from);
    if (this.#ends) this.#done(undefined);
    return at;
  }

  #raw(text: string, from: number): number {
    this.#ends = false;
    const at = this.#valueEnd(text, from);
    this.#token.add(text.slice(from, at));
    this.#keep(at - from);
    if (this.#ends) this.#done(new RawJson(Buffer.from(this.#token.toString()).toString()));
    return at;
  }

  /** Collects a list's entries in batches that end between two entries. */
  #entries(text: string, from: number): number {
    let depth = this.#depth,
      quoted = this.#quoted,
      escaped = this.#escaped,
      entry = this.#entry;
    let begin = from,
      at = from;
    for (; at < text.length; at++, entry++) {
      const code = text.charCodeAt(at);
      if (quoted) {
        if (escaped) escaped = false;
        else if (code === BACKSLASH) escaped = true;
        else if (code === QUOTE) quoted = false;
      } else if (code === QUOTE) quoted = true;
      else if (code === OPEN_BRACE || code === OPEN_BRACKET) depth++;
      else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
        if (depth === 0) {
          if (code !== CLOSE_BRACKET) throw this.limits.malformed();
          this.#flush(text.slice(begin, at));
          const list = this.#list;
          this.#list = null;
          this.#done(list);
          return at + 1;
        }
        depth--;
      } else if (code === COMMA && depth === 0) {
        if (entry > MAX_ENTRY) throw this.limits.tooLong();
        entry = 0;
        if (this.#token.length + at - begin >= BATCH) {
          this.#flush(text.slice(begin, at));
          begin = at + 1;
        }
      }
    }
    if (entry > MAX_ENTRY) throw this.limits.tooLong();
    if (begin < at) this.#token.add(text.slice(begin, at));
    this.#depth = depth;
    this.#quoted = quoted;
    this.#escaped = escaped;
    this.#entry = entry;
    return at;
  }

  #flush(rest: string): void {
    if (rest !== '') this.#token.add(rest);
    const entries = this.#token.toString();
    this.#token = new GrowingText();
    if (entries.trim() !== '') this.limits.reserve(this.#list?.add(entries) ?? 0);
  }

  #keep(bytes: number): void {
    this.#kept += bytes;
    if (this.#kept > this.limits.maxBytes) throw this.limits.tooLong();
    this.#unreserved += bytes;
    if (this.#unreserved < STEP) return;
    this.limits.reserve(this.#unreserved);
    this.#reserved += this.#unreserved;
    this.#unreserved = 0;
  }
}

/** Returns where `raw` can be cut: before an incomplete escape sequence. */
function endOfEscapes(raw: string): number {
  const last = raw.lastIndexOf('\\');
  if (last < raw.length - ESCAPE || last < 0) return raw.length;
  let first = last;
  while (first > 0 && raw.charCodeAt(first - 1) === BACKSLASH) first--;
  // In a run of backslashes, each pair is one escape sequence. The last backslash starts another sequence only if their
  // number is odd.
  if ((last - first) % 2 === 1) return raw.length;
  return raw.length - last < (raw[last + 1] === 'u' ? ESCAPE : 2) ? last : raw.length;
}

/** Length of the longest escape sequence: \u001f. */
const ESCAPE = 6;
