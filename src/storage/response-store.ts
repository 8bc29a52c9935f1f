// Stored responses: what a client can retrieve, continue and list. Implemented over the tables of a Store in
// open-response-store.ts; every read is synchronous, every write resolves when it is on disk. Isolated per
// organization: another organization's id is unknown here.

import type { StoredEvent } from '../shared/stored-event.js';
import type { FinishedUsage } from '../shared/usage-sink.js';
import type { ListingOrder } from './response-listing.js';

/** An item as stored: the wire form of the Responses API with its id, plus bytes of images that were loaded. */
export interface StoredItem {
  readonly id: string;
  /** Wire form, `id` included. Where `images` has the bytes, a data URL comes back without its data: `data:image/png;base64,`. */
  readonly item: Readonly<Record<string, unknown>>;
  /** Bytes of the item's images by their index among its image parts. Read on first use. */
  readonly images?: readonly Uint8Array[] | undefined;
  /** Its id stands before it already, in the chain or in the same input: there it is listed, and not here. */
  readonly repeats?: boolean | undefined;
}

export type ResponseStatus = 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';

/** Whether it goes on: such a response is a background one. */
export const isUnfinished = (status: ResponseStatus): boolean => status === 'queued' || status === 'in_progress';

export interface ResponseRecord {
  readonly id: string;
  readonly organizationId: string;
  readonly model: string;
  readonly createdAt: number;                                    // seconds
  /** The same with the part of its second, which orders list(); createdAt if absent. */
  readonly madeAt?: number | undefined;
  readonly status: ResponseStatus;
  readonly background: boolean;
  /** The stored response this one continues. A continuation of an unsaved one has null, and the unsaved items in its own `input`. */
  readonly previousId: string | null;
  /** The resource as last published, output included. */
  readonly resource: Readonly<Record<string, unknown>>;
  readonly input: readonly StoredItem[];                         // this request's own, without the chain's
  readonly output: readonly StoredItem[];
}

/** How responses end that nobody generates any more, and logs that lack their last events. */
export interface LogKeeper {
  /** An unfinished response as its log has it, failed. `usage`: as it was told with its last events; null: nothing of it counts. */
  fail(record: ResponseRecord, log: readonly StoredEvent[], usage: FinishedUsage | null): Failed;
  /** What a log lacks whose response has ended; [] if nothing. One that is empty lacks nothing: its response is replayed from its items. */
  missing(record: ResponseRecord, last: StoredEvent): readonly StoredEvent[];
}

export interface Failed { readonly record: ResponseRecord; readonly usage: FinishedUsage | null }

/** A stored response without anything of its content. Times in seconds. */
export interface ResponseSummary {
  readonly id: string;
  readonly model: string;
  readonly status: ResponseStatus;
  readonly background: boolean;
  readonly createdAt: number;
  readonly expiresAt: number;
}

export interface ResponsePage { readonly data: readonly ResponseSummary[]; readonly next: string | null }

/**
 * What a record that was read has in `resource`, `input`, `output` and `images` is decoded on first use: in the
 * same turn, or under hold(). Where storage cannot be written, writes reject with ApiError 503 maintenance.
 */
export interface ResponseStore {
  /**
   * Writes or replaces a response and indexes its items. All of it or nothing is there after a crash. Of a
   * response that exists, `input` and `previousId` stay as they were. A background response is first saved as
   * queued; if it is deleted after that, later saves do nothing.
   */
  save(record: ResponseRecord): Promise<void>;
  /** Null if unknown, deleted, past its retention, or another organization's. */
  get(organizationId: string, id: string): ResponseRecord | null;
  /**
   * The chain that ends with `id`, root first; null where get() is null, or if an ancestor was erased before
   * the response was saved, see hold(). Ancestors that were deleted or have expired are part of it as long as
   * a younger response needs them. Throws ApiError 422 if it is longer than
   * MAX_CHAIN or has more in it than MAX_CHAIN_SIZE; what a request adds to it may have more.
   */
  chain(organizationId: string, id: string): readonly ResponseRecord[] | null;
  /**
   * Nothing of the response's chain is erased until the returned function is called (its ids answer as if it
   * were): for whoever reads a chain now and saves its continuation later.
   */
  hold(id: string): () => void;
  /**
   * What a response was generated from, chain included (what is left of it): as far as it is asked for, in the
   * same turn; an id that occurs twice at its first place. Null without such a response, or if `after` names no item of it.
   */
  inputItems(organizationId: string, id: string, order: ListingOrder): Iterable<StoredItem> | null;
  /**
   * Looks up items of any readable response of the organization by id; of several with one id, the youngest
   * response's. For one request: it remembers what it has read.
   */
  items(organizationId: string): (itemId: string) => StoredItem | null;
  /** What an organization has stored, youngest first. `after`: the `next` of the page before; null if it is none. */
  list(organizationId: string, limit: number, after: string | null): ResponsePage | null;
  /** Erases all that an organization has stored, in short transactions; resolves to how many responses went. */
  eraseOrganization(organizationId: string): Promise<number>;
  /** False if there is no such response. Items go with the last descendant that needs them. */
  delete(organizationId: string, id: string): Promise<boolean>;
  /**
   * Adds to the event log of a background response; ignored if it was deleted. The log is kept until an hour after
   * the end. `usage`: what would count if nothing more came, see failUnfinished().
   */
  appendEvents(id: string, events: readonly StoredEvent[], usage?: FinishedUsage | null): Promise<void>;
  /** In order, those with a sequence number above `after`, at least `atLeast` of them if there are; null if there is no log (any more). */
  events(id: string, after: number, atLeast?: number): readonly StoredEvent[] | null;
  /** The last event of the log; null if there is none (any more). */
  lastEvent(id: string): StoredEvent | null;
  /**
   * Ends every queued or running background response as `keeper` says, and completes the logs of others: they were
   * running when the process ended, or, where `isRunning` is given and says that they are not, a thread of it.
   * Resolves to those that failed.
   */
  failUnfinished(keeper: LogKeeper, isRunning?: (organizationId: string, id: string) => boolean | Promise<boolean>): Promise<readonly Failed[]>;
  /** Erases what is past its retention, in short transactions; resolves to how many responses went. */
  sweep(): Promise<number>;
  close(): Promise<void>;
}
