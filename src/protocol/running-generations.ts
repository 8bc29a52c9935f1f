// What runs on this thread for API keys, by organization, so that it can be ended when the organization is suspended or deleted, or the
// key revoked or expired. Other threads report changes over the bus; changes by other processes are found by looking once a second
// at the organizations that have something running. Event-loop thread only.

import { apiError } from '../shared/errors.js';
import { Roster } from '../shared/roster.js';

const LOOK_MS = 1_000;

const MESSAGES = {
  organization_suspended: 'The organization of this request has been suspended: the answer ends here.',
  api_key_revoked: 'The API key of this request has been revoked: the answer ends here.',
  api_key_expired: 'The API key of this request has expired: the answer ends here.',
} as const;

/** What can be ended from outside with an error. */
export interface Stoppable {
  stop(error: unknown): void;
}

/** The part of the accounts that this needs. */
export interface CallerStates {
  /** For each key id why its runs must end, or null. */
  runEnds(organizationId: string, keyIds: readonly string[]): Promise<(keyId: string) => keyof typeof MESSAGES | null>;
  /** Returns how to stop. Null: any organization. */
  onChanged(listener: (organizationId: string | null) => void): () => void;
}

interface Entry {
  readonly keyId: string;
  readonly run: Stoppable;
}

export class RunningGenerations {
  readonly #byOrganization = new Map<string, Roster<Entry>>();
  readonly #timer: NodeJS.Timeout;
  readonly #stopListening: () => void;

  /** `onError`: the state of organizations and keys could not be looked up; it is tried again. */
  constructor(
    private readonly states: CallerStates,
    private readonly onError: (error: unknown) => void,
  ) {
    this.#timer = setInterval(() => this.#look(null), LOOK_MS);
    this.#timer.unref();
    this.#stopListening = states.onChanged((organizationId) => this.#look(organizationId));
  }

  /** Returns how to remove it again, which must be called when the run has ended. */
  add(
    { organizationId, keyId }: { readonly organizationId: string; readonly keyId: string },
    run: Stoppable,
  ): () => void {
    let runs = this.#byOrganization.get(organizationId);
    if (runs === undefined) this.#byOrganization.set(organizationId, (runs = new Roster()));
    const own = runs;
    const place = own.add({ keyId, run });
    return () => own.remove(place);
  }

  /** What runs now. */
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
      else this.#byOrganization.delete(id); // not with each that ends: they come and go all the time
    }
  }

  /** Only requests that run now: the key of a request that is admitted during the check has just been looked up. */
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
