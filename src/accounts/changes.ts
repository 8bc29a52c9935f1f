// Who is told that something of accounts has changed: on this thread at once, on the others by the bus.

import type { ThreadBus } from '../shared/bus.js';

/** Told of changes: of one organization, or null: of any. */
export type AccountsListener = (organizationId: string | null) => void;

export class AccountChanges {
  readonly #listeners = new Set<AccountsListener>();
  readonly #stopListening: () => void;

  constructor(private readonly bus: ThreadBus | null = null) {
    this.#stopListening =
      bus?.on('accounts.changed', ({ organizationId }) => this.#hear(organizationId)) ?? (() => undefined);
  }

  /** Something was changed, and is durable. */
  tell(organizationId: string | null): void {
    this.#hear(organizationId);
    this.bus?.publish('accounts.changed', { organizationId });
  }

  /** Another process has changed something, and each thread hears of it by itself. */
  hear(organizationId: string | null): void {
    this.#hear(organizationId);
  }

  /** Called after each change that this thread makes or hears of, in the order they came to listen. Returns how to stop. */
  on(listener: AccountsListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close(): void {
    this.#stopListening();
  }

  #hear(organizationId: string | null): void {
    for (const listener of [...this.#listeners]) listener(organizationId);
  }
}
