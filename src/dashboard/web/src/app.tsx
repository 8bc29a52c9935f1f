// The routes. Paths are relative to /dashboard; the server returns the same HTML page for each of them
// (src/dashboard/pages).
import { useEffect, useState } from 'react';
import type { ReactNode } from 'react';
import { Redirect, Route, Router, Switch, useLocation, useSearch } from 'wouter';
import { LinkButton } from './components/button.js';
import { ErrorBoundary } from './components/error-boundary.js';
import { PageHeader } from './components/page.js';
import { EmptyState } from './components/states.js';
import { SuspendedNotice } from './components/suspended-notice.js';
import { Shell } from './layout/shell.js';
import { AcceptInvite } from './pages/accept-invite.js';
import { AddressNotAllowed } from './pages/address-not-allowed.js';
import { AuditLog } from './pages/audit-log.js';
import { Files } from './pages/files.js';
import { ForgotPassword } from './pages/forgot-password.js';
import { Keys } from './pages/keys.js';
import { Limits } from './pages/limits.js';
import { Members } from './pages/members.js';
import { Models } from './pages/models.js';
import { NoOrganization } from './pages/no-organization.js';
import { OperatorAlerts } from './pages/operator-alerts.js';
import { OperatorAuditLog } from './pages/operator-audit-log.js';
import { OperatorLive } from './pages/operator-live.js';
import { OperatorModels } from './pages/operator-models.js';
import { OperatorOrganizations } from './pages/operator-organizations.js';
import { OperatorRequests } from './pages/operator-requests.js';
import { OperatorTuning } from './pages/operator-tuning.js';
import { OperatorUsage } from './pages/operator-usage.js';
import { OperatorUsers } from './pages/operator-users.js';
import { Overview } from './pages/overview.js';
import { Playground } from './pages/playground.js';
import { Profile } from './pages/profile.js';
import { Requests } from './pages/requests.js';
import { ResetPassword } from './pages/reset-password.js';
import { Responses } from './pages/responses.js';
import { Settings } from './pages/settings.js';
import { Shared } from './pages/shared.js';
import { SignIn } from './pages/sign-in.js';
import { SignUp } from './pages/sign-up.js';
import { Usage } from './pages/usage.js';
import { VerifyEmail } from './pages/verify-email.js';
import { Webhooks } from './pages/webhooks.js';
import { nextPath } from './navigation.js';
import { atLeast } from './roles.js';
import type { Role } from '../../../shared/wire/organizations.js';
import { useMe, useSession } from './session.js';

export function App(): ReactNode {
  return (
    <Router base="/dashboard">
      <Switch>
        <Route path="/signin">
          <SignedOut>
            <SignIn />
          </SignedOut>
        </Route>
        <Route path="/signup">
          <SignedOut>
            <SignUp invite={null} />
          </SignedOut>
        </Route>
        <Route path="/accept-invite">
          <Join />
        </Route>
        <Route path="/forgot">
          <ForgotPassword />
        </Route>
        <Route path="/reset">
          <ResetPassword />
        </Route>
        <Route path="/verify">
          <VerifyEmail />
        </Route>
        <Route>
          <SignedIn />
        </Route>
      </Switch>
    </Router>
  );
}

function SignedOut({ children }: { children: ReactNode }): ReactNode {
  const { me } = useSession();
  return me === null ? children : <Redirect to={nextPath(location.search)} replace />;
}

/** Opens an invitation link: joins with the signed-in account, or creates a new one. */
function Join(): ReactNode {
  const { me } = useSession();
  const token = new URLSearchParams(useSearch()).get('token') ?? '';
  const [cameSignedIn] = useState(me !== null);
  if (me === null) return <SignUp invite={token} />;
  // signing up has already accepted the invitation
  return cameSignedIn ? <AcceptInvite invite={token} /> : <Redirect to="/" replace />;
}

function SignedIn(): ReactNode {
  const { me, status } = useSession();
  const [path, navigate] = useLocation();
  useEffect(() => {
    if (me !== null) return;
    const to = status.first_user ? '/signup' : '/signin';
    navigate(path === '/' ? to : `${to}?next=${encodeURIComponent(path)}`, { replace: true });
  }, [me, status.first_user, path, navigate]);
  if (me === null) return null;
  return (
    <Shell>
      <ErrorBoundary key={path}>
        <Pages />
      </ErrorBoundary>
    </Shell>
  );
}

function Pages(): ReactNode {
  const { organization } = useSession();
  const { user, second_factor_missing: isMissing } = useMe();
  // Remounts the page when the organization changes, so that no state from the previous one remains.
  const of = (page: ReactNode, least: Role = 'viewer'): ReactNode =>
    organization === null ? (
      <NoOrganization />
    ) : !organization.address_allowed ? (
      <AddressNotAllowed />
    ) : atLeast(organization.role, least) ? (
      <div key={organization.id} className="contents">
        <SuspendedNotice />
        {page}
      </div>
    ) : (
      <NotAllowed />
    );
  const operator = (page: ReactNode): ReactNode =>
    !user.operator ? <NotAllowed /> : isMissing ? <SecondFactorMissing /> : page;
  return (
    <Switch>
      <Route path="/">{of(<Overview />)}</Route>
      <Route path="/playground">{of(<Playground />)}</Route>
      <Route path="/shared/:organization/:id">
        {({ organization: of, id }) => <Shared organizationId={of} id={id} />}
      </Route>
      <Route path="/models">{of(<Models />)}</Route>
      <Route path="/keys">{of(<Keys />)}</Route>
      <Route path="/usage">{of(<Usage />)}</Route>
      <Route path="/requests">{of(<Requests />)}</Route>
      <Route path="/limits">{of(<Limits />)}</Route>
      <Route path="/responses">{of(<Responses />, 'admin')}</Route>
      <Route path="/files">{of(<Files />, 'developer')}</Route>
      <Route path="/members">{of(<Members />)}</Route>
      <Route path="/webhooks">{of(<Webhooks />, 'admin')}</Route>
      <Route path="/settings">{of(<Settings />)}</Route>
      <Route path="/audit-log">{of(<AuditLog />, 'admin')}</Route>
      <Route path="/profile">
        <Profile />
      </Route>
      <Route path="/operator/live">{operator(<OperatorLive />)}</Route>
      <Route path="/operator/alerts">{operator(<OperatorAlerts />)}</Route>
      <Route path="/operator/tunables">
        <Redirect to="/operator/tuning" replace />
      </Route>
      <Route path="/operator/tuning">{operator(<OperatorTuning />)}</Route>
      <Route path="/operator/models">{operator(<OperatorModels />)}</Route>
      <Route path="/operator/organizations">{operator(<OperatorOrganizations />)}</Route>
      <Route path="/operator/users">{operator(<OperatorUsers />)}</Route>
      <Route path="/operator/requests">{operator(<OperatorRequests />)}</Route>
      <Route path="/operator/audit-log">{operator(<OperatorAuditLog />)}</Route>
      <Route path="/operator/usage">{operator(<OperatorUsage />)}</Route>
      <Route>
        <NotFound />
      </Route>
    </Switch>
  );
}

function NotFound(): ReactNode {
  return (
    <>
      <PageHeader title="Page not found" />
      <EmptyState title="There is no page at this address" action={<LinkButton href="/">Open the overview</LinkButton>}>
        It may have moved, or the link is mistyped.
      </EmptyState>
    </>
  );
}

function SecondFactorMissing(): ReactNode {
  return (
    <>
      <PageHeader title="Two-factor authentication required" />
      <EmptyState
        title="Operators of this server must use two-factor authentication"
        action={
          <LinkButton href="/profile" variant="primary">
            Open your profile
          </LinkButton>
        }
      >
        Turn it on in your profile to open the operator pages.
      </EmptyState>
    </>
  );
}

function NotAllowed(): ReactNode {
  return (
    <>
      <PageHeader title="Not available for your role" />
      <EmptyState
        title="Your role in this organization does not give you access to this page"
        action={<LinkButton href="/">Open the overview</LinkButton>}
      >
        An owner or admin can change your role under Members.
      </EmptyState>
    </>
  );
}
