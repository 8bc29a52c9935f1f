import { useState } from 'react';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { api } from '../api.js';
import { Button, LinkButton } from '../components/button.js';
import { TextField } from '../components/field.js';
import { Form, FormError, useAction } from '../components/form.js';
import { Notice } from '../components/states.js';
import { SignedOutFrame } from '../layout/shell.js';
import { useSession } from '../session.js';

export function ForgotPassword(): ReactNode {
  const { status } = useSession();
  const action = useAction();
  const [email, setEmail] = useState('');
  const [sent, setSent] = useState(false);
  if (!status.mail) {
    return (
      <SignedOutFrame title="Forgot your password?">
        <Notice>This server cannot send email. Ask its operator for a link to set a new password.</Notice>
        <LinkButton href="/signin">Back to sign in</LinkButton>
      </SignedOutFrame>
    );
  }
  if (sent) {
    return (
      <SignedOutFrame title="Check your mail">
        <Notice tone="ok">
          If <strong>{email}</strong> has an account here, we have sent it a link to set a new password. The link works
          once and expires after one hour.
        </Notice>
        <LinkButton href="/signin">Back to sign in</LinkButton>
      </SignedOutFrame>
    );
  }
  const send = (): void => {
    void action.run(async () => {
      await api.post('/password/forgot', { email });
      setSent(true);
    });
  };
  return (
    <SignedOutFrame
      title="Forgot your password?"
      lead="We will send you a link to set a new one."
      foot={<Link href="/signin">Back to sign in</Link>}
    >
      <Form onSubmit={send}>
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
        <FormError action={action} fields={['email']} />
        <Button type="submit" variant="primary" className="wide" busy={action.busy}>
          Send link
        </Button>
      </Form>
    </SignedOutFrame>
  );
}
