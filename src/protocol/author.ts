// Records the model and upstream that generate a response, and the reasoning that was not passed to them. These are
// known only after the response has started, because a fallback may have taken over.
import type { SealContext, SealedOrigin } from '../accounts/sealing/sealer.js';
import type { LeftOut } from '../generation/types.js';
import type { AdmittedGeneration } from './admit.js';
import type { RunEvent } from './run-tally.js';

export class Author {
  leftOut: readonly LeftOut[];
  model: string;
  #upstream: string | null = null;

  constructor(
    private readonly organizationId: string,
    { model, request }: Pick<AdmittedGeneration, 'model' | 'request'>,
  ) {
    this.model = model;
    this.leftOut = request.leftOut ?? [];
  }

  take(event: RunEvent): void {
    if (event.type !== 'started' && event.type !== 'continued') return;
    if (event.type === 'started') this.leftOut = event.leftOut ?? [];
    this.model = event.model ?? this.model;
    this.#upstream = event.upstream ?? null;
  }

  /** `block`: the upstream's own block that contains the text to be sealed. */
  context(block: SealedOrigin['block']): SealContext {
    return { organizationId: this.organizationId, model: this.model, origin: this.origin(block) };
  }

  origin(block: SealedOrigin['block']): SealedOrigin | null {
    return this.#upstream === null ? null : { upstream: this.#upstream, block };
  }
}
