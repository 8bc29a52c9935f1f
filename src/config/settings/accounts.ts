// Settings for accounts, sign-in, the dashboard, email and the operator API.
import * as kind from '../kinds.js';
import { setting } from './setting.js';

export const accounts = {
  signup: setting(
    kind.choice('auto', 'open', 'invited'),
    'auto',
    'Who may sign up on the dashboard. open: anyone; invited: invited users; auto: anyone if the server listens only on this machine, otherwise invited users. The first user can always sign up, with a setup code unless the server is local.',
  ),
  operator_second_factor: setting(
    kind.choice('optional', 'required'),
    'optional',
    'Whether operators must use two-factor authentication. required: operator pages and routes are closed to an operator until it is enabled.',
  ),
  organizations_per_user: setting(
    kind.integer(1, 50),
    5,
    'Maximum number of organizations that one user may own. Operators may own more.',
  ),
};

export const oidc = {
  issuer: setting(
    kind.nullable(kind.url('https', 'http')),
    null,
    'Issuer URL of an OpenID Connect provider for single sign-on, for example https://accounts.example.com. Register this redirect URI with the provider: the dashboard URL followed by /dashboard/api/oidc/callback.',
    { shown: 'none' },
  ),
  client_id: setting(
    kind.nullable(kind.text(1, 512)),
    null,
    'Client ID of this server, as registered with the provider.',
    {
      shown: 'none',
    },
  ),
  client_secret: setting(
    kind.nullable(kind.text(1, 1024)),
    null,
    'Client secret of this server, as issued by the provider. If unset, the server is a public client (PKCE only).',
    { secret: true, shown: 'none' },
  ),
  name: setting(kind.text(1, 64), 'single sign-on', 'Provider name on the sign-in button, after "Sign in with".'),
  domains: setting(kind.list, [], 'Email domains that may sign in through the provider; empty = all.', {
    shown: 'all',
  }),
  signup: setting(
    kind.choice('invited', 'open'),
    'invited',
    'Whether a first sign-in through the provider creates an account. invited: only with an invitation; open: always.',
  ),
  unverified_email: setting(
    kind.flag,
    false,
    'Accept email addresses that the provider does not report as verified. Use only if users cannot choose their address at the provider.',
  ),
  roles: setting(
    kind.oidcRoles,
    null,
    'Sets roles from a claim at each sign-in, for example {"claim": "groups", "roles": {"llm-admins": "admin"}, "default": "viewer"}.',
    { shown: 'none' },
  ),
};

export const dashboard = {
  enabled: setting(kind.flag, true, 'Serve the dashboard and its API.'),
  url: setting(
    kind.nullable(kind.url('https', 'http')),
    null,
    'Public URL of the dashboard, for example https://models.example.com. It determines the links in emails, the allowed Origin header and whether cookies are Secure. If unset, the URL of each request is used.',
    { shown: 'from the request' },
  ),
};

export const mail = {
  smtp_url: setting(
    kind.nullable(kind.url('smtps', 'smtp')),
    null,
    'SMTP server for outgoing email, for example smtps://user:password@mail.example.com; requires dashboard.url. If unset, no email is sent, and authorized users see invitation and password links on the dashboard.',
    { secret: true, shown: 'none' },
  ),
  from: setting(kind.text(3, 256), 'Monolith <monolith@localhost>', 'Sender address of emails.'),
};

export const admin = {
  token: setting(
    kind.nullable(kind.text(16, 512)),
    null,
    'Bearer token for the operator API. If unset, the operator API is disabled.',
    { secret: true, shown: 'none' },
  ),
  host: setting(kind.text(1, 255), '127.0.0.1', 'Address that the operator API listens on.'),
  port: setting(kind.integer(0, 65_535), 8081, 'TCP port that the operator API listens on.'),
};
