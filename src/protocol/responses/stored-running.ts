// Which foreground responses are being generated: they are not stored yet, but a client who cancels one is told
// why that cannot be, rather than that it does not exist. Event-loop thread only; other threads are asked.

import { LocalBus, type ThreadBus } from '../../shared/bus.js';
import type { ResponseRecord } from '../../storage/response-store.js';

export class RunningResponses {
  readonly #organizations = new Map<string, string>(); // by response id

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

  /** Until `ended` resolves. */
  add(organizationId: string, id: string, ended: Promise<unknown>): void {
    this.#organizations.set(id, organizationId);
    void ended.finally(() => this.#organizations.delete(id));
  }

  /** On this thread. */
  has(organizationId: string, id: string): boolean {
    return this.#organizations.get(id) === organizationId;
  }

  /** On another thread. A background response is none: one that cannot be read and still runs there is over for its clients. */
  async elsewhere(organizationId: string, id: string): Promise<boolean> {
    return (await this.bus.ask('response.running', { organizationId, id, foreground: true })).includes(true);
  }
}
