// Maps a provider identity to a user: the user it is linked to, an existing user to link it to, or a new user.

import type { ForeignIdentity, Identities } from '../../accounts/identities.js';
import type { Client, SignIns } from '../../accounts/sign-ins.js';
import type { SignUps } from '../../accounts/sign-ups.js';
import type { User } from '../../accounts/users.js';
import type { Config } from '../../config/settings.js';
import { ApiError } from '../../shared/errors.js';
import type { ClaimedRole } from '../../accounts/oidc/claimed-role.js';
import { OidcRefusal } from '../../accounts/oidc/failures.js';
import type { Claims } from '../../accounts/oidc/provider.js';
import { providerActor } from '../../accounts/oidc/role-sync.js';
import type { OidcRoleSync } from '../../accounts/oidc/role-sync.js';
import { emailField, nameField } from './fields.js';

/** `cookie`: the session cookie, if sign-up started a session. If null, the caller must start a session. */
export interface Entered {
  readonly user: User;
  readonly cookie: string | null;
}

export interface EntryStores {
  identities: Identities;
  signIns: SignIns;
  signUps: SignUps;
}

/** A person without an account. */
interface Newcomer {
  claims: Claims;
  email: string;
  identity: ForeignIdentity;
  claimed: ClaimedRole | null;
}

/** Why a new user cannot join the organization in `oidc.roles`. Logged for the operator. */
const NOT_JOINED: readonly string[] = ['resource_not_found', 'organization_suspended', 'too_many_entries'];

export class OidcEntry {
  constructor(
    private readonly stores: EntryStores,
    private readonly settings: Config['oidc'],
    /** Null if the provider does not control roles. */
    private readonly roles: OidcRoleSync | null,
  ) {}

  /** Sets the user's role if the provider controls it. `invite`: see #find(). Rejects with OidcRefusal or ApiError. */
  async enter(claims: Claims, invite: string | null, client: Client): Promise<Entered> {
    // checked before an account is linked or created, because this check may refuse the sign-in
    const claimed = this.roles?.of(claims.role) ?? null;
    const entered = await this.#find(claims, claimed, invite, client);
    if (claimed !== null && !entered.user.locked) await this.roles?.apply(entered.user, claimed, client.ip);
    return entered;
  }

  /** `invite`: the invitation link's token, if any. Rejects with OidcRefusal. */
  async #find(claims: Claims, claimed: ClaimedRole | null, invite: string | null, client: Client): Promise<Entered> {
    const { identities, signIns } = this.stores;
    const identity = { issuer: claims.issuer, subject: claims.subject };
    const known = await identities.userOf(identity);
    // The email addresses of linked users are checked too, because a former employee may now have a different address
    // at the provider, or none.
    const email = this.#email(claims, known !== null);
    if (known !== null) return { user: known, cookie: null };
    if (email === null) throw new OidcRefusal('no_email');
    const owner = await signIns.withEmail(email);
    if (owner === null) return this.#signUp({ claims, email, identity, claimed }, invite, client);
    // An account with an unverified address may not belong to the owner of that address. Linking it could sign one
    // person in to another person's account.
    if (!owner.emailVerified) throw new OidcRefusal('account_exists');
    if (!(await identities.link(owner, identity, { type: 'user', id: owner.id, email: owner.email, ip: client.ip })))
      throw new OidcRefusal('taken');
    return { user: owner, cookie: null };
  }

  /** Links the identity to the signed-in user. Rejects with OidcRefusal. */
  async link(claims: Claims, user: User, ip: string): Promise<void> {
    this.#email(claims, true);
    const linked = await this.stores.identities.link(
      user,
      { issuer: claims.issuer, subject: claims.subject },
      { type: 'user', id: user.id, email: user.email, ip },
    );
    if (!linked) throw new OidcRefusal('taken');
  }

  /**
   * The identity's email address; null if there is no acceptable one. Linked users need an address only if domains are
   * restricted.
   */
  #email({ email: given, isEmailVerified }: Claims, isLinked: boolean): string | null {
    const { domains, unverified_email: takesUnverified } = this.settings;
    const parsed = emailField.safeParse(given);
    const email = parsed.success && (isEmailVerified || takesUnverified) ? parsed.data : null;
    if (email === null && (domains.length > 0 || !isLinked)) throw new OidcRefusal('no_email');
    if (email !== null && domains.length > 0 && !domains.some((domain) => email.endsWith(`@${domain.toLowerCase()}`)))
      throw new OidcRefusal('domain');
    return email;
  }

  async #signUp(
    { claims, email, identity, claimed }: Newcomer,
    invite: string | null,
    client: Client,
  ): Promise<Entered> {
    const { signUps } = this.stores;
    if (await signUps.awaitsFirst()) throw new OidcRefusal('first_user');
    const isOpen = this.settings.signup === 'open';
    if (!isOpen && invite === null) throw new OidcRefusal('no_account');
    const name = nameField.safeParse(claims.name);
    const request = {
      email,
      name: name.success ? name.data : (email.split('@')[0] ?? email),
      organizationName: null,
      invite,
      code: null,
      identity,
      ...(this.roles === null || claimed === null || claimed.role === null
        ? {}
        : {
            joins: {
              organizationId: await this.roles.organizationId(),
              role: claimed.role,
              actor: providerActor(client.ip),
            },
          }),
    };
    try {
      // Empty password hash: no password matches it.
      return await signUps.signUp({ open: isOpen, local: false }, request, '', client);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (invite === null && NOT_JOINED.includes(error.code)) throw error;
      throw new OidcRefusal(
        error.code === 'email_taken' ? 'account_exists' : error.code === 'signup_closed' ? 'no_account' : 'invite',
        { cause: error },
      );
    }
  }
}
