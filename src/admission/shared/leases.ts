// What this thread has admitted and not finished, and what it has finished without the engine having said that it knows:
// both are told again when the link is up again. The engine forgets a lease that nobody renews, so the places of a process
// that is gone come back by themselves. Event-loop thread only.

import { Roster } from '../../shared/roster.js';
import type { RedisLink } from './link.js';

export interface Lease {
  readonly id: string;
  readonly n: number;
  /** A key of leases for each gate. */
  readonly keys: readonly string[];
  /** The engine has been told of it. */
  told: boolean;
  /** Among those that are open; null: it is not. Kept here. */
  place: number | null;
}

/** The end of a reservation, as the script takes it. */
export interface Settlement {
  readonly id: string;
  readonly n: number;
  readonly keys: readonly string[];
  readonly tokens: number;
  /** -1: none. */
  readonly tookMs: number;
  /** Three for each gate. */
  readonly gates: readonly number[];
}

interface Unsettled {
  readonly settlement: Settlement;
  /** Among those that wait; null: the engine knows, or it was left to time. */
  place: number | null;
}

/** Leases told of in one call, so that each call is short. */
const AT_ONCE = 250;
/** Ends that wait for the engine; what is beyond is left to time: leases end, buckets fill. */
const MOST_UNSETTLED = 50_000;

export class Leases {
  // No Maps: each request comes and goes in both.
  readonly #open = new Roster<Lease>();
  readonly #unsettled = new Roster<Unsettled>();
  #evicted = 0; // so many were left to time
  #sequence = 0;

  /** `owner`: of this process and thread alone. */
  constructor(
    private readonly link: () => RedisLink,
    private readonly owner: string,
    private readonly leaseMs: number,
  ) {}

  get size(): number {
    return this.#open.size;
  }

  get unsettled(): number {
    return this.#unsettled.size;
  }

  nextId(): string {
    return `${this.owner}${(this.#sequence++).toString(36)}`;
  }

  open(lease: Lease): void {
    lease.place = this.#open.add(lease);
  }

  /** The lease is over. Of one that the engine was told of, it is told the end, now or when it can be. */
  end(lease: Lease, settlement: Omit<Settlement, 'id' | 'n'>): void {
    if (lease.place !== null) this.#open.remove(lease.place);
    lease.place = null;
    if (!lease.told) return;
    const one = this.#await({ ...settlement, id: lease.id, n: lease.n });
    if (this.link().connected) this.#tell(one, false).catch(() => undefined);
  }

  /** A reservation of which nobody knows whether it was made: if it was, it is refunded when the link is up again. */
  doubt(settlement: Settlement): void {
    this.#await(settlement);
  }

  /** All that are open last for another lease. Rejects with LinkDown. */
  async renew(): Promise<void> {
    let keys: string[] = [];
    let args: (string | number)[] = [];
    const hold = async (): Promise<void> => {
      const [some, their] = [keys, args];
      [keys, args] = [[], []];
      await this.link().run('hold', some, [this.leaseMs, ...their]);
    };
    for (const lease of [...this.#open]) {
      if (lease.place === null) continue; // ended while the others were told
      lease.told = true;
      for (const key of lease.keys) {
        keys.push(key);
        args.push(lease.id, lease.n);
      }
      if (keys.length >= AT_ONCE) await hold();
    }
    if (keys.length > 0) await hold();
  }

  /** Tells of every end that the engine may not know. Rejects with LinkDown. */
  async settleAll(): Promise<void> {
    while (this.#unsettled.size > 0) {
      const all = [...this.#unsettled];
      for (let at = 0; at < all.length; at += AT_ONCE)
        await Promise.all(all.slice(at, at + AT_ONCE).map((one) => this.#tell(one, true)));
    }
  }

  #await(settlement: Settlement): Unsettled {
    const one: Unsettled = { settlement, place: null };
    // While nothing can be told places fill about in order: from the first one on they are the oldest.
    if (this.#unsettled.size === MOST_UNSETTLED) this.#settled(this.#unsettled.at(this.#evicted++ % MOST_UNSETTLED));
    one.place = this.#unsettled.add(one);
    return one;
  }

  async #tell(one: Unsettled, again: boolean): Promise<void> {
    if (one.place === null) return; // told while the others were
    const { id, n, keys, tokens, tookMs, gates } = one.settlement;
    await this.link().run('settle', keys, [id, n, again ? 1 : 0, tokens, tookMs, ...gates]);
    this.#settled(one);
  }

  #settled(one: Unsettled): void {
    if (one.place !== null) this.#unsettled.remove(one.place);
    one.place = null;
  }
}
