// Erases the data of a deleted organization. The organization disappears immediately. Its stored data is then erased in
// short steps, which resume at the next startup if interrupted.

import type { Actor } from './audit.js';
import type { Organizations } from './organizations.js';

/** Organization data that is not in the directory. Each operation is idempotent. */
export interface OrganizationDataOwner {
  eraseOrganization(id: string): Promise<unknown>;
}

// Requests that were still running when the organization was deleted may still store data for up to this long
// afterwards.
const LATE_MS = 3_600_000;
const DAY_MS = 86_400_000;

/**
 * Resolves when the organization's keys are revoked. Erasing the stored data can take longer; `erased` resolves when
 * the data has been erased.
 */
export async function deleteOrganization(
  organizations: Organizations,
  stored: OrganizationDataOwner,
  id: string,
  actor: Actor,
): Promise<{ erased: Promise<unknown> }> {
  await organizations.delete(id, actor);
  return { erased: stored.eraseOrganization(id) };
}

/**
 * Resumes interrupted deletions, and erases data that was stored after its organization had been deleted. Keys are kept
 * for another `keyDays` days, during which clients get the error for a revoked key. After that, the keys are unknown.
 */
export async function finishDeletions(
  organizations: Organizations,
  stored: OrganizationDataOwner,
  keyDays: number,
  now = Date.now(),
): Promise<void> {
  for (const { id, deletedAt } of await organizations.resumeDeletions()) {
    await stored.eraseOrganization(id);
    if (deletedAt + LATE_MS < now) await organizations.markErased(id);
  }
  await organizations.eraseKeys(now - keyDays * DAY_MS);
}
