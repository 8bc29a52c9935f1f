// Expires stored responses, oldest first. A transaction writes every page that it touches, so rows that are stored
// together are erased together: for each window of responses, rows are erased table by table, in key order. Response
// and item IDs start with the time, so a window's rows are adjacent in every table, and most pages become free without
// being written.
//
// A crash at any point is harmless. Rows that only refer to a response (the item index and the organization's list) are
// erased first, then the response, and finally the entry with its expiry time, from which the next sweep starts.

import { setImmediate as nextTurn } from 'node:timers/promises';
import type { HeldResponses } from '../../held-responses.js';
import { itemKey } from '../../response-parts.js';
import { ResponseTables, listKey } from './response-tables.js';
import type { Head } from './response-tables.js';
import type { ShortTransactions } from '../short-transactions.js';
import type { Key } from '../../store.js';

/** Number of responses erased together. Their keys are kept in memory and take a few hundred bytes each. */
const WINDOW = 2_048;
/** Number of keys that are read in one step. */
const READ = 512;

type DueKey = [kind: 'created', createdAt: number, id: string];

/** The data needed to erase one response. */
interface ExpiredResponse {
  id: string;
  hasImages: boolean;
}

interface Plan {
  /**
   * Responses that no stored response needs, in descending order of IDs, so that a continuation usually precedes the
   * response that it continues.
   */
  expired: ExpiredResponse[];
  /** Responses that must be kept until their continuations are erased. */
  needed: string[];
  /** For `expired`: keys of the item index, of the organization's list and of the expiry entries. */
  indexKeys: Key[];
  listKeys: Key[];
  dueKeys: DueKey[];
}

export interface ExpiryRules {
  /**
   * Whether the clock can be trusted. Checked before each window of entries. All entries of a window are then compared
   * with the same reading of the clock.
   */
  allows(): boolean;
  /** Seconds since the Unix epoch. Responses created at or before this time have expired. */
  expiredUntil(): number;
  /** Must be called within a transaction. Makes the response unreadable and records that it must be erased. */
  kill(id: string, head: Head): void;
}

export class ResponseExpiry {
  constructor(
    private readonly tables: ResponseTables,
    private readonly transactions: ShortTransactions,
    private readonly held: HeldResponses,
    private readonly rules: ExpiryRules,
  ) {}

  /** Resolves to the number of responses that have expired. */
  async sweep(): Promise<number> {
    for (let count = 0; ; ) {
      if (!this.rules.allows()) return count;
      const due = await this.#due();
      if (due.length === 0 || this.transactions.isClosed) return count;
      count += await this.#expire(due);
    }
  }

  /** The oldest due entries, up to one window. */
  async #due(): Promise<DueKey[]> {
    const until = this.rules.expiredUntil(),
      due: DueKey[] = [];
    for (let from: Key = ['created']; due.length < WINDOW; ) {
      const page = [
        ...this.tables.times.keys({ from, to: ['created', Math.floor(until) + 1], limit: READ }),
      ] as DueKey[];
      const last = due.at(-1);
      if (last !== undefined && page[0]?.[2] === last[2]) page.shift();
      const expired = page.filter(([, createdAt]) => createdAt <= until);
      due.push(...expired);
      if (expired.length === 0 || expired.length < page.length || this.transactions.isTight) break;
      from = due.at(-1) as Key;
      await nextTurn();
      if (this.transactions.isClosed) break;
    }
    return due;
  }

  async #expire(due: readonly DueKey[]): Promise<number> {
    const { times, items, byOrganization, heads } = this.tables;
    const plan = await this.#plan(due);
    if (plan === null) return 0;
    let count = 0;
    const kill = (id: string): void => {
      const head = heads.get(id);
      if (head === undefined) return;
      count += head.dead ? 0 : 1;
      this.rules.kill(id, head);
    };
    (await this.transactions.forEach(plan.needed, kill)) &&
      (await this.transactions.forEach(plan.indexKeys.sort(byKey), (key) => {
        void items.remove(key);
      })) &&
      (await this.transactions.forEach(plan.listKeys.sort(byKey), (key) => {
        void byOrganization.remove(key);
      })) &&
      (await this.transactions.forEach(plan.expired, (one) => {
        count += this.#erase(one) ? 1 : 0;
      })) &&
      (await this.transactions.forEach(plan.dueKeys, (key) => {
        void times.remove(key);
      }));
    return count;
  }

  /** Null if the store was closed before the plan was complete. */
  async #plan(due: readonly DueKey[]): Promise<Plan | null> {
    const plan: Plan = { expired: [], needed: [], indexKeys: [], listKeys: [], dueKeys: [] };
    // Number of continuations that this plan erases, by ID of the response that they continue.
    const gone = new Map<string, number>();
    const isWhole = await this.transactions.forEachRead([...due].reverse(), (key) => {
      const id = key[2],
        head = this.tables.heads.get(id);
      if (
        head !== undefined &&
        (head.children > (gone.get(familyKey(head.organizationId, id)) ?? 0) || this.held.has(id))
      ) {
        plan.needed.push(id);
        return;
      }
      plan.dueKeys.push(key);
      if (head === undefined) return; // a sweep was interrupted before it erased this entry
      if (head.previousId !== null) {
        const parent = familyKey(head.organizationId, head.previousId);
        gone.set(parent, (gone.get(parent) ?? 0) + 1);
      }
      const rows = [...this.tables.rows(id, 'input'), ...this.tables.rows(id, 'output')];
      for (const item of new Set(rows.map((row) => itemKey(row.id))))
        plan.indexKeys.push([head.organizationId, item, head.createdAt, id]);
      plan.listKeys.push(listKey(id, head));
      plan.expired.push({ id, hasImages: rows.some(({ images }) => images > 0) });
    });
    plan.dueKeys.reverse();
    plan.expired.sort((a, b) => (a.id < b.id ? 1 : -1));
    return isWhole ? plan : null;
  }

  /**
   * Must be called within a transaction. Returns false if the response has already been erased or turns out to be
   * needed.
   */
  #erase({ id, hasImages }: ExpiredResponse): boolean {
    const { heads, resources, inputs, outputs, images, times } = this.tables;
    const head = heads.get(id);
    if (head === undefined) return false;
    if (head.children > 0 || this.held.has(id)) {
      this.rules.kill(id, head);
      return true;
    }
    if (hasImages) for (const key of [...images.keys(ResponseTables.below(id))]) void images.remove(key);
    for (const key of [...inputs.keys(ResponseTables.below(id))]) void inputs.remove(key);
    void outputs.remove(id);
    void resources.remove(id);
    void heads.remove(id);
    if (head.background) {
      void times.remove(['open', 0, id]);
      if (head.logUntil !== null) void times.remove(['log', head.logUntil, id]);
      void times.put(['log', 0, id], []);
    }
    const parent = head.previousId === null ? undefined : heads.get(head.previousId);
    if (head.previousId !== null && parent !== undefined && parent.organizationId === head.organizationId) {
      void heads.put(head.previousId, { ...parent, children: parent.children - 1 });
      if (parent.dead && parent.children === 1) void times.put(['erase', 0, head.previousId], []);
    }
    return true;
  }
}

const familyKey = (organizationId: string, id: string): string => `${organizationId} ${id}`;

/** LMDB's order for keys with the same structure. */
function byKey(a: Key, b: Key): number {
  for (let at = 0; at < Math.min(a.length, b.length); at++) {
    const left = a[at] as string | number,
      right = b[at] as string | number;
    if (left !== right) return left < right ? -1 : 1;
  }
  return a.length - b.length;
}
