// An append-only list of JSON values in a file, rewritten when it is opened. Each line has a checksum; reading stops at
// the first incomplete or damaged line, because an append was interrupted there. The file is also rewritten when it has
// grown much larger than its content.
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { PageFile, PageFiles } from './page-files.js';

const NAME = /^index-(\d+)\.journal$/;
/** The last line of a rewritten journal. A file without this line is incomplete and is ignored. */
const COMPLETE = 'complete';
const CHUNK_BYTES = 1 << 20;
/** The journal may grow to this many times its size after the last rewrite, plus SLACK_BYTES. */
const GROWTH = 4;
const SLACK_BYTES = 16 * 1024 ** 2;

export type JournalEntry = readonly (string | number)[];

const lineOf = (entry: JournalEntry | typeof COMPLETE): string => {
  const json = JSON.stringify(entry);
  return `${crc32(json).toString(16).padStart(8, '0')} ${json}\n`;
};

function valueOf(line: string): unknown {
  const json = line.slice(9);
  if (line[8] !== ' ' || crc32(json).toString(16).padStart(8, '0') !== line.slice(0, 8)) return undefined;
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

/** The complete lines of a file. */
async function* linesOf(file: PageFile): AsyncGenerator<string> {
  const chunk = Buffer.alloc(CHUNK_BYTES);
  let rest = Buffer.alloc(0);
  for (let at = 0; ; ) {
    const count = await file.read(chunk, at);
    if (count === 0) return;
    at += count;
    const bytes = Buffer.concat([rest, chunk.subarray(0, count)]);
    let from = 0;
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, from)) {
      yield bytes.toString('utf8', from, end);
      from = end + 1;
    }
    rest = bytes.subarray(from);
    if (rest.length > CHUNK_BYTES) return; // no line is that long
  }
}

export class Journal {
  #file: PageFile | null = null;
  #number = 0;
  #end = 0;
  #maxBytes = Infinity;
  /** If an append fails, the next one overwrites the bytes that it may have left behind. */

  constructor(
    private readonly folder: string,
    private readonly files: PageFiles,
    private readonly slackBytes = SLACK_BYTES,
  ) {}

  /** Bytes of the file. */
  get bytes(): number {
    return this.#end;
  }
  /** Whether the journal should be rewritten. */
  get isLarge(): boolean {
    return this.#end > this.#maxBytes;
  }

  /** Returns the entries of the newest complete journal. Rejects with the file system's error. */
  async read(): Promise<JournalEntry[]> {
    const numbers = (await this.files.list(this.folder))
      .flatMap((name) => NAME.exec(name)?.[1] ?? [])
      .map(Number)
      .sort((a, b) => b - a);
    this.#number = numbers[0] ?? 0;
    for (const number of numbers) {
      const file = await this.files.open(this.#path(number));
      try {
        const entries: JournalEntry[] = [];
        let complete = false;
        for await (const line of linesOf(file)) {
          const value = valueOf(line);
          if (value === COMPLETE) complete = true;
          else if (Array.isArray(value)) entries.push(value as JournalEntry);
          else break;
        }
        if (complete) return entries;
      } finally {
        await file.close();
      }
    }
    return [];
  }

  /** Replaces the journal with these entries. If this fails, the journal is unchanged. */
  async rewrite(entries: Iterable<JournalEntry>): Promise<void> {
    const before = this.#file;
    const number = ++this.#number;
    this.#maxBytes = 2 * this.#end + this.slackBytes; // if this fails, the next attempt is later
    const file = await this.files.open(this.#path(number));
    let end = 0;
    const write = async (text: string): Promise<void> => {
      const bytes = Buffer.from(text);
      await file.write(bytes, end);
      end += bytes.length;
    };
    try {
      await file.truncate(0);
      let text = '';
      for (const entry of entries) {
        text += lineOf(entry);
        if (text.length > CHUNK_BYTES) {
          await write(text);
          text = '';
        }
      }
      await write(text + lineOf(COMPLETE));
      await file.sync();
    } catch (error) {
      await file.close().catch(() => undefined);
      // The new file is removed. If it were complete but not synced, it would hide entries that are later appended to
      // the current file.
      await this.files.remove(this.#path(number));
      throw error;
    }
    this.#file = file;
    this.#end = end;
    this.#maxBytes = GROWTH * end + this.slackBytes;
    await before?.close();
    for (const name of await this.files.list(this.folder)) {
      const found = Number(NAME.exec(name)?.[1] ?? number);
      if (found !== number) await this.files.remove(join(this.folder, name));
    }
  }

  /** Resolves when the entries are durable. */
  async append(entries: readonly JournalEntry[]): Promise<void> {
    if (entries.length === 0) return;
    await this.#write(entries.map(lineOf).join(''));
    await this.#file!.sync();
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = null;
  }

  #path(number: number): string {
    return join(this.folder, `index-${number}.journal`);
  }

  async #write(text: string): Promise<void> {
    if (this.#file === null) throw new Error('the journal is closed');
    const bytes = Buffer.from(text);
    await this.#file.write(bytes, this.#end); // After a failure, the next append overwrites what was written.
    this.#end += bytes.length;
  }
}
