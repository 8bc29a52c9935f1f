// What becomes of an organization that its owner deletes. It is gone for everybody with one transaction; what it
// leaves (keys, stored responses) goes in short steps after that, taken up again at the next start if need be.

import type { ResponseStore } from '../storage/response-store.js';
import type { Accounts } from './accounts.js';
import type { Actor } from './audit.js';
import type { Directory } from './directory.js';

// What still ran when it was deleted may be stored a little later.
const LATE_MS = 3_600_000;

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

/** Goes on with deletions that were cut short, or were followed by something stored late. */
export async function finishDeletions(directory: Directory, accounts: Accounts, responses: ResponseStore): Promise<void> {
  const { organizations, store } = directory;
  for (const { id, deletedAt } of organizations.halfDeleted()) {
    await accounts.keys.revokeAll(id);
    await responses.eraseOrganization(id);
    if (Date.parse(deletedAt ?? '') + LATE_MS < Date.now()) await store.transaction(() => organizations.markErased(id));
  }
}
