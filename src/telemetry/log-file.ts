// A copy of the log in the data directory, for `monolith logs`: server.log and, after a rotation, server.log.1.
// Together they stay below a limit. Lines are queued and written by a libuv thread, so that a slow disk does not delay
// requests; lines that cannot be written are dropped. Main thread only.

import { closeSync, fstatSync, openSync, renameSync, write, writeSync } from 'node:fs';
import { join } from 'node:path';

/** Maximum number of bytes waiting to be written. */
const QUEUE_BYTES = 1_048_576;

export const logPath = (dataDir: string): string => join(dataDir, 'server.log');
export const rotatedLogPath = (dataDir: string): string => `${logPath(dataDir)}.1`;

/** Matches terminal colors, which are not written to the file. */
const COLOR = new RegExp(`${String.fromCharCode(27)}\\[[0-9;]*m`, 'g');

export class LogFile {
  /** Number of lines that were not written. */
  dropped = 0;
  #fd: number | null = null;
  #size = 0;
  #queue: Buffer[] = [];
  #queued = 0;
  #isWriting = false;
  #isOpen = false;

  /** `maxBytes`: maximum size of both files together. */
  constructor(
    private readonly dataDir: string,
    private readonly maxBytes: number,
  ) {}

  /** Starts writing. Before that, lines are only queued, because the data directory may belong to another server. */
  open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    process.on('exit', () => this.#flushAtExit());
    this.#writeNext();
  }

  /** `line` ends with a newline. */
  write(line: string): void {
    const bytes = Buffer.from(line.replace(COLOR, ''));
    if (this.#queued + bytes.length > QUEUE_BYTES) {
      this.dropped++;
      return;
    }
    this.#queue.push(bytes);
    this.#queued += bytes.length;
    this.#writeNext();
  }

  #writeNext(): void {
    if (!this.#isOpen || this.#isWriting || this.#queue.length === 0) return;
    const lines = this.#queue.length;
    const bytes = this.#take();
    const fd = this.#fileFor(bytes.length);
    if (fd === null) {
      this.dropped += lines;
      return;
    }
    this.#isWriting = true;
    write(fd, bytes, (error) => {
      this.#isWriting = false;
      if (error !== null) this.dropped += lines;
      this.#writeNext();
    });
  }

  #take(): Buffer {
    const bytes = Buffer.concat(this.#queue);
    this.#queue = [];
    this.#queued = 0;
    return bytes;
  }

  /** The open file, after a rotation if `bytes` would not fit; null if it cannot be opened. */
  #fileFor(bytes: number): number | null {
    try {
      if (this.#fd === null) this.#reopen();
      if (this.#size > 0 && this.#size + bytes > this.maxBytes / 2) {
        renameSync(logPath(this.dataDir), rotatedLogPath(this.dataDir));
        this.#reopen();
      }
    } catch {
      // The disk is full or the directory no longer exists. The next line triggers another attempt.
      return null;
    }
    this.#size += bytes;
    return this.#fd;
  }

  #reopen(): void {
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
    const fd = openSync(logPath(this.dataDir), 'a', 0o600);
    this.#fd = fd;
    this.#size = fstatSync(fd).size;
  }

  /** Writes the queued lines when the process exits. The event loop is no longer running then. */
  #flushAtExit(): void {
    if (this.#queue.length === 0) return;
    const bytes = this.#take();
    const fd = this.#fileFor(bytes.length);
    if (fd === null) return;
    try {
      writeSync(fd, bytes);
    } catch {
      // the disk is full
    }
  }
}
