// The models of this thread that run elsewhere, by name. Event-loop thread only.
import type { CatalogModel } from '../../engine/catalog.js';
import { UpstreamProvider, type UpstreamOptions } from './upstream-provider.js';

export class Upstreams {
  readonly #providers = new Map<string, UpstreamProvider>();

  constructor(models: readonly CatalogModel[], options: UpstreamOptions) {
    for (const model of models)
      if (model.upstream !== undefined)
        this.#providers.set(model.id, new UpstreamProvider(model, model.upstream, options));
  }

  /** Asks those for their context that the settings give none: it is known when it is published. */
  look(): void {
    for (const provider of this.#providers.values()) void provider.contextWindow;
  }

  get(model: string): UpstreamProvider | undefined {
    return this.#providers.get(model);
  }

  /** Ends what runs, as it is. */
  drain(): void {
    for (const provider of this.#providers.values()) provider.drain();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#providers.values()].map((provider) => provider.close()));
  }
}
