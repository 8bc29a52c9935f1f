// Lists an organization's API keys, except temporary keys that are no longer valid.

import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ApiKeys } from '../../accounts/api-keys.js';
import { isListed } from '../../accounts/keys.js';
import type { KeyRecord } from '../../accounts/keys.js';
import type { Page } from '../../accounts/page.js';
import type { PageQuery } from './paging.js';

/** Like ApiKeys.page(). A page may contain fewer keys than `limit`, but it is empty only if no more keys follow. */
export async function listedKeys(
  keys: Pick<ApiKeys, 'page'>,
  organizationId: string,
  { limit, after }: PageQuery,
  now: Date,
): Promise<Page<KeyRecord> | null> {
  for (let from = after; ; ) {
    const page = await keys.page(organizationId, limit, from);
    if (page === null) return null;
    const data = page.data.filter((key) => isListed(key, now));
    if (data.length > 0 || page.next === null) return { data, next: page.next };
    from = page.next;
    await nextTurn(); // an organization may have thousands of them
  }
}
