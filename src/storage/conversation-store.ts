// Storage port for conversations: lists of items that requests read and extend (see docs/internals/storage.md for the
// implementations). Every write resolves when it is durable. Other organizations' conversations are treated as unknown.

import { apiError } from '../shared/errors.js';
import type { ApiError } from '../shared/errors.js';
import type { ItemPage, ItemPageQuery, StoredItem } from './response-store.js';
import { itemRows, sizeOf } from './response-parts.js';
import { MAX_CHAIN_SIZE } from './response-size.js';

/** An item of a conversation. `repeats`: an earlier item has the same ID. */
export interface ConversationItem extends StoredItem {
  /** Whether a response generated the item. */
  readonly output?: boolean | undefined;
}

export interface AppendOptions {
  /**
   * Number of items that the response read. If other items have been added since then, its `compaction` items are left
   * out, because they would replace items that they do not summarize.
   */
  readonly read?: number | undefined;
  /** Adds nothing if the conversation already has an item with this ID, so that an unconfirmed write can be repeated. */
  readonly unless?: string | undefined;
}

export interface ConversationHead {
  readonly id: string;
  readonly organizationId: string;
  readonly createdAt: number; // seconds
  readonly metadata: Readonly<Record<string, string>>;
  /** Number of items. */
  readonly count: number;
  /** Size of all items; see itemSize(). */
  readonly size: number;
}

export type NewConversation = Omit<ConversationHead, 'count' | 'size'>;

export interface ConversationStore {
  /** Rejects with ApiError 422 if the items are too large. */
  create(conversation: NewConversation, items: readonly ConversationItem[]): Promise<void>;
  /** Null if the conversation is unknown, deleted or past its retention. */
  head(organizationId: string, id: string): Promise<ConversationHead | null>;
  /** Null in the same cases as head(). */
  setMetadata(
    organizationId: string,
    id: string,
    metadata: Readonly<Record<string, string>>,
  ): Promise<ConversationHead | null>;
  /**
   * Adds all items at the end, or none, and renews the retention. False in the cases in which head() is null. Rejects
   * with ApiError 422 if the conversation would become too large; output of responses is always accepted, because it
   * has already been generated.
   */
  append(
    organizationId: string,
    id: string,
    items: readonly ConversationItem[],
    options?: AppendOptions,
  ): Promise<boolean>;
  /** All items in order, with the bytes of their images. Null in the same cases as head(). */
  items(organizationId: string, id: string): Promise<readonly ConversationItem[] | null>;
  /**
   * The items in order; an ID that occurs twice is listed at its first position. 'no item': `after` is not one of them.
   */
  page(organizationId: string, id: string, query: ItemPageQuery): Promise<ItemPage | 'no conversation' | 'no item'>;
  /** The first item with this ID, with the bytes of its images. Null if there is none. */
  item(organizationId: string, id: string, itemId: string): Promise<StoredItem | null>;
  /** Removes all items with this ID. False if there are none. */
  removeItem(organizationId: string, id: string, itemId: string): Promise<boolean>;
  /** False if not found. */
  delete(organizationId: string, id: string): Promise<boolean>;
  eraseOrganization(organizationId: string): Promise<void>;
  /** Erases conversations past their retention. Resolves to their number. */
  sweep(): Promise<number>;
}

/** Maximum number of items per conversation. */
export const MAX_CONVERSATION_ITEMS = 20_000;

/** The items to add to a conversation that has `count` items. See AppendOptions. */
export const appended = (
  count: number,
  items: readonly ConversationItem[],
  { read = count }: AppendOptions,
): readonly ConversationItem[] =>
  read === count ? items : items.filter(({ item, output }) => output !== true || item['type'] !== 'compaction');

/** Throws ApiError 422 if a conversation would have too many items or too much text. Returns the size of the new items. */
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
