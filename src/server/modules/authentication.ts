// Authentication of API keys and of clients that may read server-wide data.

import { Accounts } from '../../accounts/accounts.js';
import { ServerReaders } from '../../accounts/server-readers.js';
import { UnknownKeys } from '../../accounts/unknown-keys.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Storage } from './storage.js';

export interface Authentication extends Module {
  readonly accounts: Accounts;
  readonly readers: ServerReaders;
}

export function openAuthentication({
  config,
  shared,
  storage: { directory, changes, keyCachePolicy },
}: AppContext & { storage: Storage }): Promise<Authentication> {
  return openModule((undo) => {
    const accounts = new Accounts(
      directory,
      changes,
      keyCachePolicy,
      new UnknownKeys(shared.unknownKeys, shared.process),
    );
    undo.add(() => accounts.close());
    return { accounts, readers: new ServerReaders(config.metrics.token, accounts, directory.users) };
  });
}
