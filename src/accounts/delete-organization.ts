// What becomes of an organization that its owner deletes. It is gone for everybody with one transaction; what it
// leaves (keys, stored responses) goes in short steps after that, taken up again at the next start if need be.

import type { ResponseStore } from '../storage/response-store.js';
import type { Accounts } from './accounts.js';
import type { Actor } from './audit.js';
import type { Directory } from './directory.js';

// What still ran when it was deleted may be stored a little later.
const LATE_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** Resolves when its keys are revoked; the responses go on being erased, `erased` tells when they are. */
export async function deleteOrganization(directory: Directory, accounts: Accounts, responses: ResponseStore, id: string, actor: Actor): Promise<{ erased: Promise<unknown> }> {
  const { store, organizations, memberships, invites, audit } = directory;
  await store.transaction(() => {
    for (const { userId } of memberships.ofOrganization(id)) memberships.remove(id, userId);
    invites.removeAll(id);
    audit.note(id, actor, 'organization.deleted', id, { name: organizations.get(id)?.name ?? null });
    organizations.markDeleted(id);
  });
  accounts.changed(id);
  await accounts.keys.revokeAll(id);
  return { erased: responses.eraseOrganization(id) };
}

/**
 * Goes on with deletions that were cut short, or were followed by something stored late. Keys are kept `keyDays`
 * more: so long whoever still sends one is told that it is revoked. After that nobody knows them.
 */
export async function finishDeletions(directory: Directory, accounts: Accounts, responses: ResponseStore, keyDays: number, now = Date.now()): Promise<void> {
  const { organizations, store } = directory;
  for (const { id, deletedAt } of organizations.halfDeleted()) {
    await accounts.keys.revokeAll(id);
    await responses.eraseOrganization(id);
    if (Date.parse(deletedAt ?? '') + LATE_MS < now) await store.transaction(() => organizations.markErased(id, 'erased'));
  }
  for (const { id } of organizations.deletedBefore(now - keyDays * DAY_MS)) {
    await accounts.keys.eraseAll(id);
    await store.transaction(() => {
      accounts.settings.remove(id);
      organizations.markErased(id, 'keysErased');
    });
  }
}
