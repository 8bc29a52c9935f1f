// The recent prompts of all organizations, for cache diagnostics, in memory shared by all threads of the process. Keeps
// each organization's last MAX_PROMPTS prompts for at most KEPT_S. If the memory is full, the oldest prompts of all
// organizations are dropped first.
//
//   header    lock, free list, counters
//   columns   one entry per prompt in each: key, organization, order, time, lengths, first block, parts
//   blocks    BLOCK positions and the number of the next block
//
// All access is under one lock, held for microseconds. A thread that dies while holding it leaves the memory in an
// unknown state, so the thread that finds the lock expired clears everything.
import { hash } from 'node:crypto';
import { PART_INTS } from './prompt-parts.js';

/** Maximum number of prompts per organization. */
export const MAX_PROMPTS = 64;
export const KEPT_S = 3_600;
export const PROMPT_MEMORY_BYTES = 64 * 1024 * 1024;

/** A prompt in the form used for comparisons by the prefix cache. */
export interface KeptPrompt {
  /** One number per position; see PromptContent. */
  readonly keys: Int32Array;
  /** Number of positions before the template's generation prompt. */
  readonly history: number;
  readonly parts: Int32Array;
}

/** Maximum number of prompts of all organizations. */
const RECORDS = 4_096;
const BLOCK = 256;
const HEADER = 16;
const KEY = 4;

// Header words.
const LOCK = 0;
const TICKETS = 1;
const FREE = 2; // first free block + 1; 0: none
const FRESH = 3; // number of blocks that have been used at least once
const ORDER = 4; // counts prompts, so that a smaller number means older
const USED = 5; // all records from here on have never been used
const BLOCKS_LEFT = 6; // free blocks minus all blocks, so that 0 is the initial value

const LOCK_S = 10;
const TRIES = 20;

const elapsedS = (): number => Number(process.hrtime.bigint() / 1_000_000_000n);

export class PromptMemory {
  readonly #header: Int32Array;
  readonly #keys: Int32Array;
  readonly #organizations: Int32Array;
  readonly #orders: Int32Array; // 0: no prompt
  readonly #times: Int32Array;
  readonly #lengths: Int32Array;
  readonly #histories: Int32Array;
  readonly #firsts: Int32Array;
  readonly #parts: Int32Array;
  readonly #blocks: Int32Array;
  readonly #blockCount: number;

  /** `buffer` must initially be zeroed. `now`: monotonic seconds, the same on all threads. */
  constructor(
    buffer: SharedArrayBuffer,
    private readonly now: () => number = elapsedS,
  ) {
    const ints = new Int32Array(buffer);
    let at = 0;
    const next = (length: number): Int32Array => ints.subarray(at, (at += length));
    this.#header = next(HEADER);
    this.#keys = next(KEY * RECORDS);
    this.#organizations = next(RECORDS);
    this.#orders = next(RECORDS);
    this.#times = next(RECORDS);
    this.#lengths = next(RECORDS);
    this.#histories = next(RECORDS);
    this.#firsts = next(RECORDS);
    this.#parts = next(PART_INTS * RECORDS);
    this.#blocks = ints.subarray(at);
    this.#blockCount = Math.floor(this.#blocks.length / (BLOCK + 1));
  }

  /** Stores a prompt, unless it is larger than a quarter of the memory. */
  keep(organization: number, id: string, prompt: KeptPrompt): void {
    const key = keyOf(organization, id);
    const blocks = blocksFor(prompt.keys.length);
    if (blocks > this.#blockCount / 4) return;
    this.#locked(() => {
      const record = this.#makeRoom(organization, blocks);
      this.#keys.set(key, record * KEY);
      this.#organizations[record] = organization | 0;
      this.#times[record] = this.now();
      this.#lengths[record] = prompt.keys.length;
      this.#histories[record] = prompt.history;
      this.#parts.set(prompt.parts, record * PART_INTS);
      this.#firsts[record] = this.#write(prompt.keys);
      this.#orders[record] = this.#header[ORDER] = (this.#header[ORDER] as number) + 1;
    });
  }

  /** Returns the prompt of one of the organization's recent responses, or null. */
  find(organization: number, id: string): KeptPrompt | null {
    const key = keyOf(organization, id);
    return this.#locked(() => {
      const oldest = this.now() - KEPT_S;
      for (let record = 0; record < this.#used; record++) {
        if (this.#orders[record] === 0 || this.#keys[record * KEY] !== key[0]) continue;
        if (!key.every((word, at) => this.#keys[record * KEY + at] === word)) continue;
        return (this.#times[record] as number) <= oldest ? null : this.#read(record);
      }
      return null;
    });
  }

  get #used(): number {
    return this.#header[USED] as number;
  }

  #read(record: number): KeptPrompt {
    const keys = new Int32Array(this.#lengths[record] as number);
    let block = this.#firsts[record] as number;
    for (let at = 0; at < keys.length; at += BLOCK) {
      const from = block * (BLOCK + 1);
      keys.set(this.#blocks.subarray(from, from + Math.min(BLOCK, keys.length - at)), at);
      block = this.#blocks[from + BLOCK] as number;
    }
    return {
      keys,
      history: this.#histories[record] as number,
      parts: this.#parts.slice(record * PART_INTS, (record + 1) * PART_INTS),
    };
  }

  /** Returns a free record. Drops as many prompts as needed for the record and for this many blocks. */
  #makeRoom(organization: number, blocks: number): number {
    const oldest = this.now() - KEPT_S;
    let own = 0;
    let oldestOwn = -1;
    for (let record = 0; record < this.#used; record++) {
      if (this.#orders[record] === 0) continue;
      if ((this.#times[record] as number) <= oldest) {
        this.#drop(record);
      } else if (this.#organizations[record] === (organization | 0)) {
        own++;
        if (oldestOwn === -1 || (this.#orders[record] as number) < (this.#orders[oldestOwn] as number))
          oldestOwn = record;
      }
    }
    if (own >= MAX_PROMPTS) this.#drop(oldestOwn);
    let free = this.#freeRecord();
    while (free === -1 || this.#freeBlocks < blocks) {
      const dropped = this.#oldest();
      if (dropped === -1) throw new Error('the prompt memory is full, but contains no prompt');
      this.#drop(dropped);
      if (free === -1) free = dropped;
    }
    if (free === this.#used) this.#header[USED] = free + 1;
    return free;
  }

  #freeRecord(): number {
    const record = this.#orders.subarray(0, this.#used).indexOf(0);
    if (record !== -1) return record;
    return this.#used < RECORDS ? this.#used : -1;
  }

  #oldest(): number {
    let oldest = -1;
    for (let record = 0; record < this.#used; record++) {
      const order = this.#orders[record] as number;
      if (order !== 0 && (oldest === -1 || order < (this.#orders[oldest] as number))) oldest = record;
    }
    return oldest;
  }

  get #freeBlocks(): number {
    return this.#blockCount + (this.#header[BLOCKS_LEFT] as number);
  }

  #drop(record: number): void {
    this.#orders[record] = 0;
    const blocks = blocksFor(this.#lengths[record] as number);
    let last = this.#firsts[record] as number;
    for (let block = 1; block < blocks; block++) last = this.#blocks[last * (BLOCK + 1) + BLOCK] as number;
    if (blocks === 0) return;
    this.#blocks[last * (BLOCK + 1) + BLOCK] = (this.#header[FREE] as number) - 1;
    this.#header[FREE] = (this.#firsts[record] as number) + 1;
    this.#header[BLOCKS_LEFT] = (this.#header[BLOCKS_LEFT] as number) + blocks;
  }

  /** Stores the positions in blocks. Returns the number of the first block. */
  #write(keys: Int32Array): number {
    let first = -1;
    let last = -1;
    for (let at = 0; at < keys.length; at += BLOCK) {
      const block = this.#takeBlock();
      this.#blocks.set(keys.subarray(at, at + BLOCK), block * (BLOCK + 1));
      if (last === -1) first = block;
      else this.#blocks[last * (BLOCK + 1) + BLOCK] = block;
      last = block;
    }
    return first;
  }

  #takeBlock(): number {
    this.#header[BLOCKS_LEFT] = (this.#header[BLOCKS_LEFT] as number) - 1;
    const free = (this.#header[FREE] as number) - 1;
    if (free === -1) return (this.#header[FRESH] = (this.#header[FRESH] as number) + 1) - 1;
    this.#header[FREE] = (this.#blocks[free * (BLOCK + 1) + BLOCK] as number) + 1;
    return free;
  }

  /** Returns null if the lock could not be taken in time, or if the memory was in an invalid state. */
  #locked<T>(work: () => T): T | null {
    const ticket = ticketOf(this.now(), Atomics.add(this.#header, TICKETS, 1));
    if (!this.#lock(ticket)) return null;
    try {
      return work();
    } catch {
      this.#clear(); // no generation fails because of its diagnostics
      return null;
    } finally {
      if (Atomics.compareExchange(this.#header, LOCK, ticket, 0) === ticket) Atomics.notify(this.#header, LOCK, 1);
    }
  }

  #lock(ticket: number): boolean {
    for (let attempt = 0; attempt < TRIES; attempt++) {
      const holder = Atomics.compareExchange(this.#header, LOCK, 0, ticket);
      if (holder === 0) return true;
      if (
        ageOf(holder, this.now()) > LOCK_S &&
        Atomics.compareExchange(this.#header, LOCK, holder, ticket) === holder
      ) {
        this.#clear();
        return true;
      }
      Atomics.wait(this.#header, LOCK, holder, 1);
    }
    return false;
  }

  #clear(): void {
    this.#orders.fill(0);
    for (const word of [FREE, FRESH, ORDER, USED, BLOCKS_LEFT]) this.#header[word] = 0;
  }
}

// The lock word contains the time at which the lock was taken, so one atomic operation sets both.
const TICKET_BITS = 10;
const SECONDS = 0xf_ffff;

/** Returns the lock word for this time. It is never 0, because 0 means that the lock is free. */
export const ticketOf = (seconds: number, count: number): number =>
  0x4000_0000 | ((seconds & SECONDS) << TICKET_BITS) | (count & ((1 << TICKET_BITS) - 1));

const ageOf = (ticket: number, seconds: number): number => (seconds - (ticket >>> TICKET_BITS)) & SECONDS;

const blocksFor = (positions: number): number => Math.ceil(positions / BLOCK);

/**
 * Returns a response's key. The key includes the organization, so that responses of different organizations never have
 * the same key.
 */
function keyOf(organization: number, id: string): Int32Array {
  const digest = hash('sha256', `${organization}\n${id}`, 'buffer');
  return Int32Array.from({ length: KEY }, (_, at) => digest.readInt32LE(4 * at));
}
