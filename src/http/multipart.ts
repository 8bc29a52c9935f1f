// Parses multipart/form-data (RFC 7578) incrementally. The contents of parts are emitted as they arrive. Only the
// headers of a part, and bytes that may be the start of a delimiter, are buffered. Pure.

import { apiError } from '../shared/errors.js';
import type { ApiError } from '../shared/errors.js';

/** Maximum size of the headers of one part, in bytes. */
const MAX_HEADER_BYTES = 8_192;
/** Maximum number of parts in one body. */
const MAX_PARTS = 64;
/** Maximum length of a boundary in characters (RFC 2046). */
const MAX_BOUNDARY = 70;
/** Maximum number of white-space bytes between a boundary and the end of its line. */
const MAX_PADDING = 256;

export interface PartHead {
  readonly name: string;
  /** Null if the part is a field rather than a file. */
  readonly filename: string | null;
  /** Media type without parameters, in lower case; null if absent. */
  readonly mediaType: string | null;
}

export type MultipartEvent =
  | { readonly kind: 'part'; readonly head: PartHead }
  /** `bytes` is valid only until the next event. */
  | { readonly kind: 'data'; readonly bytes: Uint8Array }
  | { readonly kind: 'end' };

/** Returns the boundary in a Content-Type header. Throws ApiError 400 if it is not multipart/form-data. */
export function boundaryOf(contentType: string): string {
  const [type, ...parameters] = contentType.split(';');
  if ((type as string).trim().toLowerCase() !== 'multipart/form-data')
    throw apiError('unsupported_media_type', 'Content-Type must be multipart/form-data.', 'Content-Type');
  for (const parameter of parameters) {
    const found = /^\s*boundary=(?:"([^"]*)"|([^\s"]*))\s*$/i.exec(parameter);
    const boundary = found?.[1] ?? found?.[2] ?? '';
    if (boundary !== '' && boundary.length <= MAX_BOUNDARY && /^[\x20-\x7e]*[\x21-\x7e]$/.test(boundary))
      return boundary;
  }
  throw apiError('invalid_header', 'Content-Type must have a boundary of at most 70 characters.', 'Content-Type');
}

/** The result of one parsing step. `used` is the number of input bytes that were consumed. */
interface Step {
  event: MultipartEvent | null;
  isPartEnd?: boolean;
  used: number;
  needsMore?: boolean;
}

type State = 'preamble' | 'delimiter' | 'headers' | 'data' | 'epilogue';

const CRLF = Buffer.from('\r\n');
const BLANK_LINE = Buffer.from('\r\n\r\n');

export class MultipartParser {
  readonly #delimiter: Buffer;
  // The delimiter starts with a line break, but the first boundary may be at the start of the body, without one.
  #rest: Buffer = CRLF;
  #state: State = 'preamble';
  #parts = 0;

  constructor(boundary: string) {
    this.#delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
  }

  /** Whether the closing boundary has been read. */
  get isComplete(): boolean {
    return this.#state === 'epilogue';
  }

  /** Parses the next bytes of the body and yields the events. Throws ApiError 400 if the bytes are not valid. */
  *push(bytes: Uint8Array): Generator<MultipartEvent> {
    if (this.#state === 'epilogue') return;
    if (this.#state === 'data' && this.#rest.length > 0 && !this.#delimitsWithin(bytes)) {
      yield { kind: 'data', bytes: this.#rest };
      this.#rest = Buffer.alloc(0);
    }
    let rest: Buffer = this.#rest.length === 0 ? bufferOf(bytes) : Buffer.concat([this.#rest, bytes]);
    this.#rest = Buffer.alloc(0);
    for (;;) {
      const step = this.#step(rest);
      if (step.event !== null) yield step.event;
      if (step.isPartEnd) yield { kind: 'end' };
      rest = rest.subarray(step.used);
      if (step.needsMore) break;
    }
    this.#rest = Buffer.from(rest); // a copy, because `bytes` may be large and belong to the caller
  }

  /**
   * Whether a delimiter may start in the buffered bytes. If not, the buffered bytes need not be joined with
   * `bytes`.
   */
  #delimitsWithin(bytes: Uint8Array): boolean {
    const { length } = this.#delimiter;
    if (bytes.length < length) return true;
    const at = Buffer.concat([this.#rest, bytes.subarray(0, length)]).indexOf(this.#delimiter);
    return at !== -1 && at < this.#rest.length;
  }

  #step(rest: Buffer): Step {
    switch (this.#state) {
      case 'preamble':
      case 'data':
        return this.#contents(rest, this.#state === 'data');
      case 'delimiter':
        return this.#afterDelimiter(rest);
      case 'headers':
        return this.#headers(rest);
      case 'epilogue':
        return { event: null, used: rest.length, needsMore: true };
    }
  }

  #contents(rest: Buffer, isData: boolean): Step {
    const found = rest.indexOf(this.#delimiter);
    if (found !== -1) this.#state = 'delimiter';
    const end = found === -1 ? Math.max(0, rest.length - this.#delimiter.length + 1) : found;
    return {
      event: isData && end > 0 ? { kind: 'data', bytes: rest.subarray(0, end) } : null,
      isPartEnd: isData && found !== -1,
      used: found === -1 ? end : end + this.#delimiter.length,
      needsMore: found === -1,
    };
  }

  #afterDelimiter(rest: Buffer): Step {
    if (rest.length < 2) return { event: null, used: 0, needsMore: true };
    if (rest[0] === 0x2d && rest[1] === 0x2d) {
      this.#state = 'epilogue';
      return { event: null, used: rest.length, needsMore: true };
    }
    const end = rest.indexOf(CRLF);
    if ((end === -1 ? rest.length : end) > MAX_PADDING) throw malformed('a boundary is not followed by a line break');
    if (end === -1) return { event: null, used: 0, needsMore: true };
    if (!/^[ \t]*$/.test(rest.toString('latin1', 0, end)))
      throw malformed('a boundary is not followed by a line break');
    if (++this.#parts > MAX_PARTS) throw malformed(`it has more than ${MAX_PARTS} parts`);
    this.#state = 'headers';
    return { event: null, used: end }; // the line break is not consumed, so that even empty headers end with BLANK_LINE
  }

  #headers(rest: Buffer): Step {
    const end = rest.indexOf(BLANK_LINE);
    if ((end === -1 ? rest.length : end) > MAX_HEADER_BYTES)
      throw malformed(`a part's headers are larger than ${MAX_HEADER_BYTES} bytes`);
    if (end === -1) return { event: null, used: 0, needsMore: true };
    this.#state = 'data';
    return { event: { kind: 'part', head: headOf(rest.toString('utf8', 0, end)) }, used: end + BLANK_LINE.length };
  }
}

function headOf(text: string): PartHead {
  let name: string | null = null;
  let filename: string | null = null;
  let mediaType: string | null = null;
  for (const line of text.split('\r\n')) {
    const colon = line.indexOf(':');
    const value = line.slice(colon + 1).trim();
    switch (line.slice(0, Math.max(0, colon)).trim().toLowerCase()) {
      case 'content-disposition': {
        if (!/^form-data\s*(?:;|$)/i.test(value)) throw malformed('a Content-Disposition is not form-data');
        const parameters = parametersOf(value);
        name = parameterOf(parameters, 'name');
        filename = parameterOf(parameters, 'filename');
        break;
      }
      case 'content-type':
        mediaType = (value.split(';')[0] as string).trim().toLowerCase() || null;
        break;
      case 'content-transfer-encoding':
        if (!/^(?:binary|8bit|7bit)$/i.test(value))
          throw malformed(`Content-Transfer-Encoding ${JSON.stringify(value.slice(0, 64))} is not supported`);
        break;
    }
  }
  if (name === null) throw malformed('a part has no name in its Content-Disposition');
  return { name, filename, mediaType };
}

/** Returns the parameters of a Content-Disposition by lower-case name. Duplicates after the first are ignored. */
function parametersOf(value: string): Map<string, string> {
  const parameters = new Map<string, string>();
  const parameter = /;\s*([^\s=;"]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;"]*))\s*/gy;
  parameter.lastIndex = Math.max(0, value.indexOf(';'));
  for (let found = parameter.exec(value); found !== null; found = parameter.exec(value)) {
    const [, given = '', quoted, plain = ''] = found;
    const name = given.toLowerCase();
    if (!parameters.has(name)) parameters.set(name, quoted === undefined ? plain.trim() : unquoted(quoted));
  }
  return parameters;
}

/** Browsers and fetch() percent-encode quotation marks, CR and LF. Other clients escape with \" and \\. */
const unquoted = (text: string): string =>
  text
    .replace(/\\(["\\])/g, '$1')
    .replace(/%(22|0D|0A)/gi, (_, code: string) => String.fromCharCode(parseInt(code, 16)));

/** Returns a parameter, or null if it is absent. `name*=` (RFC 8187) takes precedence over `name=`. */
function parameterOf(parameters: ReadonlyMap<string, string>, name: string): string | null {
  const extended = /^utf-8'[^']*'([^\s;]+)$/i.exec(parameters.get(`${name}*`) ?? '')?.[1];
  if (extended === undefined) return parameters.get(name) ?? null;
  try {
    return decodeURIComponent(extended);
  } catch {
    throw malformed(`${name}* in a Content-Disposition is not valid`);
  }
}

const bufferOf = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

const malformed = (why: string): ApiError => apiError('invalid_body', `The multipart body is not valid: ${why}.`);
