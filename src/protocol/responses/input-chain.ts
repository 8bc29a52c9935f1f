// Looks up the stored data that a request refers to: the chain of responses that it continues, and items by ID.
import { apiError, type ApiError } from '../../shared/errors.js';
import type { Exchange } from '../../http/exchange.js';
import type { ServedModel } from '../../generation/served-models.js';
import { MAX_CHAIN_SIZE } from '../../storage/response-size.js';
import type { ConversationHead, ConversationItem, ConversationStore } from '../../storage/conversation-store.js';
import type { ChainedResponse, ResponseStore, StoredItem } from '../../storage/response-store.js';
import type { CreateGeneration, ParsedCreate } from './parse.js';

const PARAM = 'previous_response_id';

/** The chain of responses that a request continues. */
export interface Continued {
  /** The whole chain, root first. */
  chain: readonly ChainedResponse[];
  /** `base`: the last stored response of the chain. `tail`: the responses after it, which are not stored. */
  base: string | null;
  tail: readonly ChainedResponse[];
  /** Size of the stored part of the chain, if known; see itemSize(). */
  size?: number;
  /**
   * Must be called when the chain is no longer needed; until then, it is protected from erasure. May be called more
   * than once.
   */
  release(): void;
  /** The conversation to which the chain's items belong. Absent if the chain consists of earlier responses. */
  head?: ConversationHead;
}

/** The request fields that identify the items preceding its input: a previous response or a conversation. */
type Before = Pick<ParsedCreate, 'previousId' | 'conversationId'>;

export const NOTHING_BEFORE: Continued = { chain: [], base: null, tail: [], release: () => undefined };

/**
 * Finds the response or conversation that a request continues. A request may continue neither. Rejects with ApiError if
 * the response or conversation does not exist, or if the request names both.
 */
export function findBefore(
  exchange: Pick<Exchange, 'enqueue'>,
  { responses, conversations }: BeforeStores,
  organizationId: string,
  { previousId, conversationId }: Before,
): Promise<Continued> {
  if (conversationId !== null && previousId !== null)
    throw apiError('conflicting_parameters', 'conversation and previous_response_id cannot both be given.', PARAM);
  if (conversationId !== null) return findConversation(exchange, conversations, organizationId, conversationId);
  if (previousId !== null) return findChainEnqueued(exchange, responses, organizationId, previousId);
  return Promise.resolve(NOTHING_BEFORE);
}

export interface BeforeStores {
  responses: Pick<ResponseStore, 'chain' | 'size' | 'get'>;
  conversations: Pick<ConversationStore, 'head' | 'items'>;
}

/** Reads the items of a conversation and returns them as a chain. Rejects with ApiError conversation_not_found. */
async function findConversation(
  exchange: Pick<Exchange, 'enqueue'>,
  conversations: BeforeStores['conversations'],
  organizationId: string,
  id: string,
): Promise<Continued> {
  const head = await conversations.head(organizationId, id);
  const items = head === null ? null : await exchange.enqueue(head.size, () => conversations.items(organizationId, id));
  if (head === null || items === null) throw conversationNotFound(id, 'conversation');
  const { createdAt } = head;
  const turns: { input: ConversationItem[]; output: ConversationItem[] }[] = [];
  for (const item of items) {
    let turn = turns.at(-1);
    if (turn === undefined || (item.output !== true && turn.output.length > 0))
      turns.push((turn = { input: [], output: [] }));
    (item.output === true ? turn.output : turn.input).push(item);
  }
  // A conversation's items have no model, so each request that continues a conversation must name one.
  const shared = {
    organizationId,
    model: '',
    createdAt,
    status: 'completed',
    background: false,
    previousId: null,
  } as const;
  return {
    ...NOTHING_BEFORE,
    chain: turns.map((turn) => ({ id, ...shared, ...turn })),
    size: head.size,
    head: { ...head, count: items.length }, // `head.count` may be outdated: items can be added between the two reads
  };
}

export function conversationNotFound(id: string, param: string): ApiError {
  return apiError(
    'conversation_not_found',
    `Conversation with id ${JSON.stringify(id.slice(0, 64))} not found.`,
    param,
  );
}

/**
 * Like findChain(), but queued and charged to the organization by the size of the chain, because a short request can
 * refer to a long chain. Also rejects with ApiError 429.
 */
export async function findChainEnqueued(
  exchange: Pick<Exchange, 'enqueue'>,
  responses: BeforeStores['responses'],
  organizationId: string,
  id: string,
): Promise<Continued> {
  const size = await responses.size(organizationId, id);
  return { ...(await exchange.enqueue(size, () => findChain(responses, organizationId, id))), size };
}

/**
 * Finds the chain that ends with `id` and protects it from erasure. Rejects with ApiError previous_response_not_found
 * or response_not_usable.
 */
export async function findChain(
  responses: Pick<ResponseStore, 'chain' | 'get'>,
  organizationId: string,
  id: string,
): Promise<Continued> {
  const held = await responses.chain(organizationId, id);
  if (held === null) throw previousNotFound(id);
  const { responses: chain, release } = held;
  const last = chain.at(-1);
  if (last?.status !== 'completed' && last?.status !== 'incomplete') {
    release();
    throw apiError(
      'response_not_usable',
      `The previous response is ${String(last?.status).replace('_', ' ')}; only completed and incomplete responses can be continued.`,
      PARAM,
    );
  }
  try {
    // A response that belongs to a conversation has no previous response. The conversation contains its history.
    if (chain.length === 1 && (await responses.get(organizationId, id))?.resource['conversation'] != null)
      throw apiError(
        'response_not_usable',
        'The previous response belongs to a conversation. Continue it with the conversation parameter.',
        PARAM,
      );
  } catch (error) {
    release();
    throw error;
  }
  return { chain, base: id, tail: [], release };
}

export function previousNotFound(id: string): ApiError {
  return apiError(
    'previous_response_not_found',
    `Previous response with id ${JSON.stringify(id.slice(0, 64))} not found.`,
    PARAM,
  );
}

/**
 * Returns the requested model or, if none is requested, the model of the continued response. Throws ApiError 400 if
 * there is neither.
 */
export function modelOf(asked: string | null, chain: readonly ChainedResponse[]): string {
  const model = asked ?? (chain.at(-1)?.model || undefined);
  if (model === undefined)
    throw apiError('missing_required_parameter', 'model is required unless previous_response_id is given.', 'model');
  return model;
}

export interface ContentLookup {
  organizationId: string;
  responses: Pick<ResponseStore, 'items'>;
  /** Throws ApiError 404 or 403. */
  findModel(chain: readonly ChainedResponse[]): ServedModel;
  /**
   * Runs `work`. If `size`, the number of characters in the chain, is large, charges the event-loop time to the
   * organization.
   */
  charged<T>(work: () => T, size: number): T;
}

/**
 * Runs the second half of the checks: model, then content. The caller must release the chain through `created`; if this
 * function throws, the chain has already been released. A request without references to stored items is handled
 * synchronously.
 */
export async function readContent(
  parsed: ParsedCreate,
  continued: Continued,
  lookup: ContentLookup,
): Promise<{ model: ServedModel; created: CreateGeneration }> {
  const { chain, tail, release, head } = continued;
  try {
    const model = lookup.findModel(chain);
    const items = parsed.references.length === 0 ? undefined : await findItems(parsed.references, chain, lookup);
    return {
      model,
      created: lookup.charged(
        () => parsed.content({ model, chain, head, unsaved: tail.length, items, release }),
        continued.size ?? 0,
      ),
    };
  } catch (error) {
    release();
    throw error;
  }
}

/**
 * Reads the referenced items that are not in the chain, up to a maximum total size. If any items are omitted, the input
 * reader rejects the request.
 */
function findItems(
  ids: readonly string[],
  chain: readonly ChainedResponse[],
  { responses, organizationId }: ContentLookup,
): Promise<ReadonlyMap<string, StoredItem>> {
  const wanted = new Set(ids);
  for (const { input, output } of chain) {
    for (const { id } of input) wanted.delete(id);
    for (const { id } of output) wanted.delete(id);
  }
  return responses.items(organizationId, wanted, MAX_CHAIN_SIZE);
}
