import { useState } from 'react';
import type { ReactNode } from 'react';
import { Link, useSearch } from 'wouter';
import { api, messageOf } from '../api.js';
import { Button, LinkButton } from '../components/button.js';
import { TextField } from '../components/field.js';
import { Form, FormError, useAction } from '../components/form.js';
import { EmptyState, Notice, Skeleton } from '../components/states.js';
import { OidcButton } from '../components/oidc-button.js';
import { SignedOutFrame } from '../layout/shell.js';
import { useInvite } from '../queries.js';
import { oidcStart } from '../oidc.js';
import { roleLabel } from '../roles.js';
import { useSession } from '../session.js';

const FIELDS = ['name', 'email', 'password', 'organization_name', 'code'];

/**
 * Sign-up: by invitation, with the setup code for the first user, or for anyone if the server's configuration allows
 * it.
 */
export function SignUp({ invite }: { invite: string | null }): ReactNode {
  const { status, reload } = useSession();
  const search = new URLSearchParams(useSearch());
  const action = useAction();
  const [name, setName] = useState('');
  const [typedEmail, setEmail] = useState('');
  const preview = useInvite(invite);
  const email = preview.data?.email ?? typedEmail;
  const [password, setPassword] = useState('');
  const [organization, setOrganization] = useState('');
  const [code, setCode] = useState(search.get('code') ?? '');
  const next = search.get('next');
  const signInPath =
    invite !== null
      ? `/signin?next=${encodeURIComponent(`/accept-invite?token=${invite}`)}`
      : next === null
        ? '/signin'
        : `/signin?next=${encodeURIComponent(next)}`;

  if (status.signup === 'invited' && invite === null && !status.first_user) {
    return (
      <SignedOutFrame title="Create an account">
        <EmptyState icon="members" title="Invitation required" action={<LinkButton href="/signin">Sign in</LinkButton>}>
          Sign-up on this server is by invitation only. Ask an admin of your organization to invite you.
        </EmptyState>
      </SignedOutFrame>
    );
  }
  if (invite !== null && preview.data === undefined) {
    return (
      <SignedOutFrame title="Accept the invitation">
        {preview.isError ? (
          <>
            <Notice tone="danger">{messageOf(preview.error)}</Notice>
            <LinkButton href="/signin">Sign in</LinkButton>
          </>
        ) : (
          <Skeleton />
        )}
      </SignedOutFrame>
    );
  }
  const signUp = (): void => {
    void action.run(async () => {
      await api.post('/signup', {
        name,
        email,
        password,
        ...(invite === null ? { organization_name: organization.trim() === '' ? null : organization } : { invite }),
        ...(status.signup === 'setup_code' ? { code } : {}),
      });
      await reload();
    });
  };
  return (
    <SignedOutFrame
      title={status.first_user ? 'Set up Monolith' : invite === null ? 'Create an account' : 'Accept the invitation'}
      lead={
        status.first_user ? (
          'The first account becomes an operator of this server, with access to the engine, all organizations and all users.'
        ) : preview.data === undefined ? undefined : (
          <>
            Join <strong>{preview.data.organization.name}</strong> as {roleLabel(preview.data.role).toLowerCase()}.
          </>
        )
      }
      foot={
        status.first_user ? undefined : (
          <>
            Already have an account? <Link href={signInPath}>Sign in</Link>
          </>
        )
      }
    >
      {status.oidc !== null && !status.first_user && (
        <OidcButton name={status.oidc.name} href={oidcStart({ invite })} />
      )}
      <Form onSubmit={signUp}>
        {status.signup === 'setup_code' && (
          <TextField
            label="Setup code"
            name="code"
            autoComplete="off"
            spellCheck={false}
            className="mono"
            value={code}
            onChange={(event) => setCode(event.target.value)}
            error={action.errorOf('code')}
            hint="Shown in the terminal or log when the server started."
          />
        )}
        <TextField
          label="Name"
          name="name"
          autoComplete="name"
          autoFocus
          value={name}
          onChange={(event) => setName(event.target.value)}
          error={action.errorOf('name')}
          maxLength={100}
        />
        <TextField
          label="Email"
          type="email"
          name="email"
          autoComplete="username"
          inputMode="email"
          readOnly={preview.data !== undefined}
          value={email}
          onChange={(event) => setEmail(event.target.value)}
          error={action.errorOf('email')}
        />
        <TextField
          label="Password"
          type="password"
          name="password"
          autoComplete="new-password"
          value={password}
          onChange={(event) => setPassword(event.target.value)}
          error={action.errorOf('password')}
          hint="At least 10 characters."
        />
        {invite === null && (
          <TextField
            label="Organization"
            name="organization"
            optional
            autoComplete="organization"
            value={organization}
            onChange={(event) => setOrganization(event.target.value)}
            error={action.errorOf('organization_name')}
            maxLength={100}
            hint="Keys, limits and usage belong to the organization. You can rename it later."
          />
        )}
        <FormError action={action} fields={FIELDS} />
        <Button type="submit" variant="primary" className="wide" busy={action.busy}>
          {invite === null ? 'Create account' : 'Join'}
        </Button>
      </Form>
    </SignedOutFrame>
  );
}
