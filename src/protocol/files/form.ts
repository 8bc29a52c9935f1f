// Reads a multipart form with one file and some short fields. The file is written to the store as it arrives. Fields
// may follow the file, so callers can check them only after the whole form has been read. Event-loop thread only.

import { apiError } from '../../shared/errors.js';
import type { ApiError } from '../../shared/errors.js';
import type { Exchange } from '../../http/exchange.js';
import { boundaryOf, MultipartParser } from '../../http/multipart.js';
import type { MultipartEvent, PartHead } from '../../http/multipart.js';
import type { ContentWriter } from '../../storage/file-store.js';

/** Maximum total size of the fields of a form, without the file, in bytes. */
const MAX_FIELD_BYTES = 65_536;

export interface Form {
  readonly file: PartHead;
  /** Size of the file in bytes. */
  readonly bytes: number;
  readonly fields: ReadonlyMap<string, string>;
}

/**
 * Reads the form and writes the file in its field `name` to `writer`. Resolves when the form is complete; the caller
 * must then call finish() or discard() of `writer`. If this rejects, the file has been discarded.
 */
export async function readForm(
  exchange: Exchange,
  name: string,
  writer: Pick<ContentWriter<never, unknown>, 'bytes' | 'write' | 'discard'>,
): Promise<Form> {
  const reader = new FormReader(name, writer);
  try {
    const encoding = exchange.header('content-encoding').trim().toLowerCase();
    if (encoding !== '' && encoding !== 'identity')
      throw apiError('unsupported_media_type', 'Content-Encoding must be identity for file uploads.');
    const parser = new MultipartParser(boundaryOf(exchange.header('content-type')));
    for await (const bytes of exchange.bodyStream ?? []) {
      // The parser stops after each event, because storing the event's data is asynchronous.
      const events = parser.push(bytes);
      for (;;) {
        const next = exchange.charged(bytes.length, () => events.next());
        if (next.done === true) break;
        await reader.take(next.value);
      }
    }
    if (!parser.isComplete) throw apiError('invalid_body', 'The multipart body ends before its closing boundary.');
    return reader.form();
  } catch (error) {
    await writer.discard().catch(() => undefined); // if this fails, a later sweep erases the file
    throw error;
  }
}

class FormReader {
  readonly #fields = new Map<string, string>();
  #fieldBytes = 0;
  #part: { readonly head: PartHead; readonly pieces: Buffer[] } | null = null;
  #file: PartHead | null = null;

  constructor(
    private readonly name: string,
    private readonly writer: Pick<ContentWriter<never, unknown>, 'bytes' | 'write'>,
  ) {}

  async take(event: MultipartEvent): Promise<void> {
    switch (event.kind) {
      case 'part':
        this.#part = { head: event.head, pieces: [] };
        if (event.head.name === this.name) this.#beginFile(event.head);
        else if (event.head.filename !== null) throw unexpectedFile(event.head.name, this.name);
        return;
      case 'data':
        if (this.#part?.head === this.#file) await this.writer.write(event.bytes);
        else this.#addToField(event.bytes);
        return;
      case 'end':
        this.#endPart();
    }
  }

  form(): Form {
    if (this.#file === null) throw apiError('missing_required_parameter', `${this.name} is required.`, this.name);
    return { file: this.#file, bytes: this.writer.bytes, fields: this.#fields };
  }

  #beginFile(head: PartHead): void {
    if (head.filename === null)
      throw apiError('invalid_type', `${this.name} must be a file, with a filename.`, this.name);
    if (this.#file !== null) throw apiError('invalid_value', `The form has more than one ${this.name}.`, this.name);
    this.#file = head;
  }

  #addToField(bytes: Uint8Array): void {
    this.#fieldBytes += bytes.length;
    if (this.#fieldBytes > MAX_FIELD_BYTES)
      throw apiError('request_too_large', `The fields of the form are larger than ${MAX_FIELD_BYTES} bytes.`);
    this.#part?.pieces.push(Buffer.from(bytes));
  }

  #endPart(): void {
    const part = this.#part;
    this.#part = null;
    if (part === null || part.head === this.#file) return;
    const { name } = part.head;
    if (this.#fields.has(name))
      throw apiError('invalid_value', `The form has more than one field ${shown(name)}.`, name.slice(0, 64));
    this.#fields.set(name, Buffer.concat(part.pieces).toString('utf8'));
  }
}

const shown = (name: string): string => JSON.stringify(name.slice(0, 64));

const unexpectedFile = (name: string, expected: string): ApiError =>
  apiError('invalid_value', `The file must be in the field ${expected}, not in ${shown(name)}.`, expected);
