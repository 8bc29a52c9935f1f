import { useState } from 'react';
import type { ReactNode } from 'react';
import { Link, useSearch } from 'wouter';
import { api } from '../api.js';
import { Button } from '../components/button.js';
import { TextField } from '../components/field.js';
import { Form, FormError, useAction } from '../components/form.js';
import { SignedOutFrame } from '../layout/shell.js';
import { useSession } from '../session.js';

export function SignIn(): ReactNode {
  const { status, reload } = useSession();
  const search = useSearch();
  const action = useAction();
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const query = search === '' ? '' : `?${search}`;
  const signIn = (): void => {
    void action.run(async () => {
      await api.post('/login', { email, password });
      await reload();
    });
  };
  return (
    <SignedOutFrame title="Sign in" foot={
      status.signup === 'invited' && !status.first_user
        ? 'New here? Ask an admin of your organization for an invitation.'
        : <>New here? <Link href={`/signup${query}`}>Create an account</Link></>
    }>
      <Form onSubmit={signIn}>
        <TextField label="E-mail" type="email" name="email" autoComplete="username" inputMode="email" autoFocus value={email} onChange={(event) => setEmail(event.target.value)} error={action.errorOf('email')} />
        <TextField label="Password" type="password" name="password" autoComplete="current-password" value={password} onChange={(event) => setPassword(event.target.value)} error={action.errorOf('password')} />
        <FormError action={action} fields={['email', 'password']} />
        <Button type="submit" variant="primary" className="wide" busy={action.busy}>Sign in</Button>
        <p className="hint"><Link href="/forgot">Forgot your password?</Link></p>
      </Form>
    </SignedOutFrame>
  );
}
