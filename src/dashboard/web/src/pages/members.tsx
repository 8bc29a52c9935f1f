// The organization's members and invitations.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import { useLocation } from 'wouter';
import type { InviteObject, MemberObject, Role } from '../../../../shared/wire/organizations.js';
import { api, messageOf } from '../api.js';
import { Badge } from '../components/badge.js';
import type { Tone } from '../components/badge.js';
import { Button } from '../components/button.js';
import { CopyButton } from '../components/copy.js';
import { ConfirmDialog, Dialog } from '../components/dialog.js';
import { FieldSet, Radio, TextField } from '../components/field.js';
import { FormError, useAction } from '../components/form.js';
import { Icon } from '../components/icon.js';
import { ListView, useList } from '../components/list.js';
import { PageHeader, Panel, Time } from '../components/page.js';
import { EmptyState, Notice } from '../components/states.js';
import { Table } from '../components/table.js';
import { useToast } from '../components/toasts.js';
import { ROLE_CHOICES, roleLabel } from '../roles.js';
import { ServiceAccountsPanel } from './service-accounts-panel.js';
import { useMe, useOrganization, useSession } from '../session.js';

type Open =
  | { kind: 'invite' }
  | { kind: 'link'; invite: InviteObject }
  | { kind: 'remove'; member: MemberObject }
  | { kind: 'revoke'; invite: InviteObject }
  | null;

const STATES: Record<InviteObject['state'], { tone: Tone; label: string }> = {
  pending: { tone: 'accent', label: 'Pending' },
  accepted: { tone: 'ok', label: 'Accepted' },
  revoked: { tone: 'neutral', label: 'Revoked' },
  expired: { tone: 'warn', label: 'Expired' },
};

export function Members(): ReactNode {
  const { id, name, path, role, status, may: mayRead } = useOrganization();
  // A suspended organization is read-only.
  const may = (least: Role): boolean => status === 'active' && mayRead(least);
  const { user } = useMe();
  const { reload } = useSession();
  const client = useQueryClient();
  const toast = useToast();
  const [, navigate] = useLocation();
  const [open, setOpen] = useState<Open>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const members = useList<MemberObject>(['organization', id, 'members'], `${path}/members`);
  const close = (): void => setOpen(null);
  const refresh = (what: 'members' | 'invites'): void => {
    void client.invalidateQueries({ queryKey: ['organization', id, what] });
  };
  // Only owners can grant or remove the owner role.
  const mayTouch = (member: MemberObject): boolean => may('admin') && (member.role !== 'owner' || role === 'owner');

  const isOnlyOwner = (rows: readonly MemberObject[]): boolean =>
    role === 'owner' && !members.hasMore && rows.filter((one) => one.role === 'owner').length === 1;

  const changeRole = async (member: MemberObject, next: Role): Promise<void> => {
    setFailure(null);
    try {
      await api.patch(`${path}/members/${member.user_id}`, { role: next });
      toast(`${member.email} is now ${roleLabel(next).toLowerCase()}`);
      if (member.user_id === user.id) await reload();
    } catch (error) {
      setFailure(error);
    }
    refresh('members');
  };
  const remove = async (member: MemberObject): Promise<void> => {
    await api.delete(`${path}/members/${member.user_id}`);
    if (member.user_id === user.id) {
      await reload();
      toast(`You left ${name}`);
      navigate('/');
      return;
    }
    toast(`${member.email} removed`);
    refresh('members');
  };
  return (
    <>
      <PageHeader
        title="Members"
        actions={
          may('admin') && (
            <Button variant="primary" onClick={() => setOpen({ kind: 'invite' })}>
              <Icon name="plus" /> Invite
            </Button>
          )
        }
      >
        People with access to this organization, and their roles.
      </PageHeader>
      {failure !== null && <Notice tone="danger">{messageOf(failure)}</Notice>}
      <Panel flush>
        <ListView list={members} empty={<EmptyState icon="members" title="No members" />}>
          {(rows) => (
            <Table
              caption="Members"
              rows={rows}
              rowKey={(member) => member.user_id}
              columns={[
                {
                  key: 'name',
                  header: 'Name',
                  heading: true,
                  cell: (member) => (
                    <>
                      <span className="cell-main">
                        {member.name || member.email} {member.user_id === user.id && <Badge>You</Badge>}
                      </span>
                      <span className="cell-sub">{member.email}</span>
                    </>
                  ),
                },
                {
                  key: 'role',
                  header: 'Role',
                  cell: (member) =>
                    mayTouch(member) ? (
                      <select
                        className="input select compact"
                        aria-label={`Role of ${member.email}`}
                        value={member.role}
                        onChange={(event) => {
                          void changeRole(member, event.target.value as Role);
                        }}
                      >
                        {ROLE_CHOICES.filter((choice) => role === 'owner' || choice.value !== 'owner').map(
                          ({ value, label }) => (
                            <option key={value} value={value}>
                              {label}
                            </option>
                          ),
                        )}
                      </select>
                    ) : (
                      <span>{roleLabel(member.role)}</span>
                    ),
                },
                { key: 'joined', header: 'Joined', cell: (member) => <Time at={member.created_at} /> },
                { key: 'seen', header: 'Last sign-in', cell: (member) => <Time at={member.last_login_at} /> },
                {
                  key: 'actions',
                  header: 'Actions',
                  actions: true,
                  cell: (member) =>
                    member.user_id === user.id ? (
                      isOnlyOwner(rows) ? (
                        <span className="cell-sub">
                          You are the only owner. To leave, make another member an owner first.
                        </span>
                      ) : status === 'active' ? (
                        <Button size="small" variant="ghost" onClick={() => setOpen({ kind: 'remove', member })}>
                          Leave
                        </Button>
                      ) : null
                    ) : mayTouch(member) ? (
                      <Button
                        size="small"
                        variant="ghost"
                        aria-label={`Remove ${member.email}`}
                        onClick={() => setOpen({ kind: 'remove', member })}
                      >
                        Remove
                      </Button>
                    ) : null,
                },
              ]}
            />
          )}
        </ListView>
      </Panel>
      <ServiceAccountsPanel />
      {mayRead('admin') && (
        <Invites
          onLink={(invite) => setOpen({ kind: 'link', invite })}
          onRevoke={(invite) => setOpen({ kind: 'revoke', invite })}
        />
      )}
      {open?.kind === 'invite' && (
        <InviteDialog
          onClose={close}
          onInvited={(invite) => {
            refresh('invites');
            setOpen({ kind: 'link', invite });
          }}
        />
      )}
      {open?.kind === 'link' && <InviteLinkDialog invite={open.invite} onClose={close} />}
      {open?.kind === 'revoke' && (
        <ConfirmDialog
          title="Revoke this invitation?"
          confirm="Revoke invitation"
          danger
          onClose={close}
          onConfirm={async () => {
            await api.delete(`${path}/invites/${open.invite.id}`);
            toast('Invitation revoked');
            refresh('invites');
          }}
        >
          <p>
            The invitation link for <strong>{open.invite.email}</strong> will stop working.
          </p>
        </ConfirmDialog>
      )}
      {open?.kind === 'remove' && (
        <ConfirmDialog
          title={
            open.member.user_id === user.id ? `Leave ${name}?` : `Remove ${open.member.name || open.member.email}?`
          }
          danger
          onClose={close}
          confirm={open.member.user_id === user.id ? 'Leave' : 'Remove'}
          onConfirm={() => remove(open.member)}
        >
          <p>
            {open.member.user_id === user.id ? (
              'You will lose access to its keys, usage and settings. The API keys that you created keep working.'
            ) : (
              <>
                <strong>{open.member.email}</strong> will lose access and be signed out. The API keys that they created
                keep working.
              </>
            )}
          </p>
        </ConfirmDialog>
      )}
    </>
  );
}

function Invites({
  onLink,
  onRevoke,
}: {
  onLink: (invite: InviteObject) => void;
  onRevoke: (invite: InviteObject) => void;
}): ReactNode {
  const { id, path, status } = useOrganization();
  const invites = useList<InviteObject>(['organization', id, 'invites'], `${path}/invites`);
  return (
    <Panel title="Invitations" flush>
      <ListView
        list={invites}
        empty={
          <EmptyState icon="members" title="No invitations">
            Invite people by email address. Each gets a link that is valid for one week.
          </EmptyState>
        }
      >
        {(rows) => (
          <Table
            caption="Invitations"
            rows={rows}
            rowKey={(invite) => invite.id}
            rowClass={(invite) => (invite.state === 'pending' ? undefined : 'dim')}
            columns={[
              {
                key: 'email',
                header: 'Email',
                heading: true,
                cell: (invite) => <span className="cell-main">{invite.email}</span>,
              },
              { key: 'role', header: 'Role', cell: (invite) => roleLabel(invite.role) },
              {
                key: 'state',
                header: 'Status',
                cell: (invite) => <Badge tone={STATES[invite.state].tone}>{STATES[invite.state].label}</Badge>,
              },
              { key: 'sent', header: 'Invited', cell: (invite) => <Time at={invite.created_at} /> },
              { key: 'expires', header: 'Expires', cell: (invite) => <Time at={invite.expires_at} /> },
              {
                key: 'actions',
                header: 'Actions',
                actions: true,
                cell: (invite) =>
                  invite.state === 'pending' && status === 'active' ? (
                    <>
                      <Button
                        size="small"
                        variant="ghost"
                        aria-label={`Link for ${invite.email}`}
                        onClick={() => onLink(invite)}
                      >
                        Link
                      </Button>
                      <Button
                        size="small"
                        variant="ghost"
                        aria-label={`Revoke the invitation for ${invite.email}`}
                        onClick={() => onRevoke(invite)}
                      >
                        Revoke
                      </Button>
                    </>
                  ) : null,
              },
            ]}
          />
        )}
      </ListView>
    </Panel>
  );
}

function InviteDialog({
  onClose,
  onInvited,
}: {
  onClose: () => void;
  onInvited: (invite: InviteObject) => void;
}): ReactNode {
  const { name, path, role: own } = useOrganization();
  const action = useAction();
  const [email, setEmail] = useState('');
  const [role, setRole] = useState<Role>('developer');
  const invite = (): void => {
    void action.run(async () => onInvited(await api.post<InviteObject>(`${path}/invites`, { email, role })));
  };
  return (
    <Dialog
      title={`Invite to ${name}`}
      onClose={onClose}
      onSubmit={invite}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" busy={action.busy}>
            Invite
          </Button>
        </>
      }
    >
      <TextField
        label="Email"
        type="email"
        inputMode="email"
        autoComplete="off"
        autoFocus
        value={email}
        onChange={(event) => setEmail(event.target.value)}
        error={action.errorOf('email')}
      />
      <FieldSet legend="Role" error={action.errorOf('role')}>
        {ROLE_CHOICES.filter(({ value }) => own === 'owner' || value !== 'owner').map(({ value, label, help }) => (
          <Radio
            key={value}
            name="role"
            label={label}
            hint={help}
            checked={role === value}
            onChange={() => setRole(value)}
          />
        ))}
      </FieldSet>
      <FormError action={action} fields={['email', 'role']} />
    </Dialog>
  );
}

function InviteLinkDialog({ invite, onClose }: { invite: InviteObject; onClose: () => void }): ReactNode {
  const { status } = useSession();
  return (
    <Dialog
      title={`Invitation for ${invite.email}`}
      onClose={onClose}
      footer={
        <Button variant="primary" onClick={onClose}>
          Done
        </Button>
      }
    >
      <p>
        {status.mail
          ? 'The link was sent by email. You can also share it yourself:'
          : 'This server cannot send email. Share this link yourself:'}
      </p>
      <div className="secret">
        <code>{invite.url ?? ''}</code>
        <CopyButton text={invite.url ?? ''} label="Copy link" iconOnly />
      </div>
      <p className="hint">
        Only for this email address. The link expires <Time at={invite.expires_at} />.
      </p>
    </Dialog>
  );
}
