// The memory of one WebSocket connection: the chains of its most recent responses, including unsaved ones, so that a
// client that sets `store: false` can continue them. Freed when the connection closes.
//
//   stored  ◄─ stored  ◄─ unsaved ◄─ unsaved          an entry keeps the unsaved end (`tail`) and the ID of
//   └──── in storage ──┘ └────── tail ──────┘         the last stored response before it (`base`)
import type { Exchange } from '../../http/exchange.js';
import type { ChainedResponse, ResponseStore } from '../../storage/response-store.js';
import { NOTHING_BEFORE, findChainEnqueued, previousNotFound, type Continued } from './input-chain.js';

const MAX_RESPONSES = 8;

type Entry = Pick<Continued, 'base' | 'tail'>;

export class SocketMemory {
  readonly #entries = new Map<string, Entry>(); // oldest first
  readonly #sizes = new WeakMap<ChainedResponse, number>();

  /**
   * `maxBytes`: maximum total size of the unsaved responses. A response counts as many bytes as the message that
   * requested it.
   */
  constructor(
    private readonly responses: Pick<ResponseStore, 'chain' | 'size' | 'get'>,
    private readonly maxBytes: number,
  ) {}

  get size(): number {
    return this.#entries.size;
  }

  /**
   * Finds the chain that ends with `id`, in memory or in storage. Its stored part is protected from erasure. Rejects
   * with ApiError previous_response_not_found or response_not_usable.
   */
  async find(
    organizationId: string,
    id: string,
    enqueue: Exchange['enqueue'] = (_size, work) => work(),
  ): Promise<Continued> {
    const entry = this.#entries.get(id);
    if (entry === undefined) return findChainEnqueued({ enqueue }, this.responses, organizationId, id);
    const { base, tail } = entry;
    if (base === null) return { ...NOTHING_BEFORE, chain: tail, tail };
    const size = await this.responses.size(organizationId, base);
    const stored = await enqueue(size, () => this.responses.chain(organizationId, base));
    if (stored === null) {
      // The stored part was deleted in the meantime, so the unsaved part is dropped too.
      this.#entries.delete(id);
      throw previousNotFound(id);
    }
    return { chain: [...stored.responses, ...tail], base, tail, size, release: stored.release };
  }

  /**
   * Adds a response that can be continued. `size`: number of bytes that the response takes in memory unless it was
   * saved.
   */
  remember(record: ChainedResponse, saved: boolean, continued: Entry, size: number): void {
    this.#sizes.set(record, size);
    this.#entries.set(
      record.id,
      saved ? { base: record.id, tail: [] } : { base: continued.base, tail: [...continued.tail, record] },
    );
    while (this.#entries.size > MAX_RESPONSES || (this.#entries.size > 0 && this.#bytes() > this.maxBytes)) {
      this.#entries.delete(this.#entries.keys().next().value as string);
    }
  }

  forget(id: string): void {
    this.#entries.delete(id);
  }

  clear(): void {
    this.#entries.clear();
  }

  #bytes(): number {
    const seen = new Set<ChainedResponse>();
    for (const { tail } of this.#entries.values()) for (const record of tail) seen.add(record);
    let bytes = 0;
    for (const record of seen) bytes += this.#sizes.get(record) ?? 0;
    return bytes;
  }
}
