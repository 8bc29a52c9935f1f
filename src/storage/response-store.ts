// Stored responses: what a client can retrieve, continue and list. A port: docs/internals/storage.md says who implements it.
// What a read resolves to is whole, nothing of it is fetched later. Every write resolves when it is durable.
// Isolated per organization: another organization's id is unknown here.

import type { StoredEvent } from '../shared/stored-event.js';
import type { FinishedUsage } from '../shared/usage-sink.js';

/** An item as stored: the wire form of the Responses API with its id, plus bytes of images that were loaded. */
export interface StoredItem {
  readonly id: string;
  /** Wire form, `id` included. Where `images` has the bytes, a data URL comes back without its data: `data:image/png;base64,`. */
  readonly item: Readonly<Record<string, unknown>>;
  /** Bytes of the item's images by their index among its image parts. */
  readonly images?: readonly Uint8Array[] | undefined;
  /** Its id stands before it already, in the chain or in the same input: there it is listed, and not here. */
  readonly repeats?: boolean | undefined;
}

export type ResponseStatus = 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';

/** Whether it goes on: such a response is a background one. */
export const isUnfinished = (status: ResponseStatus): boolean => status === 'queued' || status === 'in_progress';

/** A response without anything of its content. */
export interface ResponseHead {
  readonly id: string;
  readonly organizationId: string;
  readonly model: string;
  readonly createdAt: number; // seconds
  readonly status: ResponseStatus;
  readonly background: boolean;
  /** The stored response this one continues. A continuation of an unsaved one has null, and the unsaved items in its own `input`. */
  readonly previousId: string | null;
}

/** What a client retrieves. */
export interface StoredResponse extends ResponseHead {
  /** The resource as last published, output included. */
  readonly resource: Readonly<Record<string, unknown>>;
}

/** What a continuation needs of a response. */
export interface ChainedResponse extends ResponseHead {
  readonly input: readonly StoredItem[]; // this request's own, without the chain's
  readonly output: readonly StoredItem[];
}

/** What is saved. */
export interface ResponseRecord extends StoredResponse, ChainedResponse {
  /** createdAt with the part of its second, which orders list(); createdAt if absent. */
  readonly madeAt?: number | undefined;
}

/** A chain that is not erased before release() is called, which may be done more than once. */
export interface HeldChain {
  /** Root first. */
  readonly responses: readonly ChainedResponse[];
  release(): void;
}

export interface ItemPageQuery {
  newestFirst: boolean;
  /** Id of the item that the page continues behind; null: from the beginning. */
  after: string | null;
  limit: number;
  /** Whether the bytes of images are wanted. */
  images: boolean;
}

export interface ItemPage {
  readonly items: readonly StoredItem[];
  readonly more: boolean;
}

/** How responses end that nobody generates any more, and logs that lack their last events. */
export interface LogKeeper {
  /** An unfinished response as its log has it, failed. `usage`: as it was told with its last events; null: nothing of it counts. */
  fail(response: StoredResponse, log: readonly StoredEvent[], usage: FinishedUsage | null): Failed;
  /** What a log lacks whose response has ended; [] if nothing. One that is empty lacks nothing: its response is replayed from its items. */
  missing(response: StoredResponse, last: StoredEvent): readonly StoredEvent[];
}

export interface Failed {
  readonly record: ResponseRecord;
  readonly usage: FinishedUsage | null;
}

/** A stored response without anything of its content. Times in seconds. */
export interface ResponseSummary {
  readonly id: string;
  readonly model: string;
  readonly status: ResponseStatus;
  readonly background: boolean;
  readonly createdAt: number;
  readonly expiresAt: number;
}

export interface ResponsePage {
  readonly data: readonly ResponseSummary[];
  readonly next: string | null;
}

/** Where storage cannot be written, writes reject with ApiError 503 maintenance. */
export interface ResponseStore {
  /**
   * Writes or replaces a response and indexes its items. All of it or nothing is there after a crash. Of a
   * response that exists, `input` and `previousId` stay as they were. A background response is first saved as
   * queued; if it is deleted after that, later saves do nothing.
   */
  save(record: ResponseRecord): Promise<void>;
  /** Null if unknown, deleted, past its retention, or another organization's. */
  head(organizationId: string, id: string): Promise<ResponseHead | null>;
  /** What reading the chain that ends with `id` brings, see itemSize(); 0 if there is none. */
  size(organizationId: string, id: string): Promise<number>;
  /** As head(). */
  get(organizationId: string, id: string): Promise<StoredResponse | null>;
  /**
   * The chain that ends with `id`, held before it is read: whoever reads a chain now and saves its continuation
   * later releases it then. Until that its ids answer as if it were erased, if it is. Null where get() is null, or if
   * an ancestor was erased before the response was saved. Ancestors that were deleted or have expired are part of
   * it as long as a younger response needs them. Rejects with ApiError 422 if it is longer than MAX_CHAIN or has
   * more in it than MAX_CHAIN_SIZE; what a request adds to it may have more.
   */
  chain(organizationId: string, id: string): Promise<HeldChain | null>;
  /**
   * What a response was generated from, chain included (what is left of it); an id that occurs twice stands at its
   * first place. What lies beyond the page is not read. 'no response' as get(); 'no item' if `after` names none of it.
   */
  inputItems(organizationId: string, id: string, page: ItemPageQuery): Promise<ItemPage | 'no response' | 'no item'>;
  /**
   * Items of any readable response of the organization by id; of several with one id, the youngest response's. In
   * the order of `ids`, as far as those before have no more than `maxSize` together, see itemSize().
   */
  items(organizationId: string, ids: Iterable<string>, maxSize: number): Promise<ReadonlyMap<string, StoredItem>>;
  /** What an organization has stored, youngest first. `after`: the `next` of the page before; null if it is none. */
  list(organizationId: string, limit: number, after: string | null): Promise<ResponsePage | null>;
  /** Erases all that an organization has stored; resolves to how many responses went. */
  eraseOrganization(organizationId: string): Promise<number>;
  /** False if there is no such response. Items go with the last descendant that needs them. */
  delete(organizationId: string, id: string): Promise<boolean>;
  /**
   * Adds to the event log of a background response; ignored if it was deleted. The log is kept until an hour after
   * the end. `usage`: what would count if nothing more came, see failUnfinished().
   */
  appendEvents(id: string, events: readonly StoredEvent[], usage?: FinishedUsage | null): Promise<void>;
  /** In order, those with a sequence number above `after`, at least `atLeast` of them if there are; null if there is no log (any more). */
  events(id: string, after: number, atLeast?: number): Promise<readonly StoredEvent[] | null>;
  /** The last event of the log; null if there is none (any more). */
  lastEvent(id: string): Promise<StoredEvent | null>;
  /**
   * Ends every queued or running background response as `keeper` says, and completes the logs of others: they were
   * running when the process ended, or, where `isRunning` is given and says that they are not, a thread of it.
   * Yields each that failed once it is stored so; what then fails does not take those back.
   */
  failUnfinished(
    keeper: LogKeeper,
    isRunning?: (organizationId: string, id: string) => boolean | Promise<boolean>,
  ): AsyncIterable<Failed>;
  /** Erases what is past its retention; resolves to how many responses went. */
  sweep(): Promise<number>;
  close(): Promise<void>;
}
