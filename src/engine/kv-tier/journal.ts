// An append-only list of JSON values in a file, rewritten when it is opened. Each line has a checksum; reading stops at
// the first line that is incomplete or damaged, because an append was interrupted there.
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { PageFile, PageFiles } from './page-files.js';

const NAME = /^index-(\d+)\.journal$/;
/** The line that ends a rewritten journal. A file without it was not completed and is ignored. */
const COMPLETE = 'complete';

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

export class Journal {
  #file: PageFile | null = null;
  #number = 0;
  #end = 0;
  /** Bytes that may be damaged by a failed append are overwritten by the next one. */

  constructor(
    private readonly folder: string,
    private readonly files: PageFiles,
  ) {}

  /** Bytes of the file. */
  get bytes(): number {
    return this.#end;
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
        const bytes = Buffer.alloc(await file.size());
        const text = bytes.subarray(0, await file.read(bytes, 0)).toString('utf8');
        const entries: JournalEntry[] = [];
        let complete = false;
        for (const line of text.split('\n').slice(0, -1)) {
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

  /** Replaces the journal by these entries. */
  async rewrite(entries: Iterable<JournalEntry>): Promise<void> {
    const before = this.#file;
    const number = ++this.#number;
    const file = await this.files.open(this.#path(number));
    await file.truncate(0);
    this.#file = file;
    this.#end = 0;
    let text = '';
    for (const entry of entries) {
      text += lineOf(entry);
      if (text.length > 1 << 20) {
        await this.#write(text);
        text = '';
      }
    }
    await this.#write(text + lineOf(COMPLETE));
    await file.sync();
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
