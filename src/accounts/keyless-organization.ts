// The organization that serves requests without an API key, if the operator allows them.

import { StartError } from '../shared/errors.js';
import type { Identity } from '../shared/identity.js';
import { identityWithoutKey } from './accounts.js';
import type { Accounts } from './accounts.js';
import { organizationSuspended } from './key-cache.js';

/** How long the organization's state is cached, in ms. API keys are cached for the same time. */
const KNOWN_MS = 1_000;

export class KeylessOrganization {
  #identity: Identity | null = null;
  #until = 0;
  readonly #stopListening: () => void;

  private constructor(
    private readonly accounts: Accounts,
    readonly id: string,
    /** Stands in for the key ID in usage records and in the request log. */
    private readonly keyId: string,
  ) {
    this.#stopListening = accounts.onChanged(() => {
      this.#identity = null;
    });
  }

  /**
   * `reference`: an ID or a name. Throws StartError, which names `setting`, unless the reference identifies exactly one
   * organization.
   */
  static async open(
    accounts: Accounts,
    reference: string,
    { setting, keyId }: { setting: string; keyId: string },
  ): Promise<KeylessOrganization> {
    const all = await accounts.organizations.all();
    const byId = all.filter(({ id }) => id === reference);
    const found = byId.length > 0 ? byId : all.filter(({ name }) => name === reference);
    const [one] = found;
    if (one === undefined)
      throw new StartError(
        `${setting}: there is no organization ${JSON.stringify(reference)}. Set it to the name or ID of an existing organization.`,
      );
    if (found.length > 1)
      throw new StartError(
        `${setting}: ${found.length} organizations are named ${JSON.stringify(reference)}. Use the ID of one: ${found
          .slice(0, 10)
          .map(({ id }) => id)
          .join(', ')}.`,
      );
    return new KeylessOrganization(accounts, one.id, keyId);
  }

  /** Throws or rejects with ApiError 403 if the organization is suspended or was deleted. */
  identity(): Identity | Promise<Identity> {
    if (this.#identity !== null && performance.now() < this.#until) return this.#identity;
    return this.#look();
  }

  async #look(): Promise<Identity> {
    const until = performance.now() + KNOWN_MS;
    const organization = await this.accounts.organizations.get(this.id);
    if (organization === null) throw organizationSuspended();
    const identity = identityWithoutKey(organization, this.keyId);
    this.#identity = identity;
    this.#until = until;
    return identity;
  }

  close(): void {
    this.#stopListening();
  }
}
