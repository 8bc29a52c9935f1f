// Who may sign up, and what there is once somebody has: a user, an organization, a session, in one transaction.

import type { Role } from '../wire/dashboard.js';
import { apiError } from '../errors.js';
import type { Directory } from './directory.js';
import type { Invite } from './invites.js';
import type { Organization } from './keys.js';
import { MAX_MEMBERS } from './memberships.js';
import type { User } from './users.js';

export interface SignUpPolicy {
  /** Anybody may, not only who is invited. */
  open: boolean;
  /** Only who is at this machine can reach the server: the first user needs no code. */
  local: boolean;
}

export interface SignUp {
  email: string;               // as normalEmail() gives it
  name: string;
  organizationName: string | null;
  invite: string | null;
  code: string | null;
}

export interface SignedUp { user: User; organization: Organization; role: Role; secret: string }

type Permission = { as: 'first' } | { as: 'invited'; invite: Invite } | { as: 'new' };

/** Throws ApiError 403, 400 or 422 if this one may not sign up. Whether the address is taken is known later. */
export function maySignUp(directory: Directory, policy: SignUpPolicy, { email, invite, code }: Pick<SignUp, 'email' | 'invite' | 'code'>): Permission {
  if (directory.users.none) {
    if (!policy.local && (code === null || !directory.setupCode.matches(code))) {
      throw apiError('signup_closed', 'The first user signs up with the link that the server shows when it starts.');
    }
    return { as: 'first' };
  }
  if (invite !== null) {
    const found = directory.invites.ofToken(invite);
    if (found.email !== email) throw apiError('invalid_value', 'This invitation is for another e-mail address.', 'email');
    return { as: 'invited', invite: found };
  }
  if (!policy.open) throw apiError('signup_closed', 'Signing up needs an invitation.');
  return { as: 'new' };
}

/** Resolves when it is on disk. Throws ApiError. */
export function signUp(directory: Directory, policy: SignUpPolicy, wish: SignUp, passwordHash: string, client: { ip: string; userAgent: string }): Promise<SignedUp> {
  const { store, users, organizations, memberships, invites, sessions, audit } = directory;
  return store.transaction(() => {
    // Asked again: somebody else may have been first, or taken the invitation, while the password was hashed.
    const permission = maySignUp(directory, policy, wish);
    const user = users.create({ email: wish.email, name: wish.name, passwordHash, operator: permission.as === 'first' });
    if (user === null) throw apiError('email_taken', 'There is an account with this e-mail address already. Sign in instead.', 'email');
    const actor = { type: 'user', id: user.id, email: user.email, ip: client.ip } as const;
    const home = permission.as === 'invited' ? joined(permission.invite) : own(permission.as === 'first');
    memberships.put(home.organization.id, user.id, home.role);
    audit.note(home.organization.id, actor, 'member.joined', user.id, { role: home.role, email: user.email });
    if (user.operator) {
      directory.setupCode.remove();
      audit.note(null, actor, 'operator.first_user', user.id);
    }
    return { user, ...home, secret: sessions.begin(user.id, client.ip, client.userAgent).secret };

    function joined(invite: Invite): { organization: Organization; role: Role } {
      const organization = organizations.get(invite.organizationId);
      if (organization === undefined || organization.status === 'suspended') throw apiError('organization_suspended', 'The organization is suspended.');
      if (memberships.count(organization.id) >= MAX_MEMBERS) throw apiError('too_many_entries', `An organization may have at most ${MAX_MEMBERS} members.`);
      invites.accept(invite);
      return { organization, role: invite.role };
    }

    function own(first: boolean): { organization: Organization; role: Role } {
      // Keys that were made at the first start or by the command line become the first user's.
      const [oldest] = first ? organizations.list() : [];
      const orphan = oldest !== undefined && memberships.count(oldest.id) === 0 ? oldest : undefined;
      if (orphan !== undefined) {
        const name = wish.organizationName ?? orphan.name;
        return { organization: organizations.change(orphan.id, { name }) ?? orphan, role: 'owner' };
      }
      const organization = organizations.create(wish.organizationName ?? `${wish.name}'s organization`);
      audit.note(organization.id, actor, 'organization.created', organization.id, { name: organization.name });
      return { organization, role: 'owner' };
    }
  });
}
