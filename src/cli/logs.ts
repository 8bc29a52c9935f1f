// monolith logs: shows and follows the log that a server keeps in its data directory.

import { closeSync, existsSync, fstatSync, openSync, readFileSync, readSync, statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { noWords, UsageError } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';
import { logPath, rotatedLogPath } from '../telemetry/log-file.js';
import { commandConfig } from './command-config.js';
import { commandName } from './command-name.js';
import { askedForHelp } from './output.js';

const HELP = `
Usage: monolith logs [-f|--follow] [-n|--lines N] [--data-dir PATH]

Shows the last lines of the log of the server that uses the data directory, or of its last run. The log contains no
prompts, responses or keys. The server keeps up to 16 MiB (--log-file-bytes; 0 = no log file).

  -f, --follow     wait for new lines until Ctrl-C
  -n, --lines N    number of lines to show first (default 100; 0 = none)

Examples:
  monolith logs
  monolith logs -f -n 20
  monolith logs -n 10000 | grep ' warn '
`;

export const FLAGS: OwnFlags = { '--follow': 'switch', '-f': 'switch', '--lines': 'value', '-n': 'value' };

const DEFAULT_LINES = 100;
const LOOK_MS = 200;
const READ_BYTES = 65_536;

export async function logs(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const { config, values, words } = commandConfig(argv, FLAGS);
  noWords(words);
  const count = linesOf(values.get('--lines') ?? values.get('-n'));
  const { data_dir: folder } = config;
  const follows = values.has('--follow') || values.has('-f');
  if (!existsSync(logPath(folder)) && !existsSync(rotatedLogPath(folder)) && !follows) {
    process.stderr.write(
      `monolith: there is no log in ${folder}; "${commandName()} serve" writes one unless --log-file-bytes is 0\n`,
    );
    return 1;
  }
  const follower = new LogFollower(folder, (bytes) => process.stdout.write(bytes));
  const isOpen = openOutput();
  process.stdout.write(lastLines(folder, count, follower.position));
  while (follows && isOpen()) {
    follower.step();
    await sleep(LOOK_MS);
  }
  return 0;
}

/** Whether the reader of a pipe, such as `head`, is still reading. */
function openOutput(): () => boolean {
  let isOpen = true;
  process.stdout.once('error', () => {
    isOpen = false;
  });
  return () => isOpen;
}

function linesOf(text: string | undefined): number {
  if (text === undefined) return DEFAULT_LINES;
  if (!/^\d{1,9}$/.test(text)) throw new UsageError(`logs: --lines takes a number of lines, not "${text}"`);
  return Number(text);
}

/** The last `count` lines of both files. `end`: where to stop in the current file. */
export function lastLines(folder: string, count: number, end = Infinity): string {
  if (count === 0) return '';
  const read = (path: string): Buffer => (existsSync(path) ? readFileSync(path) : Buffer.alloc(0));
  const text = Buffer.concat([read(rotatedLogPath(folder)), read(logPath(folder)).subarray(0, end)]).toString();
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines
    .slice(-count)
    .map((line) => `${line}\n`)
    .join('');
}

/** Prints the lines that are appended to the log, across rotations and restarts of the server. */
export class LogFollower {
  #fd: number | null = null;
  #at = 0;

  /** Starts at the end of the current file. */
  constructor(
    private readonly folder: string,
    private readonly write: (bytes: Buffer) => unknown,
  ) {
    this.#open();
    if (this.#fd !== null) this.#at = fstatSync(this.#fd).size;
  }

  get position(): number {
    return this.#at;
  }

  /** Prints the bytes that were appended since the last call. */
  step(): void {
    this.#copy();
    if (!this.#isReplaced()) return;
    // After a rotation, the open file is no longer written, so the new file is read from its start.
    this.#copy();
    if (this.#fd !== null) closeSync(this.#fd);
    this.#open();
    this.#copy();
  }

  #open(): void {
    this.#at = 0;
    try {
      this.#fd = openSync(logPath(this.folder), 'r');
    } catch (error) {
      this.#fd = null; // the server has not written anything yet
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }

  #isReplaced(): boolean {
    const there = statSync(logPath(this.folder), { throwIfNoEntry: false });
    return there !== undefined && (this.#fd === null || fstatSync(this.#fd).ino !== there.ino);
  }

  #copy(): void {
    if (this.#fd === null) return;
    // The file has been emptied.
    if (fstatSync(this.#fd).size < this.#at) this.#at = 0;
    for (;;) {
      const buffer = Buffer.alloc(READ_BYTES);
      const count = readSync(this.#fd, buffer, 0, READ_BYTES, this.#at);
      if (count === 0) return;
      this.#at += count;
      this.write(buffer.subarray(0, count));
    }
  }
}
