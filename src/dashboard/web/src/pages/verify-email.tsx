// Opens links that verify an email address, either the current one or a new one.
import { useEffect, useRef, useState } from 'react';
import type { ReactNode } from 'react';
import { useSearch } from 'wouter';
import { api, messageOf } from '../api.js';
import { LinkButton } from '../components/button.js';
import { Notice, Skeleton } from '../components/states.js';
import { SignedOutFrame } from '../layout/shell.js';
import { useSession } from '../session.js';

export function VerifyEmail(): ReactNode {
  const { me, reload } = useSession();
  const search = new URLSearchParams(useSearch());
  const token = search.get('token') ?? '';
  const path = search.has('new') ? '/email/change/confirm' : '/email/verify';
  const asked = useRef(false);
  const [state, setState] = useState<{ done: boolean; failure: unknown }>({ done: false, failure: null });
  useEffect(() => {
    if (asked.current) return;
    asked.current = true; // each link works only once
    api.post(path, { token }).then(
      async () => {
        await reload();
        setState({ done: true, failure: null });
      },
      (failure: unknown) => setState({ done: false, failure }),
    );
  }, [token, path, reload]);
  const onwards = (
    <LinkButton href={me === null ? '/signin' : '/'} variant="primary">
      {me === null ? 'Sign in' : 'Open the dashboard'}
    </LinkButton>
  );
  if (state.failure !== null)
    return (
      <SignedOutFrame title="Confirm your email address">
        <Notice tone="danger">{messageOf(state.failure)}</Notice>
        {onwards}
      </SignedOutFrame>
    );
  if (state.done)
    return (
      <SignedOutFrame title="Email address confirmed">
        <Notice tone="ok">Thank you. You can close this page.</Notice>
        {onwards}
      </SignedOutFrame>
    );
  return (
    <SignedOutFrame title="Confirm your email address">
      <Skeleton rows={2} />
    </SignedOutFrame>
  );
}
