// The API generations that are running on this thread, by organization, so that they can be ended when the organization
// is suspended or deleted, or when the key is revoked or expires. Other threads report such changes over the bus. To
// find changes made by other processes, organizations with running generations are checked once a second. Event-loop
// thread only.

import { apiError } from '../shared/errors.js';
import { ActiveSet } from '../shared/active-set.js';

const LOOK_MS = 1_000;

const MESSAGES = {
  organization_suspended: 'Generation stopped: the organization has been suspended.',
  api_key_revoked: 'Generation stopped: the API key has been revoked.',
  service_account_disabled: 'Generation stopped: the service account of the API key has been disabled.',
  api_key_expired: 'Generation stopped: the API key has expired.',
} as const;

/** A run that can be ended with an error from outside. */
export interface Stoppable {
  stop(error: unknown): void;
}

/** The part of the accounts module that this file needs. */
export interface CallerStates {
  /** Returns a function that maps a key ID to the reason why its runs must end, or null. */
  runEnds(organizationId: string, keyIds: readonly string[]): Promise<(keyId: string) => keyof typeof MESSAGES | null>;
  /**
   * Adds a listener and returns a function that removes it. The listener receives null if any organization may have
   * changed.
   */
  onChanged(listener: (organizationId: string | null) => void): () => void;
}

interface Entry {
  readonly keyId: string;
  readonly run: Stoppable;
}

export class RunningGenerations {
  readonly #byOrganization = new Map<string, ActiveSet<Entry>>();
  readonly #timer: NodeJS.Timeout;
  readonly #stopListening: () => void;

  /** `onError`: called when the state of organizations and keys cannot be read. The check is retried later. */
  constructor(
    private readonly states: CallerStates,
    private readonly onError: (error: unknown) => void,
  ) {
    this.#timer = setInterval(() => this.#look(null), LOOK_MS);
    this.#timer.unref();
    this.#stopListening = states.onChanged((organizationId) => this.#look(organizationId));
  }

  /** Adds a run. Returns a function that removes it, which must be called when the run has ended. */
  add(
    { organizationId, keyId }: { readonly organizationId: string; readonly keyId: string },
    run: Stoppable,
  ): () => void {
    let runs = this.#byOrganization.get(organizationId);
    if (runs === undefined) this.#byOrganization.set(organizationId, (runs = new ActiveSet()));
    const own = runs;
    const place = own.add({ keyId, run });
    return () => own.remove(place);
  }

  /** Number of running generations. */
  get size(): number {
    let size = 0;
    for (const runs of this.#byOrganization.values()) size += runs.size;
    return size;
  }

  close(): void {
    clearInterval(this.#timer);
    this.#stopListening();
  }

  #look(organizationId: string | null): void {
    for (const id of organizationId === null ? this.#byOrganization.keys() : [organizationId]) {
      const runs = this.#byOrganization.get(id);
      if (runs === undefined) continue;
      if (runs.size > 0) this.#endRefused(id, [...runs]).catch(this.onError);
      // Empty sets are removed only here, because runs end all the time and removing sets on each end would cost more.
      else this.#byOrganization.delete(id);
    }
  }

  /**
   * Checks only generations that were running when the check started, because the keys of requests admitted during the
   * check have just been verified.
   */
  async #endRefused(id: string, entries: readonly Entry[]): Promise<void> {
    const keyIds = [...new Set(entries.map(({ keyId }) => keyId))];
    const whyEnded = await this.states.runEnds(id, keyIds);
    const refused = new Map(
      keyIds.flatMap((keyId) => {
        const code = whyEnded(keyId);
        return code === null ? [] : [[keyId, apiError(code, MESSAGES[code])] as const];
      }),
    );
    if (refused.size === 0) return;
    const before = new Set(entries);
    for (const entry of [...(this.#byOrganization.get(id) ?? [])]) {
      const error = refused.get(entry.keyId);
      if (error !== undefined && before.has(entry)) entry.run.stop(error);
    }
  }
}
