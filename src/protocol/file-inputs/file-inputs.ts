// Replaces the files in requests with their contents: text and PDF files with their text, images with base64 data. This
// runs before the replaced parts are validated, so the rest of the server handles only text and images. Event-loop
// thread only.

import { apiError } from '../../shared/errors.js';
import type { ApiError } from '../../shared/errors.js';
import { mediaTypeOfName } from '../../shared/media-types.js';
import { fileNotFound } from '../../storage/file-store.js';
import type { FileStore, StoredFile } from '../../storage/file-store.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { tooMuchToRead } from '../../http/request-memory-budget.js';
import type { Reading, RequestMemoryBudget } from '../../http/request-memory-budget.js';
import { filePartsOf } from './parts.js';
import type { FileContents, FileFormat, FilePart } from './parts.js';
import { PdfReader } from './pdf/pdf-reader.js';
import type { PdfRequest } from './pdf/pdf-reader.js';

/** Maximum number of files per request. */
const MAX_FILES = 100;
/** Maximum total size of a request's files, in bytes. The organization's share of request memory also applies. */
const MAX_BYTES = 64 * 1024 ** 2;

const PDF = 'application/pdf';
const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
/** Media types, in addition to text/*, that are read as text. */
const TEXTS = [
  'application/json',
  'application/jsonl',
  'application/x-ndjson',
  'application/xml',
  'application/yaml',
  'application/x-yaml',
  'application/toml',
  'application/javascript',
  'application/x-javascript',
  'application/typescript',
  'application/x-sh',
  'application/sql',
];

/** The members of Exchange that are needed to read the files of a request. */
export type FileReader = Pick<Exchange, 'aborted' | 'charged' | 'enqueue' | 'onAborted'> & {
  readonly identity: { readonly organizationId: string };
};

interface LoadedFile {
  readonly bytes: Uint8Array;
  readonly mediaType: string;
  readonly filename: string;
}

export class FileInputs {
  readonly #reserved = new WeakMap<FileReader, Reading>();
  readonly #pdfs = new PdfReader();
  readonly #maxBytes: number;

  /** `memory` is the budget for request bodies. Files in requests also count toward this budget. */
  constructor(
    private readonly files: FileStore,
    private readonly memory: RequestMemoryBudget,
  ) {
    this.#maxBytes = Math.min(MAX_BYTES, memory.share);
  }

  /**
   * Replaces the files in `body`. Returns null if there are none. Otherwise, resolves to their total size in bytes,
   * including the text of PDF files, which stays reserved until release() or until the client disconnects. Rejects with
   * ApiError 404 file_not_found, 413 file_too_large, 422 unsupported_content or invalid_value, 429 if the
   * organization's budget is used up, or 503 if too much request data is in memory. May never settle if the client
   * disconnects.
   */
  expand(format: FileFormat, body: unknown, reader: FileReader): Promise<number> | null {
    const parts = filePartsOf(format, body);
    if (parts.length === 0) return null;
    return this.#expand(parts, reader);
  }

  /** Frees the memory reserved by expand(). Must be called when the body is no longer needed. */
  release(reader: FileReader): void {
    this.#reserved.get(reader)?.release();
    this.#reserved.delete(reader);
  }

  async #expand(parts: readonly FilePart[], reader: FileReader): Promise<number> {
    const excess = parts[MAX_FILES];
    if (excess !== undefined)
      throw apiError('invalid_value', `${excess.path}: a request may have at most ${MAX_FILES} files.`, excess.path);
    const reserved = this.memory.open(reader.identity.organizationId);
    this.#reserved.set(reader, reserved);
    const left = new AbortController();
    const used = { ms: 0 };
    reader.onAborted(() => {
      this.release(reader);
      left.abort();
    });
    let total = 0;
    const spend = (bytes: number, path: string): void => {
      total += bytes;
      if (total > this.#maxBytes)
        throw apiError(
          'file_too_large',
          `${path}: a request's files may have at most ${this.#maxBytes} bytes in total.`,
          path,
        );
      if (!reserved.add(bytes)) throw tooMuchToRead();
    };
    try {
      // Files are loaded one at a time, so that the limit is checked before the next file is loaded.
      for (const part of parts) {
        const file = await this.#load(part, reader, spend);
        if (reader.aborted) break;
        if (file.mediaType === PDF) {
          const text = await this.#pdfText(file.bytes, {
            organization: reader.identity.organizationId,
            path: part.path,
            signal: left.signal,
            used,
          });
          spend(text.length * BYTES_PER_CHARACTER, part.path);
          part.replace({ kind: 'text', text, filename: file.filename });
        } else part.replace(reader.charged(file.bytes.length, () => contentsOf(part, file)));
      }
    } catch (error) {
      this.release(reader);
      if (!reader.aborted) throw error;
    }
    if (reader.aborted) this.release(reader);
    return total;
  }

  async #load(part: FilePart, reader: FileReader, spend: (bytes: number, path: string) => void): Promise<LoadedFile> {
    const { origin, path } = part;
    if (origin.kind === 'data') {
      const { data, mediaType } = dataOf(origin.data);
      const filename = part.filename ?? 'unnamed';
      spend(Math.floor((data.length / 4) * 3), path);
      const bytes = reader.charged(data.length, () => decoded(data, path));
      const stated = origin.mediaType ?? mediaType ?? mediaTypeOfName(filename);
      const file = { bytes, filename, mediaType: stated ?? (isPdf(bytes) ? PDF : UNKNOWN) };
      ensureReadable(part, file.mediaType);
      return file;
    }
    const { organizationId } = reader.identity;
    const file = await this.files.get(organizationId, origin.id);
    if (file === null) throw fileNotFound(origin.id, path);
    ensureReadable(part, file.mediaType);
    const bytes = await reader.enqueue(file.bytes, () => this.#read(file, reader, () => spend(file.bytes, path)));
    return { bytes, mediaType: file.mediaType, filename: part.filename ?? file.filename };
  }

  /** Returns the text of a PDF file, in which each page is preceded by a line with its page number. */
  async #pdfText(bytes: Uint8Array, request: PdfRequest): Promise<string> {
    const pages = await this.#pdfs.read(bytes, request);
    return pages.map((text, index) => `--- Page ${index + 1} ---\n${text.trimEnd()}`).join('\n\n');
  }

  /** Reads a stored file. `reserve` is called before memory is allocated; it throws if the limit is exceeded. */
  async #read(
    { id, organizationId, bytes: size }: StoredFile,
    reader: FileReader,
    reserve: () => void,
  ): Promise<Buffer> {
    reserve();
    const bytes = Buffer.allocUnsafeSlow(size);
    let at = 0;
    for await (const piece of this.files.read(organizationId, id)) {
      if (reader.aborted) break;
      reader.charged(piece.length, () => bytes.set(piece, at));
      at += piece.length;
    }
    return bytes;
  }
}

const UNKNOWN = 'application/octet-stream';
/** Maximum memory per character of a string, in bytes. */
const BYTES_PER_CHARACTER = 2;

const isPdf = (bytes: Buffer): boolean => bytes.subarray(0, 5).toString('latin1') === '%PDF-';

/**
 * Returns a copy of the route that replaces the files in requests before its handler runs. Requests without files are
 * not delayed. If the API key may not use the route, no file is looked up.
 */
export const withFileInputs = (route: Route, format: FileFormat, inputs: FileInputs): Route => ({
  ...route,
  preHandler: (exchange: Exchange) =>
    route.scope === null || !exchange.identity.scopes.includes(route.scope)
      ? null
      : inputs.expand(format, exchange.body, exchange),
  handler(exchange: Exchange) {
    try {
      return route.handler(exchange);
    } finally {
      inputs.release(exchange);
    }
  },
});

/** Splits a data: URL into media type and base64 data. Any other text is treated as base64 data. */
function dataOf(text: string): { data: string; mediaType: string | null } {
  const found = /^data:([^;,]{0,128})(?:;[^,;]{0,128}){0,8};base64,/i.exec(text);
  return found === null
    ? { data: text, mediaType: null }
    : { data: text.slice(found[0].length), mediaType: (found[1] as string).toLowerCase() || null };
}

/** Decodes base64. Buffer.from() skips invalid characters, so they are detected by the length of its result. */
function decoded(data: string, path: string): Buffer {
  const bytes = Buffer.from(data, 'base64');
  const padding = data.endsWith('==') ? 2 : data.endsWith('=') ? 1 : 0;
  if (bytes.length === 0 || bytes.length !== (data.length / 4) * 3 - padding)
    throw apiError('invalid_value', `${path}: the file is not valid base64.`, path);
  return bytes;
}

const isText = (mediaType: string): boolean =>
  mediaType.startsWith('text/') || mediaType === PDF || TEXTS.includes(mediaType);

/** Throws ApiError 422 if the part cannot have a file of this type. */
function ensureReadable({ path, takes }: FilePart, mediaType: string): void {
  const isAllowed = (takes !== 'image' && isText(mediaType)) || (takes !== 'text' && IMAGES.includes(mediaType));
  if (!isAllowed) throw unsupported(path, takes, mediaType);
}

/** Returns the contents of a file that is not a PDF file. */
function contentsOf(part: FilePart, { bytes, mediaType, filename }: LoadedFile): FileContents {
  if (IMAGES.includes(mediaType))
    return {
      kind: 'image',
      mediaType,
      data: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64'),
    };
  try {
    return { kind: 'text', text: new TextDecoder('utf-8', { fatal: true }).decode(bytes), filename };
  } catch {
    throw apiError('invalid_value', `${part.path}: the text file is not valid UTF-8.`, part.path);
  }
}

function unsupported(path: string, takes: FilePart['takes'], mediaType: string): ApiError {
  const supported = {
    image: 'images (PNG, JPEG, GIF, WebP)',
    text: 'text and PDF files',
    both: 'text files, PDF files and images',
  }[takes];
  return apiError(
    'unsupported_content',
    `${path}: files of type ${mediaType.slice(0, 128)} are not supported; this part takes ${supported}.`,
    path,
  );
}
