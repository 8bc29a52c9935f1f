// This thread's upstream models, by name. Event-loop thread only.
import type { CatalogModel } from '../../engine/catalog.js';
import { UpstreamProvider, type UpstreamOptions } from './upstream-provider.js';

export class Upstreams {
  readonly #providers = new Map<string, UpstreamProvider>();

  constructor(models: readonly CatalogModel[], options: UpstreamOptions) {
    for (const model of models)
      if (model.upstream !== undefined)
        this.#providers.set(model.id, new UpstreamProvider(model, model.upstream, options));
  }

  /** Queries the context sizes that are not configured, so that they are known when models are listed. */
  look(): void {
    for (const provider of this.#providers.values()) void provider.contextWindow;
  }

  get(model: string): UpstreamProvider | undefined {
    return this.#providers.get(model);
  }

  /** Ends all running requests with an error. */
  drain(): void {
    for (const provider of this.#providers.values()) provider.drain();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#providers.values()].map((provider) => provider.close()));
  }
}
