// Checks access to server-wide data and actions. Reading server-wide data, including other organizations' load,
// requires the scrape token or an operator API key. Actions that affect all clients require an operator API key without
// restrictions. An operator API key was created by a user who is an operator or, in the first organization, on the
// machine itself (first startup, configuration, command line).

import { createHash, timingSafeEqual } from 'node:crypto';
import { ApiError, apiError } from '../shared/errors.js';
import { identify } from '../http/authentication.js';
import type { Exchange } from '../http/exchange.js';
import type { Identity } from '../shared/identity.js';
import type { Accounts } from './accounts.js';
import { ALL_SCOPES } from './keys.js';
import { FIRST_ORGANIZATION_NUMBER } from './organizations.js';
import type { Users } from './users.js';

export class ServerReaders {
  readonly #token: Buffer | null;

  constructor(
    token: string | null,
    private readonly accounts: Accounts,
    private readonly users: Users,
  ) {
    this.#token = token === null ? null : digest(token);
  }

  /** Rejects with ApiError 401 or 403. */
  async check(exchange: Exchange): Promise<void> {
    const who = await identify<Identity | null>(
      (name) => exchange.header(name),
      exchange,
      (key, from) => (this.#isToken(key) ? null : this.accounts.authenticate(key, from)),
    );
    if (who === null) return;
    exchange.actAs(who);
    if (!(await this.#isOperators(who)))
      throw apiError('endpoint_not_allowed', "This requires an operator's API key or the token set in metrics.token.");
  }

  /**
   * Checks that the client may perform actions that affect all clients. This requires an operator API key with all
   * scopes and all models; the scrape token is not accepted. Must be called after the client has been authenticated.
   * Rejects with ApiError 403.
   */
  async checkOperator({ identity }: Pick<Exchange, 'identity'>): Promise<void> {
    if (!(await this.#isOperators(identity)))
      throw apiError('endpoint_not_allowed', "This requires an operator's API key.");
    const { scopes, models } = identity;
    if (!ALL_SCOPES.every((scope) => scopes.includes(scope)) || !models.includes('*'))
      throw apiError(
        'endpoint_not_allowed',
        "This requires an operator's API key that has all permissions and may use all models.",
      );
  }

  /** Like check(), but returns whether access is allowed. Used for data that other clients receive in reduced form. */
  async has(exchange: Exchange): Promise<boolean> {
    try {
      await this.check(exchange);
      return true;
    } catch (error) {
      if (error instanceof ApiError) return false;
      throw error;
    }
  }

  #isToken(key: string): boolean {
    return this.#token !== null && timingSafeEqual(digest(key), this.#token);
  }

  async #isOperators({ organizationId, organizationNumber, keyId }: Identity): Promise<boolean> {
    const key = await this.accounts.keys.get(organizationId, keyId);
    if (key === null) return false;
    if (key.createdBy === null) return organizationNumber === FIRST_ORGANIZATION_NUMBER;
    const user = await this.users.get(key.createdBy);
    return user?.operator === true && !user.locked;
  }
}

// Hashes the token to a fixed length, so that the time taken by the comparison reveals nothing about it.
const digest = (text: string): Buffer => createHash('sha256').update(text, 'utf8').digest();
