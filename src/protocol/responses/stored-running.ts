// Tracks foreground responses that are being generated. They are not stored yet, but a client that tries to cancel one
// gets an explanation instead of "not found". Event-loop thread only; other threads are queried over the bus.

import { LocalBus, type ThreadBus } from '../../shared/bus.js';
import type { ResponseRecord } from '../../storage/response-store.js';

export class RunningResponses {
  readonly #organizations = new Map<string, string>(); // by response ID

  constructor(
    private readonly bus: ThreadBus = new LocalBus(),
    background: { find(id: string): { queued: Pick<ResponseRecord, 'organizationId'> } | null } = { find: () => null },
  ) {
    bus.on(
      'response.running',
      ({ organizationId, id, foreground }) =>
        this.has(organizationId, id) || (!foreground && background.find(id)?.queued.organizationId === organizationId),
    );
  }

  /** Lists the response until `ended` resolves. */
  add(organizationId: string, id: string, ended: Promise<unknown>): void {
    this.#organizations.set(id, organizationId);
    void ended.finally(() => this.#organizations.delete(id));
  }

  /** Checks this thread. */
  has(organizationId: string, id: string): boolean {
    return this.#organizations.get(id) === organizationId;
  }

  /**
   * Queries the other threads. Background responses are excluded: a background response that is still running there but
   * cannot be read has ended as far as clients are concerned.
   */
  async runningElsewhere(organizationId: string, id: string): Promise<boolean> {
    return (await this.bus.ask('response.running', { organizationId, id, foreground: true })).includes(true);
  }
}
