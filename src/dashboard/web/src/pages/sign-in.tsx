// Sign-in with email and password, followed by a code if the account uses two-factor authentication.
import { useState } from 'react';
import type { ReactNode } from 'react';
import { Link, useSearch } from 'wouter';
import type { LoginAnswer } from '../../../../shared/wire/users.js';
import { api, ApiFailure } from '../api.js';
import { Button } from '../components/button.js';
import { TextField } from '../components/field.js';
import { Form, FormError, useAction } from '../components/form.js';
import { Notice } from '../components/states.js';
import { OidcButton } from '../components/oidc-button.js';
import { SignedOutFrame } from '../layout/shell.js';
import { nextPath } from '../navigation.js';
import { oidcFailure, oidcStart } from '../oidc.js';
import { useSession } from '../session.js';

export function SignIn(): ReactNode {
  const { status, reload } = useSession();
  const search = useSearch();
  const action = useAction();
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const [ticket, setTicket] = useState<string | null>(ticketOfAddress);
  const [remark, setRemark] = useState<string | null>(null);
  const failure = status.oidc === null ? null : oidcFailure(search, status.oidc.name);
  const query = search === '' ? '' : `?${search}`;
  const signIn = (): void => {
    setRemark(null);
    void action.run(async () => {
      const answer = await api.post<LoginAnswer>('/login', { email, password });
      if ('second_factor' in answer) setTicket(answer.second_factor.ticket);
      else await reload();
    });
  };
  const again = (why: string | null): void => {
    setTicket(null);
    setPassword('');
    setRemark(why);
  };
  if (ticket !== null) return <CodeStep ticket={ticket} onAgain={again} />;
  return (
    <SignedOutFrame
      title="Sign in"
      foot={
        status.signup === 'invited' && !status.first_user ? (
          'New here? Ask an admin of your organization for an invitation.'
        ) : (
          <>
            New here? <Link href={`/signup${query}`}>Create an account</Link>
          </>
        )
      }
    >
      {remark !== null && <Notice tone="warn">{remark}</Notice>}
      {remark === null && failure !== null && <Notice tone="danger">{failure}</Notice>}
      {status.oidc !== null && !status.first_user && (
        <OidcButton name={status.oidc.name} href={oidcStart({ next: nextPath(search) })} />
      )}
      <Form onSubmit={signIn}>
        <TextField
          label="Email"
          type="email"
          name="email"
          autoComplete="username"
          inputMode="email"
          autoFocus
          value={email}
          onChange={(event) => setEmail(event.target.value)}
          error={action.errorOf('email')}
        />
        <TextField
          label="Password"
          type="password"
          name="password"
          autoComplete="current-password"
          value={password}
          onChange={(event) => setPassword(event.target.value)}
          error={action.errorOf('password')}
        />
        <FormError action={action} fields={['email', 'password']} />
        <Button type="submit" variant="primary" className="wide" busy={action.busy}>
          Sign in
        </Button>
        <p className="hint">
          <Link href="/forgot">Forgot your password?</Link>
        </p>
      </Form>
    </SignedOutFrame>
  );
}

/**
 * The sign-in ticket from the URL fragment of the provider's redirect. It is removed from the address to keep it out of
 * the browser history.
 */
function ticketOfAddress(): string | null {
  const ticket = /^#ticket=([\w.-]+)$/.exec(location.hash)?.[1] ?? null;
  if (ticket !== null) history.replaceState(history.state, '', location.pathname + location.search);
  return ticket;
}

/** `onAgain`: returns to the password form. The argument is the reason, or null if the user chose to go back. */
export function CodeStep({ ticket, onAgain }: { ticket: string; onAgain: (why: string | null) => void }): ReactNode {
  const { reload } = useSession();
  const action = useAction();
  const [code, setCode] = useState('');
  const send = (): void => {
    void action.run(async () => {
      try {
        await api.post<LoginAnswer>('/login/code', { ticket, code });
      } catch (error) {
        if (error instanceof ApiFailure && error.code === 'invalid_token') {
          onAgain(error.message);
          return;
        }
        throw error;
      }
      await reload();
    });
  };
  return (
    <SignedOutFrame
      title="Enter the code"
      lead="Open your authenticator app and enter the code for this server, or enter one of your recovery codes."
      foot={
        <button type="button" className="link-button" onClick={() => onAgain(null)}>
          Back to the password
        </button>
      }
    >
      <Form onSubmit={send}>
        <TextField
          label="Code"
          name="code"
          inputMode="numeric"
          autoComplete="one-time-code"
          maxLength={64}
          autoFocus
          value={code}
          onChange={(event) => setCode(event.target.value)}
          error={action.errorOf('code')}
        />
        <FormError action={action} fields={['code']} />
        <Button type="submit" variant="primary" className="wide" busy={action.busy} disabled={code.trim() === ''}>
          Sign in
        </Button>
        <p className="hint">
          If you have lost both the device and the recovery codes, the operator of this server can reset two-factor
          authentication for you.
        </p>
      </Form>
    </SignedOutFrame>
  );
}
