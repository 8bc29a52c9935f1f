// The API key of one conversation: created when the conversation starts, valid for an hour, renewed while it lasts, and
// revoked when it ends. Each of these steps is recorded in the organization's audit log.

import type { Accounts } from '../accounts/accounts.js';
import type { Actor } from '../accounts/audit.js';
import type { KeyRecord } from '../accounts/keys.js';
import type { Config } from '../config/settings.js';
import type { Scope } from '../shared/identity.js';
import { withStores } from '../server/command-stores.js';

const LIFE_MS = 3_600_000;
/**
 * If the key expires sooner than this, it is renewed before the next message, because a response may take a long time.
 */
const ENOUGH_MS = LIFE_MS / 2;

const ACTOR: Actor = { type: 'command_line', id: null, email: null, ip: null };

export interface KeyUse {
  readonly name: string;
  readonly scopes: Scope[];
}

const CONVERSATION: KeyUse = { name: 'monolith chat', scopes: ['inference', 'models.read'] };

/**
 * Runs `work` on the accounts of a server in this process. If there is no such server, opens the data directory while
 * `work` runs.
 */
export type WithAccounts = <T>(work: (accounts: Accounts) => Promise<T>) => Promise<T>;

/**
 * Creating a key requires no further permission, because a user who can read the data directory or has the shared
 * database's URL can create keys anyway.
 */
export function accountsOf(config: Pick<Config, 'data_dir' | 'database'>): WithAccounts {
  return (work) => withStores(config, ({ accounts }) => work(accounts));
}

export class ChatKey {
  private key: KeyRecord | null = null;
  private secret = '';

  /** `use`: the key's name and scopes. Defaults to the values for a conversation. */
  constructor(
    private readonly withAccounts: WithAccounts,
    private readonly now: () => number = Date.now,
    private readonly use: KeyUse = CONVERSATION,
  ) {}

  /** Returns a key that stays valid for at least half an hour. */
  async current(): Promise<string> {
    const { key } = this;
    if (key !== null && Date.parse(key.expiresAt ?? '') - this.now() >= ENOUGH_MS) return this.secret;
    const expiresAt = new Date(this.now() + LIFE_MS);
    await this.withAccounts(async (accounts) => {
      this.key =
        key === null || (await accounts.keys.get(key.organizationId, key.id))?.revokedAt !== null
          ? null
          : await accounts.keys.change(key.organizationId, key.id, { expiresAt }, ACTOR);
      if (this.key !== null) return;
      const made = await accounts.createKey({ ...this.use, expiresAt, temporary: true }, undefined, ACTOR);
      this.key = made.key;
      this.secret = made.secret;
    });
    return this.secret;
  }

  /** Idempotent. */
  async revoke(): Promise<void> {
    const { key } = this;
    this.key = null;
    if (key !== null) await this.withAccounts((accounts) => accounts.keys.revoke(key.organizationId, key.id, ACTOR));
  }
}
