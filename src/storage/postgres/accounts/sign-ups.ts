// Implements SignUps on the users, organizations, memberships, invitations, sessions and audit log tables.

import { timingSafeEqual } from 'node:crypto';
import { apiError } from '../../../shared/errors.js';
import { base62 } from '../../../shared/ids.js';
import type { Queryable } from '../database.js';
import type { Role } from '../../../shared/wire/organizations.js';
import type { Actor } from '../../../accounts/audit.js';
import type { Invite } from '../../../accounts/invites.js';
import { checkJoining, checkMembers } from '../../../accounts/members.js';
import type { OrganizationView } from '../../../accounts/organizations.js';
import type { Client } from '../../../accounts/sign-ins.js';
import { permission, personKnown, SETUP_CODE_CHARACTERS, signUpTaken } from '../../../accounts/sign-ups.js';
import type { Permission, SignedUp, SignUp, SignUpPolicy, SignUps } from '../../../accounts/sign-ups.js';
import { noteAudit } from './audit-log.js';
import { identityOwner, putIdentity } from './identities.js';
import { endInvite, inviteOfLink } from './invite-rows.js';
import { countMembers, putMember } from './member-rows.js';
import { changeOrganization, createOrganization, organizationById, organizationsInOrder } from './organization-rows.js';
import { ensureSecret, removeSecret, secretOf } from './secret-rows.js';
import { beginSession } from './session-rows.js';
import { changeUser, createUser, noUsers } from './user-rows.js';
import type { AccountWork } from './work.js';

interface Home {
  organization: OrganizationView;
  role: Role;
}

export class PostgresSignUps implements SignUps {
  constructor(
    private readonly work: AccountWork,
    private readonly now: () => number = Date.now,
  ) {}

  awaitsFirst(): Promise<boolean> {
    return noUsers(this.work.sql);
  }

  async firstCode(): Promise<string | null> {
    if (!(await noUsers(this.work.sql))) return null;
    return this.work.change(async (sql) =>
      (await noUsers(sql))
        ? (await ensureSecret(sql, 'setup-code', () => Buffer.from(base62(SETUP_CODE_CHARACTERS)))).toString()
        : null,
    );
  }

  async check(policy: SignUpPolicy, request: SignUp): Promise<void> {
    await this.#permission(this.work.sql, policy, request);
  }

  signUp(policy: SignUpPolicy, request: SignUp, passwordHash: string, client: Client): Promise<SignedUp> {
    return this.work.change(async (sql) => {
      const allowed = await this.#permission(sql, policy, request);
      const user = await createUser(sql, {
        email: request.email,
        name: request.name,
        passwordHash,
        operator: allowed.as === 'first',
      });
      if (user === null) throw signUpTaken();
      const actor = { type: 'user', id: user.id, email: user.email, ip: client.ip } as const;
      if (request.identity !== undefined) {
        if ((await identityOwner(sql, request.identity)) !== undefined) throw personKnown(); // lost a race
        await putIdentity(sql, user.id, request.identity);
        await changeUser(sql, user.id, { emailVerified: true });
        await noteAudit(sql, null, {
          actor,
          action: 'user.identity_linked',
          target: user.id,
          detail: { issuer: request.identity.issuer },
        });
      }
      const joins = allowed.as === 'new' ? request.joins : undefined;
      const { organization, role } =
        allowed.as === 'invited'
          ? await this.#joined(sql, allowed.invite)
          : joins !== undefined
            ? await claimed(sql, joins)
            : await own(sql, allowed.as === 'first', request, actor);
      await putMember(sql, organization.id, user.id, role);
      await noteAudit(sql, organization.id, {
        actor: joins?.actor ?? actor,
        action: 'member.joined',
        target: user.id,
        detail: { role, email: user.email },
      });
      if (user.operator) {
        await removeSecret(sql, 'setup-code');
        await noteAudit(sql, null, { actor, action: 'operator.first_user', target: user.id });
      }
      return {
        user,
        organization,
        role,
        cookie: await beginSession(sql, this.now(), user.id, client.ip, client.userAgent),
      };
    });
  }

  async #permission(sql: Queryable, policy: SignUpPolicy, request: SignUp): Promise<Permission> {
    const isFirst = await noUsers(sql);
    const code = isFirst ? await secretOf(sql, 'setup-code') : undefined;
    const invite = isFirst || request.invite === null ? null : await inviteOfLink(sql, this.now(), request.invite);
    return permission(
      {
        isFirst,
        hasCode: (given) => code !== undefined && isSame(Buffer.from(given), code),
        invite: () => invite as Invite,
      },
      policy,
      request,
    );
  }

  async #joined(sql: Queryable, invite: Invite): Promise<Home> {
    const organization = await organizationById(sql, invite.organizationId);
    if (organization === undefined || organization.status === 'suspended')
      throw apiError('organization_suspended', 'The organization is suspended.');
    checkMembers(await countMembers(sql, organization.id));
    await endInvite(sql, this.now(), invite.id, 'accepted_at');
    return { organization, role: invite.role };
  }
}

async function claimed(sql: Queryable, { organizationId, role }: NonNullable<SignUp['joins']>): Promise<Home> {
  const organization = await organizationById(sql, organizationId);
  checkJoining(organization, await countMembers(sql, organizationId));
  return { organization, role };
}

async function own(sql: Queryable, first: boolean, request: SignUp, actor: Actor): Promise<Home> {
  // Keys created at the first startup or on the command line are assigned to the first user.
  const [oldest] = first ? await organizationsInOrder(sql, 1) : [];
  if (oldest !== undefined && (await countMembers(sql, oldest.id)) === 0) {
    const organization = await changeOrganization(sql, oldest.id, { name: request.organizationName ?? oldest.name });
    if (organization !== undefined) return { organization, role: 'owner' };
  }
  const organization = await createOrganization(sql, request.organizationName ?? `${request.name}'s organization`);
  await noteAudit(sql, organization.id, {
    actor,
    action: 'organization.created',
    target: organization.id,
    detail: { name: organization.name },
  });
  return { organization, role: 'owner' };
}

const isSame = (a: Buffer, b: Buffer): boolean => a.length === b.length && timingSafeEqual(a, b);
