// Applies the role and the operator rights from a provider's claim at a sign-in (`oidc.roles`). The last owner of an
// organization and the last operator keep their rights, which is logged and recorded in the audit log.

import type { OidcRoles } from '../../config/oidc-roles.js';
import { ApiError, apiError } from '../../shared/errors.js';
import type { Role } from '../../shared/wire/organizations.js';
import type { Log } from '../../telemetry/types.js';
import type { Actor, AuditLog } from '../audit.js';
import type { Members } from '../members.js';
import { FIRST_ORGANIZATION_NUMBER } from '../organizations.js';
import type { Organizations } from '../organizations.js';
import type { User, Users } from '../users.js';
import { claimedRole, claimValues } from './claimed-role.js';
import type { ClaimedRole } from './claimed-role.js';

export interface RoleSyncDeps {
  members: Pick<Members, 'assign'>;
  organizations: Pick<Organizations, 'ensureFirst'>;
  users: Pick<Users, 'change'>;
  audit: Pick<AuditLog, 'note'>;
  log: Log;
}

/**
 * The organization is suspended or does not exist, or the organization or the user already has the maximum number of
 * memberships.
 */
const NOT_ASSIGNED: readonly string[] = ['organization_suspended', 'resource_not_found', 'too_many_entries'];

export class OidcRoleSync {
  constructor(
    private readonly settings: OidcRoles,
    private readonly deps: RoleSyncDeps,
  ) {}

  /** `claim`: the claim's value as received. Throws OidcRefusal if the settings refuse the sign-in. */
  of(claim: unknown): ClaimedRole {
    const values = claimValues(claim);
    if (values === null)
      this.deps.log.warn(
        { claim: this.settings.claim },
        'the claim of oidc.roles is neither a string nor a list of strings; no role matches',
      );
    return claimedRole(values ?? [], this.settings);
  }

  /** Returns the ID of the organization in which roles are assigned. Rejects with ApiError 404. */
  async organizationId(): Promise<string> {
    if (this.settings.organization !== null) return this.settings.organization;
    const { id, tenant } = await this.deps.organizations.ensureFirst();
    // If the first organization has been deleted, ensureFirst() returns the oldest remaining one, which may belong to
    // anyone.
    if (tenant !== FIRST_ORGANIZATION_NUMBER)
      throw apiError(
        'resource_not_found',
        'The first organization was deleted. Set organization in oidc.roles.',
        'org',
      );
    return id;
  }

  /**
   * A role that cannot be assigned is logged and does not refuse the sign-in, because the user may have other
   * organizations. Operator rights are changed first, so that they never outlast the claim.
   */
  async apply(user: User, { role, operator }: ClaimedRole, ip: string): Promise<void> {
    const actor = providerActor(ip);
    if (operator !== null && operator !== user.operator) await this.#setOperator(user, operator, actor);
    if (role !== null) await this.#setRole(user, role, actor);
  }

  async #setRole(user: User, role: Role, actor: Actor): Promise<void> {
    let facts: Record<string, string> = { user: user.id, claimed_role: role };
    try {
      const organizationId = await this.organizationId();
      facts = { ...facts, organization: organizationId };
      if ((await this.deps.members.assign(organizationId, user.id, role, actor)) === 'last_owner')
        this.deps.log.warn(facts, "oidc.roles did not change the role of an organization's last owner");
    } catch (error) {
      if (!(error instanceof ApiError) || !NOT_ASSIGNED.includes(error.code)) throw error;
      this.deps.log.warn({ ...facts, reason: error.message }, 'oidc.roles could not assign a role');
    }
  }

  async #setOperator(user: User, operator: boolean, actor: Actor): Promise<void> {
    const { users, audit, log } = this.deps;
    try {
      await users.change(user.id, { operator, locked: undefined }, null, actor);
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'invalid_value') throw error;
      log.warn({ user: user.id }, 'oidc.roles did not withdraw the operator rights of the last operator');
      await audit.note(null, actor, 'user.operator_kept', user.id, { email: user.email });
    }
  }
}

/** The actor in audit entries about changes that a claim has caused. */
export const providerActor = (ip: string): Actor => ({ type: 'identity_provider', id: null, email: null, ip });
