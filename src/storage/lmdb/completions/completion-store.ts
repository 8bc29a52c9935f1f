// Implements CompletionStore on the tables of a Store. Table, key, value:
//
//   chat-completions       [organization, id]                   the head (CompletionHead)
//   chat-completion-texts  [id, 0]                              the completion
//                          [id, 1 + index]                      one message of the request
//   chat-completion-times  ['made', seconds, organization, id]  empty; finds completions by time of creation
//                          ['erase', 0, organization, id]       empty; a deleted completion with text to erase
//
// IDs sort by time, so the completions of an organization are in the order of their creation. Deleting a completion
// first removes its head, so that it can no longer be found, and then erases its text in short transactions. If a crash
// interrupts this, sweep() continues.

import { isStoredCompletionId } from '../../../shared/ids.js';
import { isListed, MAX_PAGE_SIZE } from '../../completion-store.js';
import type {
  CompletionHead,
  CompletionPage,
  CompletionQuery,
  CompletionStore,
  MessagePage,
  MessageQuery,
  NewCompletion,
  StoredCompletion,
} from '../../completion-store.js';
import { OPEN_GATE } from '../../erase-gate.js';
import type { EraseGate } from '../../erase-gate.js';
import type { Key, Store, Table } from '../../store.js';

const DAY_S = 86_400;
const ERASED_AT_ONCE = 500;
/** Number of heads that are read before yielding to the event loop. */
const READ_AT_ONCE = 1_000;
// Sorts after every number and every string that occurs in keys.
const AFTER_ALL = '\u{10ffff}';

type Head = Omit<CompletionHead, 'id' | 'organizationId'>;

export interface CompletionStoreOptions {
  /** Returns the time in seconds since 1970. Tests replace this clock. */
  now?: () => number;
  gate?: EraseGate;
}

export class LmdbCompletionStore implements CompletionStore {
  readonly #heads: Table<Head>;
  readonly #texts: Table<string>;
  readonly #times: Table<[]>;
  readonly #retentionS: number;
  readonly #now: () => number;
  readonly #gate: EraseGate;

  constructor(
    private readonly store: Store,
    settings: { retention_days: number },
    { now = () => Date.now() / 1000, gate = OPEN_GATE }: CompletionStoreOptions = {},
  ) {
    this.#heads = store.table('chat-completions');
    this.#texts = store.table('chat-completion-texts');
    this.#times = store.table('chat-completion-times');
    this.#retentionS = settings.retention_days * DAY_S;
    this.#now = now;
    this.#gate = gate;
  }

  save({ id, organizationId, body, messages, ...rest }: NewCompletion): Promise<void> {
    return this.store.transaction(() => {
      void this.#heads.put([organizationId, id], { ...rest, messages: messages.length, size: body.length });
      void this.#times.put(['made', rest.createdAt, organizationId, id], []);
      void this.#texts.put([id, 0], body);
      for (const [index, message] of messages.entries()) void this.#texts.put([id, 1 + index], message);
    });
  }

  async head(organizationId: string, id: string): Promise<CompletionHead | null> {
    this.store.refresh();
    const head = this.#readable(organizationId, id);
    return head === null ? null : { id, organizationId, ...head };
  }

  async get(organizationId: string, id: string): Promise<StoredCompletion | null> {
    this.store.refresh();
    const head = this.#readable(organizationId, id);
    return head === null ? null : this.#whole(organizationId, id, head);
  }

  setMetadata(
    organizationId: string,
    id: string,
    metadata: Readonly<Record<string, string>>,
  ): Promise<StoredCompletion | null> {
    return this.store.transaction(() => {
      const head = this.#readable(organizationId, id);
      if (head === null) return null;
      const changed = { ...head, metadata };
      void this.#heads.put([organizationId, id], changed);
      return this.#whole(organizationId, id, changed);
    });
  }

  async list(organizationId: string, query: CompletionQuery): Promise<CompletionPage> {
    this.store.refresh();
    const data: StoredCompletion[] = [];
    let size = 0;
    let last = query.after;
    for (;;) {
      const start = last;
      const slice = [...this.#heads.range({ ...this.#from(organizationId, query, start), limit: READ_AT_ONCE })];
      for (const { key, value } of slice) {
        const id = (key as [string, string])[1];
        last = id;
        if (id === start || this.#isExpired(value) || !isListed(value, query)) continue;
        size += value.size;
        if (data.length === query.limit || (data.length > 0 && size > MAX_PAGE_SIZE)) return { data, more: true };
        data.push(this.#whole(organizationId, id, value));
      }
      if (slice.length < READ_AT_ONCE) return { data, more: false };
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  async messages(
    organizationId: string,
    id: string,
    { newestFirst, after, limit }: MessageQuery,
  ): Promise<MessagePage | null> {
    this.store.refresh();
    const head = this.#readable(organizationId, id);
    if (head === null) return null;
    const range = newestFirst
      ? { from: [id, after ?? head.messages], to: [id, 0], reverse: true }
      : { from: [id, after === null ? 1 : after + 2], to: [id, AFTER_ALL] };
    const data: { index: number; message: string }[] = [];
    let size = 0;
    for (const { key, value } of this.#texts.range(range)) {
      if ((key as [string, number])[1] === 0) continue; // the completion
      size += value.length;
      if (data.length === limit || (data.length > 0 && size > MAX_PAGE_SIZE)) return { data, more: true };
      data.push({ index: (key as [string, number])[1] - 1, message: value });
    }
    return { data, more: false };
  }

  async delete(organizationId: string, id: string): Promise<boolean> {
    const isFound = await this.store.transaction(() => {
      const head = this.#readable(organizationId, id);
      if (head !== null) this.#forget(organizationId, id, head);
      return head !== null;
    });
    if (isFound) await this.#eraseTexts(organizationId, id);
    return isFound;
  }

  async eraseOrganization(organizationId: string): Promise<void> {
    for (const id of [...this.#heads.keys(below(organizationId))].map((key) => (key as [string, string])[1])) {
      await this.store.transaction(() => {
        const head = this.#heads.get([organizationId, id]);
        if (head !== undefined) this.#forget(organizationId, id, head);
      });
      await this.#eraseTexts(organizationId, id);
    }
  }

  async sweep(): Promise<number> {
    for (const [, , organizationId, id] of this.#timed(below('erase'))) await this.#eraseTexts(organizationId, id);
    let erased = 0;
    const until = this.#now() - this.#retentionS;
    for (const [, , organizationId, id] of this.#timed({ from: ['made'], to: ['made', until, AFTER_ALL] })) {
      if (!this.#gate.allows()) break;
      const isOver = await this.store.transaction(() => {
        const head = this.#heads.get([organizationId, id]);
        if (head === undefined || !this.#isExpired(head)) return false;
        this.#forget(organizationId, id, head);
        return true;
      });
      if (!isOver) continue;
      await this.#eraseTexts(organizationId, id);
      erased++;
    }
    return erased;
  }

  #readable(organizationId: string, id: string): Head | null {
    const head = isStoredCompletionId(id) ? this.#heads.get([organizationId, id]) : undefined;
    return head === undefined || this.#isExpired(head) ? null : head;
  }

  #isExpired({ createdAt }: Head): boolean {
    return createdAt + this.#retentionS <= this.#now();
  }

  #whole(organizationId: string, id: string, head: Head): StoredCompletion {
    return { id, organizationId, ...head, body: this.#texts.get([id, 0]) ?? '{}' };
  }

  /**
   * Returns the range of keys that starts at `last`, inclusive, in the order of the query. If `last` is null, the range
   * starts at the first key.
   */
  #from(
    organizationId: string,
    { newestFirst }: CompletionQuery,
    last: string | null,
  ): { from: Key; to: Key; reverse?: boolean } {
    const { from, to } = below(organizationId);
    const start = last === null ? null : [organizationId, last];
    return newestFirst ? { from: start ?? to, to: from, reverse: true } : { from: start ?? from, to };
  }

  #timed(range: { from: Key; to: Key }): [string, number, string, string][] {
    return [...this.#times.keys(range)] as [string, number, string, string][];
  }

  /**
   * Removes the head, so that the completion is unknown. Must be called within a transaction, followed by
   * #eraseTexts().
   */
  #forget(organizationId: string, id: string, { createdAt }: Head): void {
    void this.#heads.remove([organizationId, id]);
    void this.#times.remove(['made', createdAt, organizationId, id]);
    void this.#times.put(['erase', 0, organizationId, id], []);
  }

  async #eraseTexts(organizationId: string, id: string): Promise<void> {
    const first = { ...below(id), limit: ERASED_AT_ONCE };
    for (let keys = [...this.#texts.keys(first)]; keys.length > 0; keys = [...this.#texts.keys(first)])
      await this.store.transaction(() => {
        for (const key of keys) void this.#texts.remove(key);
      });
    await this.#times.remove(['erase', 0, organizationId, id]);
  }
}

const below = (...start: string[]): { from: Key; to: Key } => ({ from: start, to: [...start, AFTER_ALL] });
