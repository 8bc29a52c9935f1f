// What a fuzz target is: a function of any bytes at all that throws where something that must hold does not. The fuzzer
// (scripts/fuzz) and the tests (replay.test.ts) run the same one. See docs/internals/fuzzing.md.
import { ApiError } from '../../src/shared/errors.js';

export interface Target {
  /** To begin with, before there is a corpus. */
  readonly seeds: readonly (string | Uint8Array)[];
  run(input: Uint8Array): void | Promise<void>;
}

/** An error that is declared may leave a room; anything else is a find. */
type Declared = abstract new (...of: never[]) => Error;

const MAX_MESSAGE = 2_000;
/** What no client is told: this process's addresses, places in our sources, another's folders. (Templates have words of their own for calling what is no function and walking over what is no list.) */
const TELLS_TOO_MUCH =
  /0x7f[0-9a-f]{6}|node:internal|node_modules|file:\/\/|\.(?:ts|js|cc|h):\d+|Cannot read propert|(?<!something that )is not a function|(?<!' object )is not iterable|undefined \(reading/;

export function checkMessage(message: string): void {
  if (message === '' || message.length > MAX_MESSAGE) throw new Error(`an error of ${message.length} characters`);
  if (TELLS_TOO_MUCH.test(message)) throw new Error(`an error tells too much: ${message}`);
}

/** What `work` returns; null where it threw one of the errors that are declared. */
export function declared<T>(work: () => T, ...errors: readonly Declared[]): T | null {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof ApiError) && !errors.some((one) => error instanceof one)) throw error;
    checkMessage((error as Error).message);
    return null;
  }
}

export function insist(holds: boolean, what: string): void {
  if (!holds) throw new Error(`what must hold does not: ${what}`);
}

/** Numbers that follow from the input, for where pieces are cut. */
export function* drawn(from: number): Generator<number, never> {
  let state = from + 1;
  for (;;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state >>> 8;
  }
}

/** `text` in pieces of 1 to `most` characters. */
export function pieces<T extends { length: number; slice(from: number, to: number): T }>(
  text: T,
  seed: number,
  most = 9,
): T[] {
  const numbers = drawn(seed),
    cut: T[] = [];
  for (let at = 0; at < text.length; ) {
    const to = Math.min(text.length, at + 1 + (numbers.next().value % most));
    cut.push(text.slice(at, to));
    at = to;
  }
  return cut;
}
