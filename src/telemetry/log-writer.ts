// Writes log lines to standard error without blocking the event loop. If the reader is too slow or does not read at
// all, log lines are lost but requests are not delayed: at most BUFFER_BYTES are queued, and any further lines are
// dropped and counted.
//
// pino.destination({ sync: false }) is not used because its flushSync() skips the chunk that is waiting for a retry, so
// a full pipe would lose accepted lines at exit. Main thread only: HTTP workers send their lines to the main thread.

import { constants, fstatSync, openSync, writeSync, writev } from 'node:fs';
import { isatty } from 'node:tty';

/** Maximum number of bytes waiting to be written. */
export const BUFFER_BYTES = 1_048_576;
/** Maximum number of lines per system call; Linux allows 1,024. */
const BATCH_LINES = 512;
/** Pause before another attempt while the pipe is full. */
const RETRY_MS = 20;
/** Maximum time to wait at process exit for a pipe that is not being read. */
const FLUSH_MS = 1_000;

export class LogWriter {
  /** Number of lines that were not written because the buffer was full or writing failed. */
  dropped = 0;
  /** Also receives every line. */
  copy: ((line: string) => void) | null = null;
  readonly #open: () => number;
  readonly #sleeper = new Int32Array(new SharedArrayBuffer(4));
  #fd: number | null = null;
  /**
   * Lines that have not been written completely, oldest first. The first entry may be only the remainder of its line.
   */
  #lines: Buffer[] = [];
  #bytes = 0;
  /** Number of lines at the start of the queue that a libuv thread is currently writing. */
  #inFlight = 0;
  #retry: NodeJS.Timeout | null = null;
  readonly #waiting = new Set<() => void>();
  #gaveUp = false;

  /** `open` returns the file descriptor. It is called before the first line is written. */
  constructor(open: () => number) {
    this.#open = open;
  }

  /** `line` ends with a newline. */
  write(line: string): void {
    this.copy?.(line);
    const bytes = Buffer.from(line);
    if (this.#bytes + bytes.length > BUFFER_BYTES) {
      this.dropped++;
      return;
    }
    if (this.#fd === null) {
      this.#fd = this.#open();
      process.on('exit', () => this.#flushAtExit());
    }
    this.#lines.push(bytes);
    this.#bytes += bytes.length;
    this.#writeNext();
  }

  /**
   * Resolves when all lines have been written, or after a second if the reader does not read. Must be called before
   * process.exit().
   */
  async flush(): Promise<void> {
    if (this.#lines.length === 0) return;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(end);
        resolve();
      };
      const timer = setTimeout(() => {
        this.#gaveUp = true;
        end();
      }, FLUSH_MS);
      this.#waiting.add(end);
    });
  }

  #writeNext(): void {
    if (this.#inFlight > 0 || this.#retry !== null || this.#fd === null) return;
    if (this.#lines.length === 0) {
      for (const end of [...this.#waiting]) end();
      return;
    }
    const batch = this.#lines.slice(0, BATCH_LINES);
    this.#inFlight = batch.length;
    writev(this.#fd, batch, (error, written) => {
      this.#inFlight = 0;
      if (error === null) this.#remove(written);
      else if (error.code === 'EAGAIN') {
        // The timer does not keep the process alive; flush() and the exit handler wait for a limited time.
        this.#retry = setTimeout(() => {
          this.#retry = null;
          this.#writeNext();
        }, RETRY_MS).unref();
      } else {
        // The reader has closed the pipe, or the disk is full. Later lines are attempted again.
        this.dropped += this.#lines.length;
        this.#lines = [];
        this.#bytes = 0;
      }
      this.#writeNext();
    });
  }

  #remove(written: number): void {
    this.#bytes -= written;
    let left = written;
    let count = 0;
    for (let line = this.#lines[0]; line !== undefined && line.length <= left; line = this.#lines[count]) {
      left -= line.length;
      count++;
    }
    this.#lines.splice(0, count);
    if (left > 0) this.#lines[0] = (this.#lines[0] as Buffer).subarray(left);
  }

  /** Writes the remaining lines, for at most a second. The event loop is no longer running. */
  #flushAtExit(): void {
    if (this.#lines.length === 0 || this.#fd === null) return;
    const pause = (): unknown => Atomics.wait(this.#sleeper, 0, 0, RETRY_MS);
    if (this.#inFlight > 0) pause(); // keeps the order, because another thread is writing these lines
    let bytes = Buffer.concat(this.#lines.slice(this.#inFlight));
    const end = performance.now() + (this.#gaveUp ? 0 : FLUSH_MS);
    while (bytes.length > 0) {
      try {
        bytes = bytes.subarray(writeSync(this.#fd, bytes));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || performance.now() >= end) return;
        pause();
      }
    }
  }
}

/**
 * A file descriptor for standard error on which writes fail with EAGAIN instead of blocking. A blocking write would
 * occupy a libuv thread, and the process could not exit. Writes to files still block for as long as the disk takes.
 */
function openStderr(): number {
  if (isatty(2) || fstatSync(2).isFIFO()) {
    try {
      // The inherited open file is not used, because other processes share its flags, and starting a process may reset
      // them.
      return openSync('/proc/self/fd/2', constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    } catch {
      // The pipe belongs to another user, or there is no /proc.
    }
  }
  void process.stderr; // makes pipes and sockets non-blocking
  return 2;
}

export const stderrLog = new LogWriter(openStderr);
