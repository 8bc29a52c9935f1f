// Profile section that links the account to a single sign-on provider, or unlinks it.
import { useState } from 'react';
import type { ReactNode } from 'react';
import { useSearch } from 'wouter';
import { api } from '../api.js';
import { Badge } from '../components/badge.js';
import { Button } from '../components/button.js';
import { ConfirmDialog } from '../components/dialog.js';
import { FormError, useAction } from '../components/form.js';
import { Panel } from '../components/page.js';
import { Notice } from '../components/states.js';
import { oidcFailure } from '../oidc.js';
import { useMe, useSession } from '../session.js';

export function LinkedSignIn(): ReactNode {
  const { status, reload } = useSession();
  const { user, oidc_linked: isLinked } = useMe();
  const search = useSearch();
  const action = useAction();
  const [isAsking, setAsking] = useState(false);
  if (status.oidc === null) return null;
  const { name } = status.oidc;
  const failure = oidcFailure(search, name);
  const link = (): void => {
    void action.run(async () => location.assign((await api.post<{ url: string }>('/oidc/link')).url));
  };
  return (
    <Panel
      title={`Sign-in with ${name}`}
      lead={isLinked ? 'You can use it instead of your password.' : 'Link it to sign in without your password.'}
    >
      {failure !== null && <Notice tone="danger">{failure}</Notice>}
      <div className="row">
        {isLinked ? (
          <Badge tone="ok" dot>
            Linked
          </Badge>
        ) : (
          <Badge>Not linked</Badge>
        )}
        {!isLinked && (
          <Button busy={action.busy} onClick={link}>
            Link
          </Button>
        )}
        {isLinked && user.has_password && <Button onClick={() => setAsking(true)}>Unlink</Button>}
      </div>
      <FormError action={action} />
      {isAsking && (
        <ConfirmDialog
          title={`Unlink ${name}?`}
          confirm="Unlink"
          onConfirm={async () => {
            await api.post('/oidc/unlink');
            await reload();
          }}
          onClose={() => setAsking(false)}
        >
          <p>After that, sign in with your password.</p>
        </ConfirmDialog>
      )}
    </Panel>
  );
}
