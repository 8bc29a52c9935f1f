// Profile sections in which users change their email address or delete their account.
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { EmailChange } from '../../../../shared/wire/users.js';
import { api } from '../api.js';
import { Button } from '../components/button.js';
import { Dialog } from '../components/dialog.js';
import { TextField } from '../components/field.js';
import { FormError, useAction } from '../components/form.js';
import { Panel } from '../components/page.js';
import { useToast } from '../components/toasts.js';
import { useMe, useSession } from '../session.js';

export function EmailDialog({ onClose }: { onClose: () => void }): ReactNode {
  const { user } = useMe();
  const { status, reload } = useSession();
  const toast = useToast();
  const action = useAction();
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const change = (): void => {
    void action.run(async () => {
      const { email: next, confirmation_sent: sent } = await api.post<EmailChange>('/email/change', {
        email,
        password,
      });
      await reload();
      toast(sent ? `Email sent to ${next}. Open the link in it to finish.` : 'Email address changed');
      onClose();
    });
  };
  return (
    <Dialog
      title="Change your email address"
      onClose={onClose}
      onSubmit={change}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            type="submit"
            variant="primary"
            busy={action.busy}
            disabled={email.trim() === '' || (password === '' && user.has_password)}
          >
            Change
          </Button>
        </>
      }
    >
      <p>
        {status.mail
          ? 'We will send a link to the new address. Until you open it, sign in with the old address.'
          : 'From now on, sign in with the new address.'}{' '}
        Current address: {user.email}.
      </p>
      <TextField
        label="New email"
        type="email"
        autoComplete="email"
        inputMode="email"
        autoFocus
        value={email}
        onChange={(event) => setEmail(event.target.value)}
        error={action.errorOf('email')}
      />
      {user.has_password && (
        <TextField
          label="Password"
          type="password"
          autoComplete="current-password"
          value={password}
          onChange={(event) => setPassword(event.target.value)}
          error={action.errorOf('password')}
        />
      )}
      <FormError action={action} fields={['email', 'password']} />
    </Dialog>
  );
}

export function DeleteAccount(): ReactNode {
  const [isAsking, setAsking] = useState(false);
  return (
    <Panel
      title="Delete your account"
      lead="You will leave every organization. API keys, stored responses and usage that you created stay with the organization."
    >
      <div>
        <Button variant="danger" onClick={() => setAsking(true)}>
          Delete account…
        </Button>
      </div>
      {isAsking && <DeleteDialog onClose={() => setAsking(false)} />}
    </Panel>
  );
}

function DeleteDialog({ onClose }: { onClose: () => void }): ReactNode {
  const { user } = useMe();
  const { reload } = useSession();
  const action = useAction();
  const [password, setPassword] = useState('');
  const [code, setCode] = useState('');
  const remove = (): void => {
    void action.run(async () => {
      await api.post('/account/delete', { password, ...(user.second_factor ? { code } : {}) });
      await reload();
    });
  };
  const isReady = (password !== '' || !user.has_password) && (!user.second_factor || code.trim() !== '');
  return (
    <Dialog
      title="Delete your account?"
      onClose={onClose}
      onSubmit={remove}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="danger" busy={action.busy} disabled={!isReady}>
            Delete permanently
          </Button>
        </>
      }
    >
      <p>
        {user.email} will no longer be able to sign in. This takes effect immediately and cannot be undone. If you are
        the last owner of an organization, first make another member an owner or delete the organization.
      </p>
      <input type="text" name="username" autoComplete="username" value={user.email} readOnly hidden />
      {user.has_password && (
        <TextField
          label="Password"
          type="password"
          autoComplete="current-password"
          autoFocus
          value={password}
          onChange={(event) => setPassword(event.target.value)}
          error={action.errorOf('password')}
        />
      )}
      {user.second_factor && (
        <TextField
          label="Code"
          inputMode="numeric"
          autoComplete="one-time-code"
          maxLength={64}
          value={code}
          onChange={(event) => setCode(event.target.value)}
          error={action.errorOf('code')}
          hint="From your authenticator app, or a recovery code."
        />
      )}
      <FormError action={action} fields={['password', 'code']} />
    </Dialog>
  );
}
