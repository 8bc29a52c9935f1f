// This thread's unfinished requests (leases), and finished requests that Redis has not confirmed yet. Both are sent
// again after a reconnect. Redis drops leases that are not renewed, so a dead process's concurrency slots are freed
// automatically. Event-loop thread only.

import { ActiveSet } from '../../shared/active-set.js';
import type { RedisConnection } from './redis-connection.js';

export interface Lease {
  readonly id: string;
  readonly n: number;
  /** The Redis key of each limit scope's leases. */
  readonly keys: readonly string[];
  /** Whether the lease was sent to Redis. */
  reported: boolean;
  /** Index among the open leases, maintained by this class; null if not open. */
  place: number | null;
}

/** The outcome of a reservation, in the form that the settle script expects. */
export interface Settlement {
  readonly id: string;
  readonly n: number;
  readonly keys: readonly string[];
  readonly tokens: number;
  /** -1: not measured. */
  readonly tookMs: number;
  /** Three values per limit scope. */
  readonly scopes: readonly number[];
}

interface Unsettled {
  readonly settlement: Settlement;
  /** Index among the unconfirmed settlements; null if confirmed, or dropped so that it expires. */
  place: number | null;
}

/** Number of leases per call, which keeps each call short. */
const AT_ONCE = 250;
/**
 * Maximum number of unconfirmed settlements. Beyond that, older ones are dropped. Their effects are temporary anyway:
 * leases expire and buckets refill.
 */
const MAX_UNSETTLED = 50_000;

export class Leases {
  // Each is an ActiveSet rather than a Map, because every request is added to and removed from both sets.
  readonly #open = new ActiveSet<Lease>();
  readonly #unsettled = new ActiveSet<Unsettled>();
  #evicted = 0; // number of dropped ends
  #sequence = 0;

  /** `owner` is unique to this process and thread. */
  constructor(
    private readonly connection: () => RedisConnection,
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

  /** Ends the lease. If Redis knows about the lease, the settlement is sent now or after the next reconnect. */
  end(lease: Lease, settlement: Omit<Settlement, 'id' | 'n'>): void {
    if (lease.place !== null) this.#open.remove(lease.place);
    lease.place = null;
    if (!lease.reported) return;
    const one = this.#await({ ...settlement, id: lease.id, n: lease.n });
    if (this.connection().connected) this.#report(one, false).catch(() => undefined);
  }

  /**
   * Handles a reservation for which no reply arrived, so that its outcome is unknown. If Redis has recorded it, it is
   * refunded after the next reconnect.
   */
  doubt(settlement: Settlement): void {
    this.#await(settlement);
  }

  /** Renews all open leases for another lease period. Rejects with ConnectionLost. */
  async renew(): Promise<void> {
    let keys: string[] = [];
    let args: (string | number)[] = [];
    const hold = async (): Promise<void> => {
      const [some, their] = [keys, args];
      [keys, args] = [[], []];
      await this.connection().run('hold', some, [this.leaseMs, ...their]);
    };
    for (const lease of [...this.#open]) {
      if (lease.place === null) continue; // ended while the others were being sent
      lease.reported = true;
      for (const key of lease.keys) {
        keys.push(key);
        args.push(lease.id, lease.n);
      }
      if (keys.length >= AT_ONCE) await hold();
    }
    if (keys.length > 0) await hold();
  }

  /** Sends every settlement that Redis may not have received. Rejects with ConnectionLost. */
  async settleAll(): Promise<void> {
    while (this.#unsettled.size > 0) {
      const all = [...this.#unsettled];
      for (let at = 0; at < all.length; at += AT_ONCE)
        await Promise.all(all.slice(at, at + AT_ONCE).map((one) => this.#report(one, true)));
    }
  }

  #await(settlement: Settlement): Unsettled {
    const one: Unsettled = { settlement, place: null };
    // While Redis is unreachable, settlements are added roughly in order, so the oldest are at the front.
    if (this.#unsettled.size === MAX_UNSETTLED) this.#settled(this.#unsettled.at(this.#evicted++ % MAX_UNSETTLED));
    one.place = this.#unsettled.add(one);
    return one;
  }

  async #report(one: Unsettled, again: boolean): Promise<void> {
    if (one.place === null) return; // another call has sent it in the meantime
    const { id, n, keys, tokens, tookMs, scopes } = one.settlement;
    await this.connection().run('settle', keys, [id, n, again ? 1 : 0, tokens, tookMs, ...scopes]);
    this.#settled(one);
  }

  #settled(one: Unsettled): void {
    if (one.place !== null) this.#unsettled.remove(one.place);
    one.place = null;
  }
}
