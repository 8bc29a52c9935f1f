// Decides the role and the operator rights that a user gets from a provider's claim (`oidc.roles`). No side effects.

import type { OidcRoles } from '../../config/oidc-roles.js';
import { ROLES } from '../../shared/wire/organizations.js';
import type { Role } from '../../shared/wire/organizations.js';
import { OidcRefusal } from './failures.js';

/** The changes that a sign-in makes; null = no change. */
export interface ClaimedRole {
  readonly role: Role | null;
  readonly operator: boolean | null;
}

/**
 * The value of a claim; undefined if there is none. `path`: names with dots between them. A name may contain dots
 * itself, as in https://example.com/roles; the longest matching name is used.
 */
export function claimAt(claims: unknown, path: string): unknown {
  if (typeof claims !== 'object' || claims === null || Array.isArray(claims)) return undefined;
  if (Object.hasOwn(claims, path)) return (claims as Record<string, unknown>)[path];
  for (let dot = path.lastIndexOf('.'); dot > 0; dot = path.lastIndexOf('.', dot - 1)) {
    const name = path.slice(0, dot);
    if (!Object.hasOwn(claims, name)) continue;
    const found = claimAt((claims as Record<string, unknown>)[name], path.slice(dot + 1));
    if (found !== undefined) return found;
  }
  return undefined;
}

/**
 * Returns the claim's values, or null if the claim is neither a string nor a list of strings. An absent claim
 * yields no values.
 */
export function claimValues(claim: unknown): readonly string[] | null {
  if (claim === undefined || claim === null) return [];
  if (typeof claim === 'string') return [claim];
  return Array.isArray(claim) && claim.every((one) => typeof one === 'string') ? claim : null;
}

/** Throws OidcRefusal if no value matches and the settings refuse such a sign-in. */
export function claimedRole(
  values: readonly string[],
  { roles, operators, default: fallback }: OidcRoles,
): ClaimedRole {
  const matching = new Set(values.filter((value) => Object.hasOwn(roles, value)).map((value) => roles[value] as Role));
  const role = ROLES.findLast((one) => matching.has(one)) ?? null;
  const operator = operators === null ? null : values.some((value) => operators.includes(value));
  if (role !== null || fallback === 'keep') return { role, operator };
  if (fallback !== 'refuse') return { role: fallback, operator };
  if (operator !== true) throw new OidcRefusal('no_role');
  return { role: null, operator };
}
