// What this thread has admitted and not finished, and what it has finished without the engine having said that it knows:
// both are told again when the link is up again. The engine forgets a lease that nobody renews, so the places of a process
// that is gone come back by themselves. Event-loop thread only.

import type { RedisLink } from './link.js';

export interface Lease {
  readonly id: string;
  readonly n: number;
  /** A key of leases for each gate. */
  readonly keys: readonly string[];
  /** The engine has been told of it. */
  told: boolean;
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

/** Leases told of in one call, so that each call is short. */
const AT_ONCE = 250;
/** Ends that wait for the engine; what is beyond is left to time: leases end, buckets fill. */
const MOST_UNSETTLED = 50_000;

export class Leases {
  readonly #open = new Map<string, Lease>();
  readonly #unsettled = new Map<string, Settlement>();
  #sequence = 0;

  /** `owner`: of this process and thread alone. */
  constructor(private readonly link: () => RedisLink, private readonly owner: string, private readonly leaseMs: number) {}

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
    this.#open.set(lease.id, lease);
  }

  /** The lease is over. Of one that the engine was told of, it is told the end, now or when it can be. */
  end(lease: Lease, settlement: Omit<Settlement, 'id' | 'n'>): void {
    this.#open.delete(lease.id);
    if (!lease.told) return;
    const one: Settlement = { ...settlement, id: lease.id, n: lease.n };
    this.#await(one);
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
    for (const lease of [...this.#open.values()]) {
      if (!this.#open.has(lease.id)) continue;   // ended while the others were told
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
      const some = [...this.#unsettled.values()].slice(0, AT_ONCE);
      await Promise.all(some.map((one) => this.#tell(one, true)));
    }
  }

  #await(one: Settlement): void {
    this.#unsettled.set(one.id, one);
    if (this.#unsettled.size > MOST_UNSETTLED) this.#unsettled.delete(this.#unsettled.keys().next().value as string);
  }

  async #tell(one: Settlement, again: boolean): Promise<void> {
    await this.link().run('settle', one.keys, [one.id, one.n, again ? 1 : 0, one.tokens, one.tookMs, ...one.gates]);
    this.#unsettled.delete(one.id);
  }
}
