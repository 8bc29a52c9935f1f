// Storage port for conversations, which are lists of items that requests read and extend (see docs/internals/storage.md
// for the implementations). Every write resolves when it is durable. A conversation of another organization is treated
// as unknown.

import { apiError } from '../shared/errors.js';
import type { ApiError } from '../shared/errors.js';
import type { ItemPage, ItemPageQuery, StoredItem } from './response-store.js';
import { itemRows, sizeOf } from './response-parts.js';
import { MAX_CHAIN_SIZE } from './response-size.js';

/** An item of a conversation. `repeats`: whether an earlier item has the same ID. */
export interface ConversationItem extends StoredItem {
  /** Whether the model generated the item in a response. */
  readonly output?: boolean | undefined;
}

export interface AppendOptions {
  /**
   * Number of conversation items that were this response's input. If items have been added since, the response's
   * `compaction` items are not stored, because they would replace items that they do not summarize.
   */
  readonly read?: number | undefined;
  /**
   * If the conversation already contains an item with this ID, no items are added, so that an unconfirmed write can be
   * repeated.
   */
  readonly unless?: string | undefined;
}

export interface ConversationHead {
  readonly id: string;
  readonly organizationId: string;
  readonly createdAt: number; // seconds since 1970
  readonly metadata: Readonly<Record<string, string>>;
  /** Number of items in the conversation. */
  readonly count: number;
  /** Total size of all items, in the unit of itemSize(). */
  readonly size: number;
}

export type NewConversation = Omit<ConversationHead, 'count' | 'size'>;

export interface ConversationStore {
  /**
   * Stores a new conversation. Rejects with ApiError 422 if its items are too large, or if the organization has too
   * many conversations.
   */
  create(conversation: NewConversation, items: readonly ConversationItem[]): Promise<void>;
  /** Returns the conversation without its items, or null if it is unknown, deleted or past its retention. */
  head(organizationId: string, id: string): Promise<ConversationHead | null>;
  /**
   * Returns conversations without their items, newest first. `before`: returns only conversations with a lower ID;
   * null = all.
   */
  list(organizationId: string, limit: number, before: string | null): Promise<ConversationHead[]>;
  /** Replaces the metadata. Returns null in the same cases as head(). */
  setMetadata(
    organizationId: string,
    id: string,
    metadata: Readonly<Record<string, string>>,
  ): Promise<ConversationHead | null>;
  /**
   * Appends either all items or none, and renews the retention. Resolves to false if head() would return null. Rejects
   * with ApiError 422 if the conversation would become too large. The output of responses is always accepted, because
   * it has already been generated.
   */
  append(
    organizationId: string,
    id: string,
    items: readonly ConversationItem[],
    options?: AppendOptions,
  ): Promise<boolean>;
  /** Returns all items in order, with the bytes of their images. Returns null in the same cases as head(). */
  items(organizationId: string, id: string): Promise<readonly ConversationItem[] | null>;
  /**
   * Returns a page of items in order. An ID that occurs twice is listed at its first position. Resolves to 'no item' if
   * the conversation has no item with the ID `after`.
   */
  page(organizationId: string, id: string, query: ItemPageQuery): Promise<ItemPage | 'no conversation' | 'no item'>;
  /** Returns the first item with this ID, with the bytes of its images. Returns null if there is none. */
  item(organizationId: string, id: string, itemId: string): Promise<StoredItem | null>;
  /** Removes all items with this ID. Resolves to false if there are none. */
  removeItem(organizationId: string, id: string, itemId: string): Promise<boolean>;
  /** Deletes a conversation. Resolves to false if it is not found. */
  delete(organizationId: string, id: string): Promise<boolean>;
  eraseOrganization(organizationId: string): Promise<void>;
  /** Erases conversations past their retention. Resolves to the number of erased conversations. */
  sweep(): Promise<number>;
}

export interface ConversationSettings {
  readonly retention_days: number;
  /** Maximum number of conversations per organization. Default: unlimited. */
  readonly max_conversations?: number;
}

/** Throws ApiError 422 if an organization that already has `count` conversations may not have another one. */
export function checkConversationCount(count: number, max: number): void {
  if (count >= max)
    throw apiError(
      'too_many_conversations',
      `This organization has ${count} conversations, which is the maximum (\`responses.max_conversations\`). Delete some of them, or wait until they expire.`,
    );
}

/** Maximum number of items per conversation. */
export const MAX_CONVERSATION_ITEMS = 20_000;

/** Selects which of `items` to append to a conversation that has `count` items; see AppendOptions. */
export const appended = (
  count: number,
  items: readonly ConversationItem[],
  { read = count }: AppendOptions,
): readonly ConversationItem[] =>
  read === count ? items : items.filter(({ item, output }) => output !== true || item['type'] !== 'compaction');

/**
 * Throws ApiError 422 if a conversation would have too many items or too much text. Returns the size of the added
 * items.
 */
export function checkConversationSize(
  known: Pick<ConversationHead, 'count' | 'size'>,
  added: readonly ConversationItem[],
): number {
  const given = added.filter(({ output }) => output !== true);
  if (given.length > 0 && known.count + given.length > MAX_CONVERSATION_ITEMS)
    throw tooLarge(`A conversation may have at most ${MAX_CONVERSATION_ITEMS} items.`);
  if (given.length > 0 && known.size + sizeOf(itemRows(given)) > MAX_CHAIN_SIZE)
    throw tooLarge('The conversation is too large.');
  return sizeOf(itemRows(added));
}

const tooLarge = (message: string): ApiError =>
  apiError('conversation_too_large', `${message} Start a new one with the items you need.`, 'conversation');
