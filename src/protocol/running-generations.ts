// The generations under way on this thread, by organization, so that those of one that is suspended or deleted
// can be ended wherever that was done: another thread says so by the bus, another process is noticed by looking
// once a second at the organizations that have something running. Event-loop thread only.

import { apiError } from '../errors.js';
import { Roster } from '../shared/roster.js';

const LOOK_MS = 1_000;

/** What can be ended from outside with an error. */
export interface Stoppable { stop(error: unknown): void }

/** The little this needs of the accounts. */
export interface OrganizationStates {
  readonly organizations: {
    /** Null if there is no such organization (any more). */
    get(id: string): Promise<{ readonly status: 'active' | 'suspended' } | null>;
  };
  /** Returns how to stop. Null: any organization. */
  onChanged(listener: (organizationId: string | null) => void): () => void;
}

export class RunningGenerations {
  readonly #byOrganization = new Map<string, Roster<Stoppable>>();
  readonly #timer: NodeJS.Timeout;
  readonly #stopListening: () => void;

  /** `onError`: whether an organization is suspended could not be looked up; it is tried again. */
  constructor(private readonly states: OrganizationStates, private readonly onError: (error: unknown) => void) {
    this.#timer = setInterval(() => this.#look(null), LOOK_MS);
    this.#timer.unref();
    this.#stopListening = states.onChanged((organizationId) => this.#look(organizationId));
  }

  /** Returns how to take it out again, which must be done when it has ended. */
  add(organizationId: string, run: Stoppable): () => void {
    let runs = this.#byOrganization.get(organizationId);
    if (runs === undefined) this.#byOrganization.set(organizationId, (runs = new Roster()));
    const own = runs;
    const place = own.add(run);
    return () => own.remove(place);
  }

  /** Generations under way. */
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
      if (runs.size > 0) this.#endIfSuspended(id, [...runs]).catch(this.onError);
      else this.#byOrganization.delete(id);   // not with each that ends: they come and go all the time
    }
  }

  /** Those that run now: what is admitted while this looks has been looked up itself. */
  async #endIfSuspended(id: string, runs: readonly Stoppable[]): Promise<void> {
    if ((await this.states.organizations.get(id))?.status === 'active') return;
    const error = apiError('organization_suspended', 'The organization of this request has been suspended: the answer ends here.');
    const before = new Set(runs);
    for (const run of [...this.#byOrganization.get(id) ?? []]) if (before.has(run)) run.stop(error);
  }
}
