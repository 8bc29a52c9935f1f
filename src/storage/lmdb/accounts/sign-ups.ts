// Implements SignUps on the users, organizations, memberships, invitations, sessions and audit log tables.

import { apiError } from '../../../shared/errors.js';
import type { Store } from '../../store.js';
import type { Role } from '../../../shared/wire/organizations.js';
import type { Actor } from '../../../accounts/audit.js';
import type { Invite } from '../../../accounts/invites.js';
import type { Organization } from '../../../accounts/keys.js';
import type { IdentityTable } from './identity-table.js';
import type { InviteTable } from './invite-table.js';
import type { MembershipTable } from './membership-table.js';
import type { OrganizationTable } from './organization-table.js';
import type { SessionTable } from './session-table.js';
import type { SettingsTable } from './settings-table.js';
import type { SetupCode } from './setup-code.js';
import type { UserTable } from './user-table.js';
import type { LmdbAuditLog } from './audit-log.js';
import { checkJoining, checkMembers } from '../../../accounts/members.js';
import type { Client } from '../../../accounts/sign-ins.js';
import { permission, personKnown, signUpTaken } from '../../../accounts/sign-ups.js';
import type { Permission, SignedUp, SignUp, SignUpPolicy, SignUps } from '../../../accounts/sign-ups.js';

export interface SignUpTables {
  users: UserTable;
  organizations: OrganizationTable;
  settings: SettingsTable;
  memberships: MembershipTable;
  invites: InviteTable;
  sessions: SessionTable;
  setupCode: SetupCode;
  identities: IdentityTable;
  audit: LmdbAuditLog;
}

interface Home {
  organization: Organization;
  role: Role;
}

export class LmdbSignUps implements SignUps {
  constructor(
    private readonly store: Store,
    private readonly tables: SignUpTables,
  ) {}

  async awaitsFirst(): Promise<boolean> {
    return this.tables.users.none;
  }

  async firstCode(): Promise<string | null> {
    const { users, setupCode } = this.tables;
    return users.none ? this.store.transaction(() => (users.none ? setupCode.ensure() : null)) : null;
  }

  async check(policy: SignUpPolicy, request: SignUp): Promise<void> {
    this.#permission(policy, request);
  }

  signUp(policy: SignUpPolicy, request: SignUp, passwordHash: string, client: Client): Promise<SignedUp> {
    const { users, memberships, sessions, settings, setupCode, identities, audit } = this.tables;
    return this.store.transaction(() => {
      const allowed = this.#permission(policy, request);
      const user = users.create({
        email: request.email,
        name: request.name,
        passwordHash,
        operator: allowed.as === 'first',
      });
      if (user === null) throw signUpTaken();
      const actor = { type: 'user', id: user.id, email: user.email, ip: client.ip } as const;
      if (request.identity !== undefined) {
        if (identities.userOf(request.identity) !== undefined) throw personKnown(); // lost a race
        identities.put(user.id, request.identity);
        users.change(user.id, { emailVerified: true });
        void audit.note(null, actor, 'user.identity_linked', user.id, { issuer: request.identity.issuer });
      }
      const joins = allowed.as === 'new' ? request.joins : undefined;
      const { organization, role } =
        allowed.as === 'invited'
          ? this.#joined(allowed.invite)
          : joins !== undefined
            ? this.#claimed(joins)
            : this.#own(allowed.as === 'first', request, actor);
      memberships.put(organization.id, user.id, role);
      void audit.note(organization.id, joins?.actor ?? actor, 'member.joined', user.id, { role, email: user.email });
      if (user.operator) {
        setupCode.remove();
        void audit.note(null, actor, 'operator.first_user', user.id);
      }
      const cookie = sessions.begin(user.id, client.ip, client.userAgent).secret;
      return { user, organization: { ...organization, settings: settings.get(organization.id) }, role, cookie };
    });
  }

  #permission(policy: SignUpPolicy, request: SignUp): Permission {
    const { users, setupCode, invites } = this.tables;
    return permission(
      { isFirst: users.none, hasCode: (code) => setupCode.matches(code), invite: (token) => invites.ofToken(token) },
      policy,
      request,
    );
  }

  #joined(invite: Invite): Home {
    const { organizations, memberships, invites } = this.tables;
    const organization = organizations.get(invite.organizationId);
    if (organization === undefined || organization.status === 'suspended')
      throw apiError('organization_suspended', 'The organization is suspended.');
    checkMembers(memberships.count(organization.id));
    invites.accept(invite);
    return { organization, role: invite.role };
  }

  #claimed({ organizationId, role }: NonNullable<SignUp['joins']>): Home {
    const { organizations, memberships } = this.tables;
    const organization = organizations.get(organizationId);
    checkJoining(organization, memberships.count(organizationId));
    return { organization, role };
  }

  #own(first: boolean, request: SignUp, actor: Actor): Home {
    const { organizations, memberships, audit } = this.tables;
    // Keys created at the first startup or on the command line are assigned to the first user.
    const [oldest] = first ? organizations.list() : [];
    const orphan = oldest !== undefined && memberships.count(oldest.id) === 0 ? oldest : undefined;
    if (orphan !== undefined) {
      const name = request.organizationName ?? orphan.name;
      return { organization: organizations.change(orphan.id, { name }) ?? orphan, role: 'owner' };
    }
    const organization = organizations.create(request.organizationName ?? `${request.name}'s organization`);
    void audit.note(organization.id, actor, 'organization.created', organization.id, { name: organization.name });
    return { organization, role: 'owner' };
  }
}
