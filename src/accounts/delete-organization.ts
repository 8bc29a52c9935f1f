// What becomes of what an organization has stored when its owner deletes it. It is gone for everybody at once; what it
// leaves goes in short steps after that, taken up again at the next start if need be.

import type { Actor } from './audit.js';
import type { Organizations } from './organizations.js';

/** What organizations have stored elsewhere; all of it may be asked for again. */
export interface Erasable {
  eraseOrganization(id: string): Promise<unknown>;
}

// What still ran when it was deleted may be stored a little later.
const LATE_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** Resolves when its keys are revoked; what it stored goes on being erased, `erased` tells when they are. */
export async function deleteOrganization(
  organizations: Organizations,
  stored: Erasable,
  id: string,
  actor: Actor,
): Promise<{ erased: Promise<unknown> }> {
  await organizations.delete(id, actor);
  return { erased: stored.eraseOrganization(id) };
}

/**
 * Goes on with deletions that were cut short, or were followed by something stored late. Keys are kept `keyDays`
 * more: so long whoever still sends one is told that it is revoked. After that nobody knows them.
 */
export async function finishDeletions(
  organizations: Organizations,
  stored: Erasable,
  keyDays: number,
  now = Date.now(),
): Promise<void> {
  for (const { id, deletedAt } of await organizations.resumeDeletions()) {
    await stored.eraseOrganization(id);
    if (deletedAt + LATE_MS < now) await organizations.markErased(id);
  }
  await organizations.eraseKeys(now - keyDays * DAY_MS);
}
