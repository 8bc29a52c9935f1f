// Stores a chat completion whose request has `store: true`. The completion is stored when the generation has finished,
// before the last byte of the response is sent. A completion that fails or is cancelled is not stored.
import type { Exchange } from '../../http/exchange.js';
import { LARGE_ANSWER_BYTES } from '../../http/response-memory-budget.js';
import type { CompletionStore } from '../../storage/completion-store.js';
import type { ChatEnvelope } from './encode.js';

export class StoredCopy {
  #messages: string[] | null;

  /**
   * `messages`: the request's messages as the client sent them. Throws ApiError 503 if there is not enough memory
   * for them.
   */
  constructor(
    private readonly completions: Pick<CompletionStore, 'save'>,
    exchange: Exchange,
    messages: readonly unknown[],
  ) {
    const { bodyBytes } = exchange;
    if (bodyBytes >= LARGE_ANSWER_BYTES) exchange.reserve(bodyBytes);
    this.#messages = exchange.charged(bodyBytes, () => messages.map((message) => JSON.stringify(message)));
  }

  /** `body`: the completion as JSON, without metadata. Rejects with ApiError 503 if it cannot be stored. */
  async save(
    organizationId: string,
    { id, model, created: createdAt, metadata }: ChatEnvelope,
    body: string,
  ): Promise<void> {
    const messages = this.#messages ?? [];
    this.#messages = null;
    await this.completions.save({ id, organizationId, model, createdAt, metadata: metadata ?? {}, body, messages });
  }
}

/** Adds the `metadata` field to a completion. `body`: the completion as JSON, without metadata. */
export const withMetadata = (body: string, metadata: Readonly<Record<string, string>>): string =>
  `${body.slice(0, -1)},"metadata":${JSON.stringify(metadata)}}`;
