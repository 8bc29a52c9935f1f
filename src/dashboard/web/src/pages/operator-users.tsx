// All users: lock accounts, create password reset links, and grant or revoke operator rights.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { OperatorUser, OperatorUserPatch } from '../../../../shared/wire/users.js';
import { api, messageOf } from '../api.js';
import { Badge } from '../components/badge.js';
import { Button } from '../components/button.js';
import { CopyButton } from '../components/copy.js';
import { ConfirmDialog, Dialog } from '../components/dialog.js';
import { ListView, useList } from '../components/list.js';
import { PageHeader, Panel, Time } from '../components/page.js';
import { EmptyState, Notice } from '../components/states.js';
import { Table } from '../components/table.js';
import { useToast } from '../components/toasts.js';
import { dateTime } from '../format.js';
import { roleLabel } from '../roles.js';
import { useMe } from '../session.js';

const LIST = ['operator', 'users'];

interface Question {
  title: string;
  text: string;
  confirm: string;
  danger: boolean;
  run: () => Promise<unknown>;
  done: string;
}

export function OperatorUsers(): ReactNode {
  const { user: me } = useMe();
  const list = useList<OperatorUser>(LIST, '/operator/users');
  const client = useQueryClient();
  const toast = useToast();
  const [question, setQuestion] = useState<Question | null>(null);
  const [resets, setResets] = useState<OperatorUser | null>(null);
  const run = async ({ run: act, done }: Question): Promise<void> => {
    await act();
    await client.invalidateQueries({ queryKey: LIST });
    toast(done);
  };
  return (
    <>
      <PageHeader title="Users">
        Everyone with an account. Locking a user signs them out everywhere and blocks new sign-ins. API keys of their
        organizations keep working.
      </PageHeader>
      <Panel flush>
        <ListView list={list} empty={<EmptyState icon="users" title="No users yet" />}>
          {(rows) => (
            <Table
              caption="Users"
              rows={rows}
              rowKey={({ id }) => id}
              rowClass={({ locked }) => (locked ? 'dim' : undefined)}
              columns={[
                {
                  key: 'name',
                  header: 'Name',
                  heading: true,
                  cell: (user) => (
                    <>
                      <span className="cell-main">
                        {user.name || user.email} {user.id === me.id && <Badge>You</Badge>}
                      </span>
                      <span className="cell-sub">{user.email}</span>
                    </>
                  ),
                },
                {
                  key: 'state',
                  header: 'State',
                  cell: (user) => (
                    <span className="row">
                      {user.locked ? (
                        <Badge tone="danger" dot>
                          Locked
                        </Badge>
                      ) : (
                        <Badge tone="ok" dot>
                          Active
                        </Badge>
                      )}
                      {user.operator && <Badge tone="accent">Operator</Badge>}
                      {user.second_factor && <Badge>Two-factor</Badge>}
                    </span>
                  ),
                },
                {
                  key: 'organizations',
                  header: 'Organizations',
                  cell: ({ organizations }) =>
                    organizations.length === 0 ? (
                      <span className="muted">none</span>
                    ) : (
                      <ul>
                        {organizations.map(({ id, name, role }) => (
                          <li key={id}>
                            {name} <span className="muted">({roleLabel(role).toLowerCase()})</span>
                          </li>
                        ))}
                      </ul>
                    ),
                },
                { key: 'login', header: 'Last sign-in', cell: (user) => <Time at={user.last_login_at} /> },
                {
                  key: 'actions',
                  header: 'Actions',
                  actions: true,
                  cell: (user) =>
                    user.id === me.id ? null : (
                      <Actions user={user} onAsk={setQuestion} onReset={() => setResets(user)} />
                    ),
                },
              ]}
            />
          )}
        </ListView>
      </Panel>
      {question !== null && (
        <ConfirmDialog
          title={question.title}
          confirm={question.confirm}
          danger={question.danger}
          onConfirm={() => run(question)}
          onClose={() => setQuestion(null)}
        >
          <p>{question.text}</p>
        </ConfirmDialog>
      )}
      {resets !== null && <ResetDialog user={resets} onClose={() => setResets(null)} />}
    </>
  );
}

/** The link is created only on request, because it is as powerful as the password. */
function ResetDialog({ user, onClose }: { user: OperatorUser; onClose: () => void }): ReactNode {
  const [link, setLink] = useState<{ url: string; expires_at: string } | null>(null);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const name = user.name || user.email;
  const make = (): void => {
    setBusy(true);
    setFailure(null);
    api
      .post<{ url: string; expires_at: string }>(`/operator/users/${user.id}/reset-link`)
      .then(setLink, setFailure)
      .finally(() => setBusy(false));
  };
  return (
    <Dialog
      title={`New password for ${name}`}
      onClose={onClose}
      sticky={link !== null}
      footer={
        link === null ? (
          <>
            <Button onClick={onClose}>Cancel</Button>
            <Button variant="primary" busy={busy} onClick={make}>
              Create link
            </Button>
          </>
        ) : (
          <Button variant="primary" onClick={onClose}>
            Done
          </Button>
        )
      }
    >
      {link === null ? (
        <p>
          For a user who cannot sign in or receive mail: with this link, {user.email} can set a new password once,
          within one hour. Send it over a channel that only they can read.
        </p>
      ) : (
        <>
          <div className="secret">
            <code>{link.url}</code>
            <CopyButton text={link.url} label="Copy link" iconOnly />
          </div>
          <p className="hint">Works once, until {dateTime(link.expires_at)}. It will not be shown again.</p>
        </>
      )}
      {failure !== null && <Notice tone="danger">{messageOf(failure)}</Notice>}
    </Dialog>
  );
}

function Actions({
  user,
  onAsk,
  onReset,
}: {
  user: OperatorUser;
  onAsk: (question: Question) => void;
  onReset: () => void;
}): ReactNode {
  const name = user.name || user.email;
  const change = (patch: OperatorUserPatch) => (): Promise<unknown> =>
    api.patch<OperatorUser>(`/operator/users/${user.id}`, patch);
  const factor: Question = {
    title: `Reset two-factor authentication for ${name}?`,
    text: 'Use this if the user has lost both the device and the recovery codes. Verify their identity first. They will be signed out everywhere and can sign in with only their password until they turn on two-factor authentication again.',
    confirm: 'Reset',
    danger: true,
    run: () => api.delete(`/operator/users/${user.id}/second-factor`),
    done: `Two-factor authentication is now off for ${name}`,
  };
  const operator: Question = user.operator
    ? {
        title: `Revoke operator rights of ${name}?`,
        text: 'They lose access to the operator pages immediately.',
        confirm: 'Revoke',
        danger: true,
        run: change({ operator: false }),
        done: `${name} is no longer an operator`,
      }
    : {
        title: `Make ${name} an operator?`,
        text: 'Operators see every organization and user, change limits and engine settings, and can make other users operators.',
        confirm: 'Make operator',
        danger: false,
        run: change({ operator: true }),
        done: `${name} is now an operator`,
      };
  const lock: Question = user.locked
    ? {
        title: `Unlock ${name}?`,
        text: 'They can sign in again.',
        confirm: 'Unlock',
        danger: false,
        run: change({ locked: false }),
        done: `${name} is unlocked`,
      }
    : {
        title: `Lock ${name}?`,
        text: 'All their sessions end immediately, and they cannot sign in until they are unlocked.',
        confirm: 'Lock',
        danger: true,
        run: change({ locked: true }),
        done: `${name} is locked`,
      };
  return (
    <>
      <Button size="small" variant="ghost" aria-label={`Reset link for ${name}`} onClick={onReset}>
        Reset link
      </Button>
      {user.second_factor && (
        <Button size="small" variant="ghost" aria-label={`Reset two-factor for ${name}`} onClick={() => onAsk(factor)}>
          Reset two-factor
        </Button>
      )}
      <Button
        size="small"
        variant="ghost"
        aria-label={`${user.operator ? 'Revoke operator' : 'Make operator'}: ${name}`}
        onClick={() => onAsk(operator)}
      >
        {user.operator ? 'Revoke operator' : 'Make operator'}
      </Button>
      <Button size="small" aria-label={`${lock.confirm} ${name}`} onClick={() => onAsk(lock)}>
        {lock.confirm}
      </Button>
    </>
  );
}
