// Deletes and erases stored responses. A response that was deleted or has expired is dead: clients cannot see it. It is
// erased when no stored response continues it and no request holds it. After that, the response that it continues may
// be erased too, and so on up to the root of the chain. All work happens in short transactions. A transaction that
// leaves work unfinished also records that work, so a crash only delays it until the next sweep. For bulk expiry, see
// response-expiry.ts.

import { HeldResponses } from '../../held-responses.js';
import { itemKey } from '../../response-parts.js';
import type { Place } from '../../response-parts.js';
import { ResponseExpiry } from './response-expiry.js';
import { ResponseTables, listKey } from './response-tables.js';
import type { Head } from './response-tables.js';
import { OPEN_GATE } from '../../erase-gate.js';
import type { EraseGate } from '../../erase-gate.js';
import { ShortTransactions } from '../short-transactions.js';
import type { IsFull } from '../short-transactions.js';
import type { Key } from '../../store.js';

// Number of entries processed per transaction.
const PAGE = 64;
const LOG_ROWS = 512;

const PLACES: readonly Place[] = ['input', 'output'];

export class ResponseErasure {
  readonly #transactions: ShortTransactions;
  readonly #expiry: ResponseExpiry;

  constructor(
    private readonly tables: ResponseTables,
    private readonly now: () => number,
    private readonly retentionS: number,
    private readonly held: HeldResponses = new HeldResponses(),
    private readonly gate: EraseGate = OPEN_GATE,
  ) {
    this.#transactions = new ShortTransactions(tables.store);
    this.#expiry = new ResponseExpiry(tables, this.#transactions, held, {
      allows: () => this.gate.allows(),
      expiredUntil: () => this.now() - this.retentionS,
      kill: (id, head) => this.kill(id, head),
    });
  }

  isExpired(head: Head): boolean {
    return head.createdAt + this.retentionS <= this.now();
  }

  /** Work in progress stops after its current transaction. */
  close(): void {
    this.#transactions.close();
  }

  /** While a dead response is held, neither it nor its ancestors are erased. */
  hold(id: string): () => void {
    this.held.hold(id);
    let holding = true;
    return () => {
      if (!holding) return;
      holding = false;
      this.held.release(id);
      // Errors are ignored here, because the next sweep gets the same error and reports it.
      if (!this.#transactions.isClosed && !this.held.has(id) && this.tables.heads.get(id)?.dead === true)
        this.erase([id]).catch(() => undefined);
    };
  }

  /** Must be called within a transaction. Makes the response unreadable. Its items are kept for its continuations. */
  kill(id: string, head: Head): void {
    const { heads, resources, times, byOrganization } = this.tables;
    void heads.put(id, { ...head, dead: true });
    void byOrganization.remove(listKey(id, head));
    void resources.remove(id);
    void times.remove(['created', head.createdAt, id]);
    void times.remove(['open', 0, id]);
    if (head.logUntil !== null) void times.remove(['log', head.logUntil, id]);
    if (head.background) void times.put(['log', 0, id], []);
    void times.put(['erase', 0, id], []);
  }

  /** Erases responses that are dead and no longer needed, from each of `ids` toward the root. */
  async erase(ids: readonly string[]): Promise<void> {
    for (let left = ids; left.length > 0 && !this.#transactions.isClosed; ) {
      const slice = left;
      left = await this.#transactions.run((isFull) => this.#eraseSlice(slice, isFull));
    }
  }

  /** Erases an event log. `until`: the time in its entry. */
  async eraseLog(id: string, until: number): Promise<void> {
    const { events, times } = this.tables;
    for (let more = true; more && !this.#transactions.isClosed; ) {
      more = await this.#transactions.run(() => {
        const limit = this.#transactions.isTight ? 1 : LOG_ROWS;
        const rows = [...events.keys({ ...ResponseTables.below(id), limit })];
        for (const key of rows) void events.remove(key);
        if (rows.length === limit) return true;
        void times.remove(['log', until, id]);
        return false;
      });
    }
  }

  /** Erases all responses of an organization, one page per transaction. Resolves to their number. */
  async eraseOrganization(organizationId: string): Promise<number> {
    const { heads, byOrganization } = this.tables;
    for (let count = 0; ; ) {
      const killed = await this.#transactions.run(() => {
        const page = [
          ...byOrganization.keys({
            ...ResponseTables.below(organizationId),
            limit: this.#transactions.isTight ? 1 : PAGE,
          }),
        ] as [string, number, string][];
        return page.map((key) => {
          const head = heads.get(key[2]);
          if (head === undefined) void byOrganization.remove(key);
          else this.kill(key[2], head);
          return { id: key[2], background: head?.background === true };
        });
      });
      if (killed.length === 0 || this.#transactions.isClosed) return count;
      count += killed.length;
      await this.erase(killed.map(({ id }) => id));
      for (const { id, background } of killed) if (background) await this.eraseLog(id, 0);
    }
  }

  /** Erases expired rows while the gate allows it. Resolves to the number of responses that have expired. */
  async sweep(): Promise<number> {
    const count = await this.#expiry.sweep();
    await this.#each(['erase'], ['erase', 1], (keys) => this.erase(keys.map(([, , id]) => id)));
    if (this.gate.allows()) {
      await this.#each(['log'], ['log', Math.floor(this.now()) + 1], async (keys) => {
        for (const [, until, id] of keys) if (this.gate.allows()) await this.eraseLog(id, until);
      });
    }
    return count;
  }

  /**
   * Returns the saves that were interrupted when the process ended. Must be called before the process saves any
   * response.
   */
  staged(): string[] {
    return [...this.tables.times.keys({ from: ['staged'], to: ['staged', 1] })].map((key) => key[2] as string);
  }

  /** Removes the rows written by an interrupted save. */
  async unstage(id: string): Promise<void> {
    await this.tables.store.transaction(() => this.removeStaged(id));
  }

  /**
   * Must be called within a transaction. Keeps rows of an existing response, even a dead one, because other
   * responses may continue it.
   */
  removeStaged(id: string): void {
    const { images, items, times } = this.tables;
    const index = times.get(['staged', 0, id]);
    void times.remove(['staged', 0, id]);
    if (index === undefined) return;
    const rows = { input: this.tables.rows(id, 'input'), output: this.tables.rows(id, 'output') };
    const own = new Set(PLACES.flatMap((place) => rows[place].map((row) => itemKey(row.id))));
    for (const key of index) if (!own.has(key[1] as string)) void items.remove(key);
    for (const key of [...images.keys(ResponseTables.below(id))] as [string, Place, number, number][]) {
      const [, place, item, image] = key;
      if (image >= (rows[place][item]?.images ?? 0)) void images.remove(key);
    }
  }

  /**
   * Calls `act` with all entries in a time range, one page at a time. Entries that `act` keeps are not visited again.
   */
  async #each(from: Key, to: Key, act: (keys: readonly [string, number, string][]) => Promise<void>): Promise<void> {
    for (let after: Key | null = null; !this.#transactions.isClosed; ) {
      const page: Key[] = [...this.tables.times.keys({ from: after ?? from, to, limit: PAGE + 1 })];
      if (after !== null && String(page[0]) === String(after)) page.shift();
      if (page.length === 0) return;
      after = page.at(-1) as Key;
      await act(page as [string, number, string][]);
    }
  }

  /** Must be called within a transaction. Records the entries that still need to be processed. */
  #eraseSlice(ids: readonly string[], isFull: IsFull): string[] {
    const { times } = this.tables;
    let erased = 0;
    for (const [position, id] of ids.entries()) {
      if (erased > 0 && isFull()) return ids.slice(position);
      void times.remove(['erase', 0, id]);
      for (let next = this.#eraseOne(id); next !== null; next = this.#eraseOne(next)) {
        erased++;
        if (!isFull()) continue;
        void times.put(['erase', 0, next], []);
        return [next, ...ids.slice(position + 1)];
      }
      erased++;
    }
    return [];
  }

  /**
   * Must be called within a transaction. If `id` was erased, returns the ID of the response that it continued, which
   * may be erased next.
   */
  #eraseOne(id: string): string | null {
    const { heads, inputs, outputs, images, items, times } = this.tables;
    const head = heads.get(id);
    if (head === undefined || !head.dead || head.children > 0) return null;
    if (this.held.has(id)) {
      void times.put(['erase', 0, id], []);
      return null;
    }
    let imagesToo = false;
    for (const place of PLACES) {
      for (const row of this.tables.rows(id, place)) {
        void items.remove([head.organizationId, itemKey(row.id), head.createdAt, id]);
        imagesToo ||= row.images > 0;
      }
    }
    if (imagesToo) for (const key of [...images.keys(ResponseTables.below(id))]) void images.remove(key);
    for (const key of [...inputs.keys(ResponseTables.below(id))]) void inputs.remove(key);
    void outputs.remove(id);
    void heads.remove(id);
    const parent = head.previousId === null ? undefined : heads.get(head.previousId);
    if (parent === undefined || parent.organizationId !== head.organizationId) return null;
    void heads.put(head.previousId as string, { ...parent, children: parent.children - 1 });
    return head.previousId;
  }
}
