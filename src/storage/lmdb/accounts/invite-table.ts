// Invitations to organizations, in the `invites` table: [organization, invite] → invite, and ['id', invite] → its
// organization. A link's token is the invitation's ID plus an HMAC keyed by a secret in the database. This allows a
// pending link to be shown again, while the rows alone do not reveal valid tokens.

import { randomBytes } from 'node:crypto';
import type { Role } from '../../../shared/wire/organizations.js';
import { newAccountId } from '../../../shared/ids.js';
import type { Store, Table } from '../../store.js';
import { walk } from '../../walk.js';
import { invitedBy, INVITES_KEPT_MS, inviteState, outlived, shownInvite } from '../../../accounts/invite-links.js';
import { INVITE_MS, invalidInvite, MAX_INVITES } from '../../../accounts/invites.js';
import type { Invite, InviteState, ShownInvite } from '../../../accounts/invites.js';

const SECRET = 'invite-key';

/** Rows from early versions lack the creator. */
type InviteRow = Omit<Invite, 'createdBy'> & { createdBy?: string | null };

const inviteOf = (row: InviteRow): Invite => ({ ...row, createdBy: row.createdBy ?? null });

export class InviteTable {
  private readonly invites: Table<InviteRow>;
  private readonly organizationOf: Table<string>;

  private readonly secrets: Table<Uint8Array>;

  constructor(
    private readonly store: Store,
    private readonly now: () => number = Date.now,
  ) {
    this.invites = store.table('invites');
    this.organizationOf = store.table('invites');
    this.secrets = store.table('secrets');
  }

  /** Newest first. */
  list(organizationId: string): Invite[] {
    return [...this.invites.range({ from: [organizationId], to: [organizationId, '\uffff'] })]
      .map(({ value }) => inviteOf(value))
      .sort((a, b) => b.createdAt - a.createdAt);
  }

  get(organizationId: string, id: string): Invite | undefined {
    const row = this.invites.get([organizationId, id]);
    return row === undefined ? undefined : inviteOf(row);
  }

  state(invite: Invite): InviteState {
    return inviteState(invite, this.now());
  }

  /**
   * Must be called within a transaction. Replaces a pending invitation for the same address. Returns null if there
   * are too many.
   */
  create(organizationId: string, email: string, role: Role, createdBy: string): Invite | null {
    if (this.secrets.get(SECRET) === undefined) void this.secrets.put(SECRET, new Uint8Array(randomBytes(32)));
    const others = this.list(organizationId);
    if (others.length >= MAX_INVITES) return null;
    for (const other of others) if (other.email === email && this.state(other) === 'pending') this.revoke(other);
    const now = this.now();
    const invite: Invite = {
      id: newAccountId('inv'),
      organizationId,
      email,
      role,
      createdBy,
      createdAt: now,
      expiresAt: now + INVITE_MS,
      acceptedAt: null,
      revokedAt: null,
    };
    this.put(invite);
    void this.organizationOf.put(['id', invite.id], organizationId);
    return invite;
  }

  /** Must be called within a transaction. */
  revoke(invite: Invite): void {
    this.put({ ...invite, revokedAt: this.now() });
  }

  /**
   * Must be called within a transaction. Revokes and returns the invitations that this user created and that the role
   * `own` may not create.
   */
  revokeOutlived(organizationId: string, userId: string, own: Role | undefined): Invite[] {
    const over = outlived(this.list(organizationId), userId, own, this.now());
    for (const invite of over) this.revoke(invite);
    return over;
  }

  /** Must be called within a transaction. */
  accept(invite: Invite): void {
    this.put({ ...invite, acceptedAt: this.now() });
  }

  /** The invitation with its state and, while it is pending, its link's token. */
  shown(invite: Invite): ShownInvite {
    return shownInvite(invite, this.secret(), this.now());
  }

  /** The pending invitation for a link. Throws ApiError 400 invalid_token. */
  ofToken(token: string): Invite {
    const id = invitedBy(token, this.secret());
    if (id !== null) {
      const organizationId = this.organizationOf.get(['id', id]);
      const invite = organizationId === undefined ? undefined : this.get(organizationId, id);
      if (invite !== undefined && this.state(invite) === 'pending') return invite;
    }
    throw invalidInvite();
  }

  /** Must be called within a transaction. Removes all invitations of an organization. */
  removeAll(organizationId: string): void {
    for (const invite of this.list(organizationId)) this.remove(invite);
  }

  /** Erases invitations that ended long ago, in short transactions. */
  sweep(): Promise<void> {
    const before = this.now() - INVITES_KEPT_MS;
    return walk(this.store, this.invites, { from: ['org_'], to: ['org_\uffff'] }, (invite) => {
      if (Math.min(invite.expiresAt, invite.acceptedAt ?? Infinity, invite.revokedAt ?? Infinity) < before)
        this.remove(invite);
    });
  }

  private put(invite: Invite): void {
    void this.invites.put([invite.organizationId, invite.id], invite);
  }

  private remove({ organizationId, id }: InviteRow): void {
    void this.invites.remove([organizationId, id]);
    void this.organizationOf.remove(['id', id]);
  }

  /** Without a secret, no invitation has been created yet, so no token is valid. */
  private secret(): Uint8Array {
    return this.secrets.get(SECRET) ?? randomBytes(32);
  }
}
