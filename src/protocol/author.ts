// Who wrote a response, and without which reasoning: known once the response has started, because a fallback may have
// taken over.
import type { SealContext } from '../accounts/sealing/sealer.js';
import type { LeftOut } from '../generation/types.js';
import type { AdmittedGeneration } from './admit.js';
import type { RunEvent } from './generation-accounting.js';

export class Author {
  leftOut: readonly LeftOut[];
  #model: string;

  constructor(
    private readonly organizationId: string,
    { model, request }: Pick<AdmittedGeneration, 'model' | 'request'>,
  ) {
    this.#model = model;
    this.leftOut = request.leftOut ?? [];
  }

  take(event: RunEvent): void {
    if (event.type !== 'started') return;
    this.leftOut = event.leftOut ?? [];
    this.#model = event.model ?? this.#model;
  }

  /** For sealing what it wrote. */
  get context(): SealContext {
    return { organizationId: this.organizationId, model: this.#model };
  }
}
