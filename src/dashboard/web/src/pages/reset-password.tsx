import { useState } from 'react';
import type { ReactNode } from 'react';
import { Link, useSearch } from 'wouter';
import { api } from '../api.js';
import { Button, LinkButton } from '../components/button.js';
import { TextField } from '../components/field.js';
import { Form, FormError, useAction } from '../components/form.js';
import { Notice } from '../components/states.js';
import { SignedOutFrame } from '../layout/shell.js';
import { useSession } from '../session.js';

export function ResetPassword(): ReactNode {
  const { reload } = useSession();
  const token = new URLSearchParams(useSearch()).get('token') ?? '';
  const action = useAction();
  const [password, setPassword] = useState('');
  const [done, setDone] = useState(false);
  if (done) {
    return (
      <SignedOutFrame title="Password changed">
        <Notice tone="ok">Sign in with your new password. You have been signed out on all other devices.</Notice>
        <LinkButton href="/signin" variant="primary">
          Sign in
        </LinkButton>
      </SignedOutFrame>
    );
  }
  const reset = (): void => {
    void action.run(async () => {
      await api.post('/password/reset', { token, password });
      await reload();
      setDone(true);
    });
  };
  return (
    <SignedOutFrame title="Set a new password" foot={<Link href="/forgot">Request a new link</Link>}>
      <Form onSubmit={reset}>
        <TextField
          label="New password"
          type="password"
          name="password"
          autoComplete="new-password"
          autoFocus
          value={password}
          onChange={(event) => setPassword(event.target.value)}
          error={action.errorOf('password')}
          hint="At least 10 characters."
        />
        <FormError action={action} fields={['password']} />
        <Button type="submit" variant="primary" className="wide" busy={action.busy}>
          Set password
        </Button>
      </Form>
    </SignedOutFrame>
  );
}
