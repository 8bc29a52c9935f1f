// The user's profile: name, email address, password, two-factor authentication, sessions.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import { useLocation } from 'wouter';
import type { SessionObject } from '../../../../shared/wire/users.js';
import { api } from '../api.js';
import { Badge } from '../components/badge.js';
import { Button } from '../components/button.js';
import { ConfirmDialog } from '../components/dialog.js';
import { TextField } from '../components/field.js';
import { Form, FormError, useAction } from '../components/form.js';
import { ListView, useList } from '../components/list.js';
import { PageHeader, Panel, Time } from '../components/page.js';
import { Notice } from '../components/states.js';
import { Table } from '../components/table.js';
import { useToast } from '../components/toasts.js';
import { roleLabel } from '../roles.js';
import { useMe, useSession } from '../session.js';
import { LinkedSignIn } from './linked-sign-in.js';
import { DeleteAccount, EmailDialog } from './own-account.js';
import { SecondFactor } from './second-factor.js';

export function Profile(): ReactNode {
  const { organizations } = useMe();
  const { selectOrganization } = useSession();
  const [, navigate] = useLocation();
  return (
    <>
      <PageHeader title="Profile" />
      <Person />
      <Password />
      <SecondFactor />
      <LinkedSignIn />
      <Sessions />
      {organizations.length > 0 && (
        <Panel title="Organizations" flush>
          <Table
            caption="Your organizations"
            rows={organizations}
            rowKey={({ id }) => id}
            columns={[
              {
                key: 'name',
                header: 'Name',
                heading: true,
                cell: ({ name, status }) => (
                  <span className="cell-main">
                    {name} {status === 'suspended' && <Badge tone="danger">Suspended</Badge>}
                  </span>
                ),
              },
              { key: 'role', header: 'Role', cell: ({ role }) => roleLabel(role) },
              {
                key: 'open',
                header: 'Actions',
                actions: true,
                cell: ({ id, name }) => (
                  <Button
                    size="small"
                    variant="ghost"
                    aria-label={`Open ${name}`}
                    onClick={() => {
                      selectOrganization(id);
                      navigate('/');
                    }}
                  >
                    Open
                  </Button>
                ),
              },
            ]}
          />
        </Panel>
      )}
      <DeleteAccount />
    </>
  );
}

function Person(): ReactNode {
  const { user } = useMe();
  const { status, reload } = useSession();
  const toast = useToast();
  const action = useAction();
  const verification = useAction();
  const [name, setName] = useState(user.name);
  const [changesEmail, setChangesEmail] = useState(false);
  const save = (): void => {
    void action.run(async () => {
      await api.patch('/me', { name });
      await reload();
      toast('Name saved');
    });
  };
  const sendVerification = (): void => {
    void verification.run(async () => {
      await api.post('/email/send-verification');
      toast(`Email sent to ${user.email}`);
    });
  };
  return (
    <Panel title="You">
      <Form onSubmit={save}>
        <div className="narrow">
          <TextField
            label="Name"
            autoComplete="name"
            maxLength={100}
            value={name}
            onChange={(event) => setName(event.target.value)}
            error={action.errorOf('name')}
          />
        </div>
        <FormError action={action} fields={['name']} />
        <div className="form-end">
          <Button type="submit" variant="primary" busy={action.busy} disabled={name.trim() === user.name}>
            Save
          </Button>
        </div>
      </Form>
      <dl className="fact-list">
        <div>
          <dt>Email</dt>
          <dd className="row">
            {user.email}{' '}
            {user.email_verified ? <Badge tone="ok">Confirmed</Badge> : <Badge tone="warn">Not confirmed</Badge>}
            {!user.email_verified && status.mail && (
              <Button size="small" busy={verification.busy} onClick={sendVerification}>
                Send link again
              </Button>
            )}
            <Button size="small" onClick={() => setChangesEmail(true)}>
              Change…
            </Button>
          </dd>
        </div>
        {user.operator && (
          <div>
            <dt>Operator</dt>
            <dd>You are an operator of this server.</dd>
          </div>
        )}
      </dl>
      <FormError action={verification} />
      {changesEmail && <EmailDialog onClose={() => setChangesEmail(false)} />}
    </Panel>
  );
}

function Password(): ReactNode {
  const client = useQueryClient();
  const { user } = useMe();
  const toast = useToast();
  const action = useAction();
  const [current, setCurrent] = useState('');
  const [next, setNext] = useState('');
  const change = (): void => {
    void action.run(async () => {
      await api.post('/password/change', { current_password: current, new_password: next });
      setCurrent('');
      setNext('');
      toast('Password changed');
      void client.invalidateQueries({ queryKey: ['sessions'] });
    });
  };
  return (
    <Panel
      title="Password"
      lead={
        user.has_password
          ? 'Changing your password signs you out on your other devices.'
          : 'Your account has no password. Use "Forgot your password?" on the sign-in page to set one. If this server does not send email, ask the operator for a link.'
      }
    >
      {user.has_password && (
        <Form onSubmit={change} label="Change password">
          <input type="text" name="username" autoComplete="username" value={user.email} readOnly hidden />
          <div className="narrow stack">
            <TextField
              label="Current password"
              type="password"
              autoComplete="current-password"
              value={current}
              onChange={(event) => setCurrent(event.target.value)}
              error={action.errorOf('current_password')}
            />
            <TextField
              label="New password"
              type="password"
              autoComplete="new-password"
              value={next}
              onChange={(event) => setNext(event.target.value)}
              error={action.errorOf('new_password')}
              hint="At least 10 characters."
            />
          </div>
          <FormError action={action} fields={['current_password', 'new_password']} />
          <div className="form-end">
            <Button type="submit" busy={action.busy} disabled={current === '' || next === ''}>
              Change password
            </Button>
          </div>
        </Form>
      )}
    </Panel>
  );
}

function Sessions(): ReactNode {
  const { reload } = useSession();
  const client = useQueryClient();
  const toast = useToast();
  const [revoking, setRevoking] = useState<SessionObject | null>(null);
  const list = useList<SessionObject>(['sessions'], '/sessions');
  const revoke = async ({ id, current }: SessionObject): Promise<void> => {
    await api.delete(`/sessions/${id}`);
    if (current) {
      await reload();
      return;
    }
    toast('Session ended');
    void client.invalidateQueries({ queryKey: ['sessions'] });
  };
  return (
    <Panel title="Sessions" flush>
      <ListView
        list={list}
        empty={
          <div className="panel-pad">
            <Notice>No sessions.</Notice>
          </div>
        }
      >
        {(rows) => (
          <Table
            caption="Sessions"
            rows={rows}
            rowKey={({ id }) => id}
            columns={[
              {
                key: 'device',
                header: 'Device',
                heading: true,
                cell: (session) => (
                  <>
                    <span className="cell-main">
                      {deviceOf(session.user_agent)} {session.current && <Badge tone="accent">This device</Badge>}
                    </span>
                    <span className="cell-sub">{session.ip}</span>
                  </>
                ),
              },
              { key: 'created', header: 'Signed in', cell: (session) => <Time at={session.created_at} /> },
              { key: 'seen', header: 'Last seen', cell: (session) => <Time at={session.last_seen_at} /> },
              { key: 'expires', header: 'Ends', cell: (session) => <Time at={session.expires_at} /> },
              {
                key: 'actions',
                header: 'Actions',
                actions: true,
                cell: (session) => (
                  <Button
                    size="small"
                    variant="ghost"
                    aria-label={`End the session on ${deviceOf(session.user_agent)}, ${session.ip}`}
                    onClick={() => setRevoking(session)}
                  >
                    End
                  </Button>
                ),
              },
            ]}
          />
        )}
      </ListView>
      {revoking !== null && (
        <ConfirmDialog
          title={revoking.current ? 'Sign out here?' : 'End this session?'}
          confirm={revoking.current ? 'Sign out' : 'End session'}
          onConfirm={() => revoke(revoking)}
          onClose={() => setRevoking(null)}
        >
          <p>
            {deviceOf(revoking.user_agent)} at {revoking.ip} will have to sign in again.
          </p>
        </ConfirmDialog>
      )}
    </Panel>
  );
}

/** For example "Firefox on Linux". For an unrecognized browser, returns the first word of its User-Agent. */
export function deviceOf(userAgent: string): string {
  const browsers: [RegExp, string][] = [
    [/Edg\//, 'Edge'],
    [/OPR\//, 'Opera'],
    [/Firefox\//, 'Firefox'],
    [/Chrome\//, 'Chrome'],
    [/Safari\//, 'Safari'],
  ];
  const systems: [RegExp, string][] = [
    [/Android/, 'Android'],
    [/iPhone|iPad/, 'iOS'],
    [/Windows/, 'Windows'],
    [/Mac OS/, 'macOS'],
    [/Linux/, 'Linux'],
  ];
  const browser = browsers.find(([pattern]) => pattern.test(userAgent))?.[1];
  const system = systems.find(([pattern]) => pattern.test(userAgent))?.[1];
  if (browser === undefined) return userAgent.split(/[\s/]/)[0] || 'Unknown device';
  return system === undefined ? browser : `${browser} on ${system}`;
}
