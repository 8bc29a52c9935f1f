// A fuzz target is a function that accepts any bytes and throws if an invariant is violated. The fuzzer (scripts/fuzz)
// and the tests (replay.test.ts) run the same targets. See docs/internals/fuzzing.md.
import { ApiError } from '../../src/shared/errors.js';

export interface Target {
  /** Initial inputs, used before a corpus exists. */
  readonly seeds: readonly (string | Uint8Array)[];
  run(input: Uint8Array): void | Promise<void>;
}

/** The declared errors that the code under test may throw; any other error is a finding. */
type Declared = abstract new (...of: never[]) => Error;

const MAX_MESSAGE = 2_000;
/**
 * Matches text that no client may see: addresses in this process, source locations, and directories on the host.
 * Templates have their own messages for calling a value that is not a function and for iterating over a value that is
 * not a list.
 */
const TELLS_TOO_MUCH =
  /0x7f[0-9a-f]{6}|node:internal|node_modules|file:\/\/|\.(?:ts|js|cc|h):\d+|Cannot read propert|(?<!something that )is not a function|(?<!' object )is not iterable|undefined \(reading/;

export function checkMessage(message: string): void {
  if (message === '' || message.length > MAX_MESSAGE) throw new Error(`an error of ${message.length} characters`);
  if (TELLS_TOO_MUCH.test(message)) throw new Error(`an error message discloses internals: ${message}`);
}

/** Returns the result of `work`, or null if it threw a declared error. */
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
  if (!holds) throw new Error(`invariant violated: ${what}`);
}

/** Pseudo-random numbers derived from the input. They determine where the input is split. */
export function* drawn(from: number): Generator<number, never> {
  let state = from + 1;
  for (;;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state >>> 8;
  }
}

/** Splits `text` into pieces of 1 to `most` characters. */
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
