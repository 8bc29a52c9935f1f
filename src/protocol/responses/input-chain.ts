// What a request refers to in storage: the chain it continues, and items by their ids.
import { apiError, type ApiError } from '../../shared/errors.js';
import type { Exchange } from '../../http/exchange.js';
import type { ServedModel } from '../../generation/served-models.js';
import { MAX_CHAIN_SIZE } from '../../storage/response-size.js';
import type { ChainedResponse, ResponseStore, StoredItem } from '../../storage/response-store.js';
import type { CreateGeneration, ParsedCreate } from './parse.js';

const PARAM = 'previous_response_id';

/** Where a continuation begins. */
export interface Continued {
  /** All of it, root first. */
  chain: readonly ChainedResponse[];
  /** The last of it that is in storage, and those after it, which are not. */
  base: string | null;
  tail: readonly ChainedResponse[];
  /** Of what is stored of it, where that is known; see itemSize(). */
  size?: number;
  /** The chain is not erased until this is called, which may be done more than once. */
  release(): void;
}

export const NOTHING_BEFORE: Continued = { chain: [], base: null, tail: [], release: () => undefined };

/** As findChain(), in turn and on the account of who asks: by what the chain has, however short the request is. Rejects with ApiError 429 too. */
export async function findChainInTurn(
  exchange: Pick<Exchange, 'inTurn'>,
  responses: Pick<ResponseStore, 'chain' | 'size'>,
  organizationId: string,
  id: string,
): Promise<Continued> {
  const size = await responses.size(organizationId, id);
  return { ...(await exchange.inTurn(size, () => findChain(responses, organizationId, id))), size };
}

/** The chain that ends with `id`, held. Rejects with ApiError: previous_response_not_found, response_not_usable. */
export async function findChain(
  responses: Pick<ResponseStore, 'chain'>,
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
      `The previous response is ${String(last?.status).replace('_', ' ')}; only completed and incomplete ones can be continued.`,
      PARAM,
    );
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

/** The model to use: the one asked for, else that of the response continued. Throws ApiError 400 without either. */
export function modelOf(asked: string | null, chain: readonly ChainedResponse[]): string {
  const model = asked ?? chain.at(-1)?.model;
  if (model === undefined)
    throw apiError('missing_required_parameter', 'model is required unless previous_response_id is given.', 'model');
  return model;
}

export interface ContentLookup {
  organizationId: string;
  responses: Pick<ResponseStore, 'items'>;
  /** Throws ApiError 404, 403. */
  findModel(chain: readonly ChainedResponse[]): ServedModel;
  /** Does the work on so many characters of the chain on the account of the organization. */
  charged<T>(work: () => T, size: number): T;
}

/**
 * The second half of the checks: model, then content. Whoever gets `created` releases the chain; what is thrown has
 * released it. Nothing is awaited for a request that names no stored item.
 */
export async function readContent(
  parsed: ParsedCreate,
  continued: Continued,
  lookup: ContentLookup,
): Promise<{ model: ServedModel; created: CreateGeneration }> {
  const { chain, tail, release } = continued;
  try {
    const model = lookup.findModel(chain);
    const items = parsed.references.length === 0 ? undefined : await findItems(parsed.references, chain, lookup);
    return {
      model,
      created: lookup.charged(
        () => parsed.content({ model, chain, unsaved: tail.length, items, release }),
        continued.size ?? 0,
      ),
    };
  } catch (error) {
    release();
    throw error;
  }
}

/** Of those that the chain does not have, as many as may be read together: beyond them the reader of the input refuses the request. */
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
