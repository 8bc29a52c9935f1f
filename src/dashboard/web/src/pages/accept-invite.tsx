// Opens an invitation link for a user who is already signed in.
import type { ReactNode } from 'react';
import { useLocation } from 'wouter';
import type { OrganizationObject } from '../../../../shared/wire/organizations.js';
import { api } from '../api.js';
import { useInvite } from '../queries.js';
import { roleLabel } from '../roles.js';
import { Button, LinkButton } from '../components/button.js';
import { FormError, useAction } from '../components/form.js';
import { Loaded, Notice } from '../components/states.js';
import { useToast } from '../components/toasts.js';
import { SignedOutFrame } from '../layout/shell.js';
import { useMe, useSession } from '../session.js';

export function AcceptInvite({ invite }: { invite: string }): ReactNode {
  const { reload, selectOrganization } = useSession();
  const { user } = useMe();
  const [, navigate] = useLocation();
  const toast = useToast();
  const action = useAction();
  const preview = useInvite(invite);
  const accept = (): void => {
    void action.run(async () => {
      const { organization } = await api.post<{ organization: OrganizationObject }>(
        `/invites/${encodeURIComponent(invite)}/accept`,
      );
      await reload();
      selectOrganization(organization.id);
      toast(`You are now a member of ${organization.name}`);
      navigate('/');
    });
  };
  return (
    <SignedOutFrame
      title="Accept the invitation"
      lead={
        <>
          You are signed in as <strong>{user.email}</strong>.
        </>
      }
    >
      <Loaded query={preview}>
        {({ organization, email, role }) => (
          <>
            <p>
              {organization.name} invites {email} to join as {roleLabel(role).toLowerCase()}.
            </p>
            {email !== user.email && (
              <Notice tone="warn">
                This invitation is for a different email address than the one you are signed in with.
              </Notice>
            )}
            <FormError action={action} />
            <div className="form-end">
              <Button variant="primary" busy={action.busy} disabled={email !== user.email} onClick={accept}>
                Join {organization.name}
              </Button>
              <LinkButton href="/" variant="ghost">
                Not now
              </LinkButton>
            </div>
          </>
        )}
      </Loaded>
    </SignedOutFrame>
  );
}
