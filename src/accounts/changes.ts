// Notifies listeners of changes to accounts: immediately on this thread, and through the bus on the other threads.

import type { ThreadBus } from '../shared/bus.js';

/** Called with the ID of the organization that changed, or with null if any organization may have changed. */
export type AccountsListener = (organizationId: string | null) => void;

export class AccountChanges {
  readonly #listeners = new Set<AccountsListener>();
  readonly #stopListening: () => void;

  constructor(private readonly bus: ThreadBus | null = null) {
    this.#stopListening =
      bus?.on('accounts.changed', ({ organizationId }) => this.#notifyListeners(organizationId)) ?? (() => undefined);
  }

  /** Reports a durable change that this thread has made. */
  notify(organizationId: string | null): void {
    this.#notifyListeners(organizationId);
    this.bus?.publish('accounts.changed', { organizationId });
  }

  /**
   * Reports a change made by another process. Such changes are not forwarded over the bus, because every thread is
   * notified separately.
   */
  receive(organizationId: string | null): void {
    this.#notifyListeners(organizationId);
  }

  /**
   * Calls the listener after each change that this thread makes or is notified of. Listeners are called in order of
   * registration. Returns a function that unsubscribes it.
   */
  on(listener: AccountsListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close(): void {
    this.#stopListening();
  }

  #notifyListeners(organizationId: string | null): void {
    for (const listener of [...this.#listeners]) listener(organizationId);
  }
}
