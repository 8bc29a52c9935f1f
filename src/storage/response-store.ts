// Storage port for stored responses, which can be retrieved, continued and listed (see docs/internals/storage.md for
// the implementations). Reads resolve to complete data; nothing is loaded lazily. Every write resolves when it is
// durable. Other organizations' responses are treated as unknown.

import type { StoredEvent } from '../shared/stored-event.js';
import type { FinishedUsage } from '../shared/usage-sink.js';

/** A stored item: its Responses API form, including its ID, plus the bytes of loaded images. */
export interface StoredItem {
  readonly id: string;
  /**
   * Responses API form, including `id`. If the bytes are in `images`, the data URL contains no data:
   * `data:image/png;base64,`.
   */
  readonly item: Readonly<Record<string, unknown>>;
  /** Bytes of the item's images, by index among its image parts. */
  readonly images?: readonly Uint8Array[] | undefined;
  /**
   * Whether the same ID occurred earlier in the chain or in the same input. If so, the item is listed only at the
   * earlier position.
   */
  readonly repeats?: boolean | undefined;
}

export type ResponseStatus = 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';

/** Whether the response is still running. If so, it is a background response. */
export const isUnfinished = (status: ResponseStatus): boolean => status === 'queued' || status === 'in_progress';

/** A response without its content. */
export interface ResponseHead {
  readonly id: string;
  readonly organizationId: string;
  readonly model: string;
  readonly createdAt: number; // seconds
  readonly status: ResponseStatus;
  readonly background: boolean;
  /**
   * The stored response that this response continues. Null if it continues an unsaved response, whose items are then
   * part of this response's `input`.
   */
  readonly previousId: string | null;
}

/** A response, as retrieved by a client. */
export interface StoredResponse extends ResponseHead {
  /** The resource as last published, including its output. */
  readonly resource: Readonly<Record<string, unknown>>;
}

/** The parts of a response that a continuation needs. */
export interface ChainedResponse extends ResponseHead {
  readonly input: readonly StoredItem[]; // only this request's input, without the chain's
  readonly output: readonly StoredItem[];
}

/** The data to save. */
export interface ResponseRecord extends StoredResponse, ChainedResponse {
  /** createdAt with fractional seconds, which determines the order in list(); defaults to createdAt. */
  readonly madeAt?: number | undefined;
}

/** A chain that is protected from erasure until release() is called. release() may be called repeatedly. */
export interface HeldChain {
  /** Root first. */
  readonly responses: readonly ChainedResponse[];
  release(): void;
}

export interface ItemPageQuery {
  newestFirst: boolean;
  /** ID of the item after which the page starts; null = from the beginning. */
  after: string | null;
  limit: number;
  /** Whether to load the bytes of images. */
  images: boolean;
}

export interface ItemPage {
  readonly items: readonly StoredItem[];
  readonly more: boolean;
}

/** Completes interrupted responses, and logs that lack their last events. */
export interface LogFinalizer {
  /**
   * Converts an unfinished response to a failed one, with the content of its log. `usage`: the usage recorded with its
   * last events; null if there is no usage to count.
   */
  fail(response: StoredResponse, log: readonly StoredEvent[], usage: FinishedUsage | null): Failed;
  /**
   * Returns the events that are missing from the log of an ended response; [] if there are none. An empty log is not
   * missing anything, because its response is replayed from its items.
   */
  missing(response: StoredResponse, last: StoredEvent): readonly StoredEvent[];
}

export interface Failed {
  readonly record: ResponseRecord;
  readonly usage: FinishedUsage | null;
}

/** A stored response without its content. Times are in seconds. */
export interface ResponseSummary {
  readonly id: string;
  readonly model: string;
  readonly status: ResponseStatus;
  readonly background: boolean;
  readonly createdAt: number;
  readonly expiresAt: number;
  /** The first words of the prompt; null if it has no text, or was stored by an earlier release. */
  readonly preview: string | null;
}

export interface ResponsePage {
  readonly data: readonly ResponseSummary[];
  readonly next: string | null;
}

/** Writes reject with ApiError 503 maintenance if the storage cannot be written. */
export interface ResponseStore {
  /**
   * Writes or replaces a response and indexes its items. Atomic, even if the process crashes. The `input` and
   * `previousId` of an existing response do not change. A background response is first saved as queued; if it is
   * deleted after that, later saves do nothing.
   */
  save(record: ResponseRecord): Promise<void>;
  /** Resolves to null if the response is unknown, deleted, past its retention, or belongs to another organization. */
  head(organizationId: string, id: string): Promise<ResponseHead | null>;
  /** The size of the chain that ends with `id`; see itemSize(). 0 if there is none. */
  size(organizationId: string, id: string): Promise<number>;
  /** Resolves to null in the same cases as head(). */
  get(organizationId: string, id: string): Promise<StoredResponse | null>;
  /**
   * Returns the chain that ends with `id`, held before it is read. The caller releases it after saving a continuation.
   * Until then, it can be continued even if it is deleted, although its IDs are reported as not found. Resolves to null
   * if get() would, or if an ancestor was erased before the response was saved. Ancestors that were deleted or have
   * expired are part of the chain for as long as a newer response needs them. Rejects with ApiError 422 if the chain is
   * longer than MAX_CHAIN or larger than MAX_CHAIN_SIZE; the request's own input does not count.
   */
  chain(organizationId: string, id: string): Promise<HeldChain | null>;
  /**
   * Returns the items from which a response was generated, including the remaining part of its chain. An ID that occurs
   * twice is listed at its first position. Reads no more than the page. Resolves to 'no response' if get() would
   * resolve to null, and to 'no item' if `after` is not one of the response's items.
   */
  inputItems(organizationId: string, id: string, page: ItemPageQuery): Promise<ItemPage | 'no response' | 'no item'>;
  /**
   * Returns items by ID, from any of the organization's readable responses; if several contain the ID, from the newest.
   * The items are in the order of `ids`, and end when the total size of the preceding items exceeds `maxSize`; see
   * itemSize().
   */
  items(organizationId: string, ids: Iterable<string>, maxSize: number): Promise<ReadonlyMap<string, StoredItem>>;
  /**
   * Returns an organization's stored responses, newest first. `after`: the `next` value from the previous page.
   * Resolves to null if `after` is invalid.
   */
  list(organizationId: string, limit: number, after: string | null): Promise<ResponsePage | null>;
  /** Erases all of an organization's stored responses. Resolves to their number. */
  eraseOrganization(organizationId: string): Promise<number>;
  /** Resolves to false if not found. Items are kept until no descendant needs them. */
  delete(organizationId: string, id: string): Promise<boolean>;
  /**
   * Appends to a background response's event log; ignored if the response was deleted. The log is kept for an hour
   * after the response ends. `usage`: the usage that counts if the response is lost; see failUnfinished().
   */
  appendEvents(id: string, events: readonly StoredEvent[], usage?: FinishedUsage | null): Promise<void>;
  /**
   * Returns the events with a sequence number above `after`, in order, at least `atLeast` of them if available.
   * Resolves to null if there is no log or it has been erased.
   */
  events(id: string, after: number, atLeast?: number): Promise<readonly StoredEvent[] | null>;
  /** Returns the last event in the log. Resolves to null if there is no log or it has been erased. */
  lastEvent(id: string): Promise<StoredEvent | null>;
  /**
   * Ends every queued or running background response through `finalizer`, and completes the logs of responses that have
   * already ended. By default, covers all responses that were running when the process ended; with `isRunning`, only
   * responses for which it returns false. Yields each failed response after it is stored; a later error does not roll
   * back earlier ones.
   */
  failUnfinished(
    finalizer: LogFinalizer,
    isRunning?: (organizationId: string, id: string) => boolean | Promise<boolean>,
  ): AsyncIterable<Failed>;
  /** Erases responses past their retention. Resolves to their number. */
  sweep(): Promise<number>;
  close(): Promise<void>;
}
