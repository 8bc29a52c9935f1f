// Stored responses: what a client can retrieve, continue and list. Implemented over the tables of a Store;
// every read is synchronous, every write resolves when it is on disk. Isolated per organization: another
// organization's id is unknown here.

/** An item as stored: the wire form of the Responses API with its id, plus bytes of images that were loaded. */
export interface StoredItem {
  readonly id: string;
  readonly item: Readonly<Record<string, unknown>>;              // wire form, `id` included
  /** Bytes of the item's images by their index among its image parts; what `image_url` said stays in `item`. */
  readonly images?: readonly Uint8Array[] | undefined;
}

export type ResponseStatus = 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';

export interface ResponseRecord {
  readonly id: string;
  readonly organizationId: string;
  readonly model: string;
  readonly createdAt: number;                                    // seconds
  readonly status: ResponseStatus;
  readonly background: boolean;
  readonly previousId: string | null;
  /** The resource as last published, output included. */
  readonly resource: Readonly<Record<string, unknown>>;
  readonly input: readonly StoredItem[];                         // this request's own, without the chain's
  readonly output: readonly StoredItem[];
}

/** One event of a background response, as sent. */
export interface StoredEvent { readonly sequence: number; readonly type: string; readonly data: string }

export interface ResponseStore {
  /** Writes or replaces a response and indexes its items. All of it or nothing is there after a crash. */
  save(record: ResponseRecord): Promise<void>;
  /** Null if unknown, deleted, past its retention, or another organization's. */
  get(organizationId: string, id: string): ResponseRecord | null;
  /**
   * The chain that ends with `id`, root first; null where get() is null. Ancestors that were deleted or have
   * expired are part of it as long as a younger response needs them.
   */
  chain(organizationId: string, id: string): readonly ResponseRecord[] | null;
  /** One item of any readable response of the organization. */
  item(organizationId: string, itemId: string): StoredItem | null;
  /** False if there is no such response. Items go with the last descendant that needs them. */
  delete(organizationId: string, id: string): Promise<boolean>;
  /** Event log of a background response; kept until an hour after its end. */
  appendEvents(id: string, events: readonly StoredEvent[]): Promise<void>;
  /** Null if there is no log (any more). */
  events(id: string, after: number): readonly StoredEvent[] | null;
  /** Marks every queued or running background response failed: they were running when the process ended. */
  failUnfinished(): Promise<number>;
  /** Erases what is past its retention; resolves to how many responses went. */
  sweep(): Promise<number>;
  close(): Promise<void>;
}
