// The models of this thread that run elsewhere, by name. Event-loop thread only.
import type { CatalogModel } from '../../engine/catalog.js';
import { UpstreamProvider, type UpstreamOptions } from './upstream-provider.js';

/** One server, for metrics. */
export interface UpstreamGauge { readonly model: string; readonly server: string; readonly outstanding: number; readonly answered: number; readonly failed: number; readonly asked: boolean }

export class Upstreams {
  readonly #providers = new Map<string, UpstreamProvider>();

  constructor(models: readonly CatalogModel[], options: UpstreamOptions) {
    for (const model of models) if (model.upstream !== undefined) this.#providers.set(model.id, new UpstreamProvider(model, model.upstream, options));
  }

  get(model: string): UpstreamProvider | undefined {
    return this.#providers.get(model);
  }

  gauges(): UpstreamGauge[] {
    return [...this.#providers].flatMap(([model, { servers }]) => servers.map(({ name, outstanding, answered, failed, shutForMs }) => ({ model, server: name, outstanding, answered, failed, asked: shutForMs === 0 })));
  }

  /** Ends what runs, as it is. */
  drain(): void {
    for (const provider of this.#providers.values()) provider.drain();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#providers.values()].map((provider) => provider.close()));
  }
}
