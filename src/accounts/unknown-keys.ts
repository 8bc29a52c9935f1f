// Number of unknown API keys that each address sent in the last minute, counted across all threads of a process in
// shared memory. An entry is a 64-bit word that is changed by compare-and-swap, so threads never wait:
//
//   32 bits of the address's hash | 24 bits: second in which its minute began | 8 bits: count
//
// Addresses with the same set index share a set of WAYS entries. If all of them are in use, the entry with the lowest
// count is replaced.

import { hash } from 'node:crypto';
import { addressGroup } from './attempts.js';

export const MAX_UNKNOWN_KEYS = 30;
const WINDOW_S = 60;
const SETS = 8_192;
const WAYS = 8;
const SECONDS = 1 << 24;

export const UNKNOWN_KEY_BYTES = SETS * WAYS * BigInt64Array.BYTES_PER_ELEMENT;

/** Uses one time origin for the whole process, because performance.now() starts at a different time on each thread. */
const elapsedS = (): number => Number(process.hrtime.bigint() / 1_000_000_000n);

export class UnknownKeys {
  readonly #words: BigUint64Array;

  /**
   * `buffer`: UNKNOWN_KEY_BYTES bytes, initially zero, shared by all threads. `seed`: the same on all threads, unknown
   * to clients. `now`: monotonic seconds.
   */
  constructor(
    buffer: SharedArrayBuffer,
    private readonly seed: string,
    private readonly now: () => number = elapsedS,
  ) {
    this.#words = new BigUint64Array(buffer);
  }

  /**
   * Counts one key for this address. Returns 0 or, if the address is at its limit, the wait in milliseconds; in that
   * case, nothing is counted.
   */
  take(address: string): number {
    const place = this.#slotOf(address);
    for (;;) {
      const now = this.now() % SECONDS;
      const index = this.#find(place, now);
      const at = index ?? this.#room(place, now);
      const before = Atomics.load(this.#words, at);
      if (index !== null && !isOf(before, place, now)) continue; // another thread has just replaced the entry
      const { began, count } = index === null ? { began: now, count: 0 } : entryOf(before);
      if (count >= MAX_UNKNOWN_KEYS) return waitMs(began, now);
      if (Atomics.compareExchange(this.#words, at, before, wordOf(place.tag, began, count + 1)) === before) return 0;
    }
  }

  /** The wait in milliseconds if the address is at its limit, otherwise 0. */
  wait(address: string): number {
    const place = this.#slotOf(address);
    const now = this.now() % SECONDS;
    const index = this.#find(place, now);
    if (index === null) return 0;
    const { began, count } = entryOf(Atomics.load(this.#words, index));
    return count >= MAX_UNKNOWN_KEYS ? waitMs(began, now) : 0;
  }

  /** Reverts one call to take() if the key turned out to be known or could not be looked up. */
  giveBack(address: string): void {
    const place = this.#slotOf(address);
    for (;;) {
      const now = this.now() % SECONDS;
      const index = this.#find(place, now);
      if (index === null) return;
      const before = Atomics.load(this.#words, index);
      if (!isOf(before, place, now)) continue;
      const { began, count } = entryOf(before);
      if (
        count === 0 ||
        Atomics.compareExchange(this.#words, index, before, wordOf(place.tag, began, count - 1)) === before
      )
        return;
    }
  }

  #slotOf(address: string): Place {
    const digest = Buffer.from(hash('sha256', `${this.seed}\n${addressGroup(address)}`, 'hex'), 'hex');
    return { first: (digest.readUInt32LE(0) % SETS) * WAYS, tag: BigInt(digest.readUInt32LE(4) || 1) };
  }

  /** Returns the address's entry if its minute has not expired. */
  #find(place: Place, now: number): number | null {
    for (let at = place.first; at < place.first + WAYS; at++)
      if (isOf(Atomics.load(this.#words, at), place, now)) return at;
    return null;
  }

  /** A free or expired entry; if there is none, the entry with the lowest count. */
  #room({ first }: Place, now: number): number {
    let least = first;
    for (let at = first; at < first + WAYS; at++) {
      const word = Atomics.load(this.#words, at);
      if (word === 0n || isOver(entryOf(word).began, now)) return at;
      if (entryOf(word).count < entryOf(Atomics.load(this.#words, least)).count) least = at;
    }
    return least;
  }
}

interface Place {
  readonly first: number;
  readonly tag: bigint;
}

const ageS = (began: number, now: number): number => (now - began + SECONDS) % SECONDS;
const isOver = (began: number, now: number): boolean => ageS(began, now) >= WINDOW_S;
const waitMs = (began: number, now: number): number => Math.max(1, WINDOW_S - ageS(began, now)) * 1_000;
const wordOf = (tag: bigint, began: number, count: number): bigint => (tag << 32n) | BigInt(began * 256 + count);
const isOf = (word: bigint, { tag }: Place, now: number): boolean =>
  word >> 32n === tag && !isOver(entryOf(word).began, now);

function entryOf(word: bigint): { began: number; count: number } {
  const low = Number(word & 0xffff_ffffn);
  return { began: Math.floor(low / 256), count: low % 256 };
}
