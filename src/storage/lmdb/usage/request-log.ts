// Implements RequestLog on three tables and a row of `meta`:
//
//   requests                   [ended at, request id]                  everything except the text
//   requests-by-organization   [organization, ended at, request id]    [key, model, outcome]: the filter columns
//   requests-by-id             request id                              ended at
//   request-texts              [ended at, request id]                  prompt and response, if stored
//   meta                       'request-log'                           number and total size of all entries
//
// Lists are read in slices over several event-loop turns. Erasing uses short transactions.

import { setImmediate as nextTurn } from 'node:timers/promises';
import { NO_ORGANIZATION } from '../../../shared/request-entry.js';
import type { Outcome, RequestEntry, RequestText } from '../../../shared/request-entry.js';
import type { Key, Store, Table } from '../../store.js';
import {
  entryBytes,
  MAX_SCANNED,
  placeId,
  placeIn,
  placeOf,
  textBytes,
} from '../../../usage/requests/request-place.js';
import type { Place } from '../../../usage/requests/request-place.js';
import { MAX_UNKNOWN_CLIENT_ROWS } from '../../../usage/requests/request-log.js';
import type {
  ListedRow,
  LoggedRow,
  RequestBounds,
  RequestLog,
  RequestPage,
  RequestQuery,
} from '../../../usage/requests/request-log.js';

type StoredRow = LoggedRow & { readonly bytes: number };
type Filtered = readonly [keyId: string, model: string | null, outcome: Outcome];
interface Size {
  rows: number;
  bytes: number;
}

const SIZE = 'request-log';
const NOTHING: Size = { rows: 0, bytes: 0 };
const SLICE = 500;
const ERASED_AT_ONCE = 500;
const NEVER = Number.MAX_SAFE_INTEGER;

export class LmdbRequestLog implements RequestLog {
  readonly #rows: Table<StoredRow>;
  readonly #owned: Table<Filtered>;
  readonly #byId: Table<number>;
  readonly #texts: Table<RequestText>;
  readonly #meta: Table<Size>;

  constructor(private readonly store: Store) {
    this.#rows = store.table('requests');
    this.#owned = store.table('requests-by-organization');
    this.#byId = store.table('requests-by-id');
    this.#texts = store.table('request-texts');
    this.#meta = store.table('meta');
  }

  add(entries: readonly RequestEntry[]): Promise<void> {
    return this.store.transaction(() => {
      let bytes = 0;
      for (const { text, ...entry } of entries) {
        const size = entryBytes(entry) + (text === null ? 0 : textBytes(text));
        const place: Place = [entry.endedAt, entry.requestId];
        void this.#rows.put(place, { ...entry, hasText: text !== null, bytes: size });
        void this.#owned.put([entry.organizationId, ...place], [entry.keyId, entry.model, entry.outcome]);
        void this.#byId.put(entry.requestId, entry.endedAt);
        if (text !== null) void this.#texts.put(place, text);
        bytes += size;
      }
      this.#resize(entries.length, bytes);
    });
  }

  async list(query: RequestQuery, limit: number, after: string | null): Promise<RequestPage> {
    const rows: ListedRow[] = [];
    const { organizationId, requestId, from } = query;
    const start: Place = after === null ? [NEVER, ''] : placeOf(after, 'after');
    if (requestId != null) return { rows: after === null ? this.#one(query, requestId) : [], next: null };
    let last: Place = query.to != null && query.to < start[0] ? [query.to, ''] : start;
    for (let scanned = 0; scanned < MAX_SCANNED; ) {
      const slice = organizationId === null ? this.#sliceOfAll(last) : this.#sliceOf(organizationId, last);
      for (const { place, filtered } of slice) {
        if (rows.length === limit) return { rows, next: placeId(last) };
        if (from != null && place[0] < from) return { rows, next: null };
        last = place;
        if (!matches(query, filtered)) continue;
        const row = this.#rows.get(place);
        if (row !== undefined) rows.push({ id: placeId(place), row });
      }
      if (slice.length < SLICE) return { rows, next: null };
      scanned += slice.length;
      await nextTurn();
    }
    return { rows, next: placeId(last) };
  }

  #one(query: RequestQuery, requestId: string): ListedRow[] {
    const endedAt = this.#byId.get(requestId);
    const place: Place | null = endedAt === undefined ? null : [endedAt, requestId];
    const row = place === null ? undefined : this.#rows.get(place);
    if (place === null || row === undefined) return [];
    const { organizationId, from, to } = query;
    if (organizationId !== null && row.organizationId !== organizationId) return [];
    if ((from != null && row.endedAt < from) || (to != null && row.endedAt >= to)) return [];
    return matches(query, [row.keyId, row.model, row.outcome]) ? [{ id: placeId(place), row }] : [];
  }

  async find(organizationId: string | null, id: string): Promise<LoggedRow | null> {
    const place = placeIn(id);
    const row = place === null ? undefined : this.#rows.get(place);
    return row === undefined || (organizationId !== null && row.organizationId !== organizationId) ? null : row;
  }

  async text(organizationId: string, id: string): Promise<RequestText | null> {
    if ((await this.find(organizationId, id)) === null) return null;
    return this.#texts.get(placeIn(id) as Place) ?? null;
  }

  async size(): Promise<Size> {
    return this.#meta.get(SIZE) ?? NOTHING;
  }

  async erase({ before, rows, bytes }: RequestBounds, signal: AbortSignal): Promise<number> {
    let erased = 0;
    while (!signal.aborted) {
      const { gone, more } = await this.store.transaction(() => {
        const size = this.#meta.get(SIZE) ?? NOTHING;
        let gone = 0;
        let freed = 0;
        const oldest = [...this.#rows.range({ limit: ERASED_AT_ONCE })];
        for (const { key, value } of oldest) {
          if ((key as Place)[0] >= before && size.rows - gone <= rows && size.bytes - freed <= bytes) break;
          freed += value.bytes;
          gone++;
          this.#remove(key as Place, value.organizationId);
        }
        this.#resize(-gone, -freed);
        return { gone, more: gone === ERASED_AT_ONCE };
      });
      erased += gone;
      if (!more) break;
    }
    return erased + (await this.#eraseUnknownClients(signal));
  }

  /** Erases the oldest entries without an organization, beyond the maximum. */
  async #eraseUnknownClients(signal: AbortSignal): Promise<number> {
    const range = { from: [NO_ORGANIZATION], to: [NO_ORGANIZATION, NEVER] };
    let over = [...this.#owned.keys(range)].length - MAX_UNKNOWN_CLIENT_ROWS;
    let erased = 0;
    while (over > 0 && !signal.aborted) {
      const gone = await this.store.transaction(() => {
        const keys = [...this.#owned.keys({ ...range, limit: Math.min(over, ERASED_AT_ONCE) })];
        let freed = 0;
        for (const key of keys) {
          const place = (key as [string, ...Place]).slice(1) as Place;
          freed += this.#rows.get(place)?.bytes ?? 0;
          this.#remove(place, NO_ORGANIZATION);
        }
        this.#resize(-keys.length, -freed);
        return keys.length;
      });
      if (gone === 0) break;
      over -= gone;
      erased += gone;
    }
    return erased;
  }

  eraseTexts(organizationId: string): Promise<void> {
    return this.#eachOf(organizationId, (place, row) => {
      if (row?.hasText !== true) return;
      const text = this.#texts.get(place);
      const freed = text === undefined ? 0 : textBytes(text);
      void this.#texts.remove(place);
      void this.#rows.put(place, { ...row, hasText: false, bytes: row.bytes - freed });
      this.#resize(0, -freed);
    });
  }

  eraseOrganization(organizationId: string): Promise<void> {
    return this.#eachOf(organizationId, (place, row) => {
      this.#remove(place, organizationId);
      if (row !== undefined) this.#resize(-1, -row.bytes);
    });
  }

  /** Visits the entries in transactions, oldest first. */
  async #eachOf(organizationId: string, visit: (place: Place, row: StoredRow | undefined) => void): Promise<void> {
    for (let from: Key = [organizationId]; ; ) {
      const last: Key | null = await this.store.transaction(() => {
        const keys = [...this.#owned.keys({ from, to: [organizationId, NEVER], limit: ERASED_AT_ONCE })];
        for (const key of keys) {
          const place = (key as [string, ...Place]).slice(1) as Place;
          visit(place, this.#rows.get(place));
        }
        return keys.length < ERASED_AT_ONCE ? null : (keys.at(-1) ?? null);
      });
      if (last === null) return;
      from = [...(last as (string | number)[]), 0]; // continues directly after the last entry
    }
  }

  #remove(place: Place, organizationId: string): void {
    void this.#rows.remove(place);
    void this.#owned.remove([organizationId, ...place]);
    void this.#byId.remove(place[1]);
    void this.#texts.remove(place);
  }

  /** Must be called within a transaction, because several threads add to the size. */
  #resize(rows: number, bytes: number): void {
    const size = this.#meta.get(SIZE) ?? NOTHING;
    void this.#meta.put(SIZE, { rows: size.rows + rows, bytes: size.bytes + bytes });
  }

  #sliceOfAll(last: Place): { place: Place; filtered: Filtered }[] {
    return this.#before(
      this.#rows.range({ from: last, reverse: true, limit: SLICE + 1 }),
      last,
      (key) => key as Place,
    ).map(({ place, value: { keyId, model, outcome } }) => ({ place, filtered: [keyId, model, outcome] }));
  }

  #sliceOf(organizationId: string, last: Place): { place: Place; filtered: Filtered }[] {
    const range = this.#owned.range({
      from: [organizationId, ...last],
      to: [organizationId],
      reverse: true,
      limit: SLICE + 1,
    });
    return this.#before(range, last, (key) => (key as [string, ...Place]).slice(1) as Place).map(
      ({ place, value }) => ({ place, filtered: value }),
    );
  }

  /** Returns a slice of the entries before `last`. If `last` is the first entry of the range, it is skipped. */
  #before<V>(
    range: Iterable<{ key: Key; value: V }>,
    [at, requestId]: Place,
    placeOfKey: (key: Key) => Place,
  ): { place: Place; value: V }[] {
    const found = [...range].map(({ key, value }) => ({ place: placeOfKey(key), value }));
    return (found[0]?.place[0] === at && found[0].place[1] === requestId ? found.slice(1) : found).slice(0, SLICE);
  }
}

const matches = (query: RequestQuery, [keyId, model, outcome]: Filtered): boolean =>
  (query.keyId === null || query.keyId === keyId) &&
  (query.model === null || query.model === model) &&
  (query.outcome === null || query.outcome === outcome);
