// Storage port for chat completions that clients asked to be stored (see docs/internals/storage.md for the
// implementations). Every write resolves when it is durable. Completions of other organizations are treated as unknown.

/** Properties of a stored completion, without its text. */
export interface CompletionHead {
  readonly id: string;
  readonly organizationId: string;
  readonly model: string;
  readonly createdAt: number; // seconds since 1970
  readonly metadata: Readonly<Record<string, string>>;
  /** Number of messages in the request. */
  readonly messages: number;
  /** Number of characters of `body`. */
  readonly size: number;
}

export interface StoredCompletion extends CompletionHead {
  /** The completion as JSON, without `metadata`. */
  readonly body: string;
}

export interface NewCompletion extends Omit<StoredCompletion, 'messages' | 'size'> {
  /** The messages of the request, each as JSON. */
  readonly messages: readonly string[];
}

export interface CompletionQuery {
  /** Null selects any model. */
  readonly model: string | null;
  /** Key-value pairs that the metadata must contain. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly newestFirst: boolean;
  /** ID of the completion after which the page starts; null = first page. The completion may have been deleted. */
  readonly after: string | null;
  readonly limit: number;
}

export interface CompletionPage {
  readonly data: readonly StoredCompletion[];
  readonly more: boolean;
}

export interface MessageQuery {
  readonly newestFirst: boolean;
  /** Index of the message after which the page starts; null = first page. */
  readonly after: number | null;
  readonly limit: number;
}

export interface MessagePage {
  /** Each `message` is JSON. */
  readonly data: readonly { readonly index: number; readonly message: string }[];
  readonly more: boolean;
}

export interface CompletionStore {
  save(completion: NewCompletion): Promise<void>;
  /** Returns null if the completion is unknown, deleted or past its retention. */
  head(organizationId: string, id: string): Promise<CompletionHead | null>;
  /** Returns null in the same cases as head(). */
  get(organizationId: string, id: string): Promise<StoredCompletion | null>;
  /** Replaces the metadata. Returns null in the same cases as head(). */
  setMetadata(
    organizationId: string,
    id: string,
    metadata: Readonly<Record<string, string>>,
  ): Promise<StoredCompletion | null>;
  /** Lists completions by creation time. If they are large, a page may have fewer than `limit` entries. */
  list(organizationId: string, query: CompletionQuery): Promise<CompletionPage>;
  /**
   * Lists the messages of a request. Returns null in the same cases as head(). Large pages are shortened as in
   * list().
   */
  messages(organizationId: string, id: string, query: MessageQuery): Promise<MessagePage | null>;
  /** Resolves to false if head() would return null. */
  delete(organizationId: string, id: string): Promise<boolean>;
  eraseOrganization(organizationId: string): Promise<void>;
  /** Erases completions past their retention. Resolves to the number of erased completions. */
  sweep(): Promise<number>;
}

/** Maximum total number of characters in a page's entries. A single larger entry forms a separate page. */
export const MAX_PAGE_SIZE = 8 * 1024 * 1024;

/** Whether a completion has the model and the metadata of the query. */
export const isListed = (
  { model, metadata }: Pick<CompletionHead, 'model' | 'metadata'>,
  query: Pick<CompletionQuery, 'model' | 'metadata'>,
): boolean =>
  (query.model === null || query.model === model) &&
  Object.entries(query.metadata).every(([key, value]) => metadata[key] === value);
