// Users, their sessions and sign-in.
import type { Role } from './organizations.js';

export interface UserObject {
  id: string;
  email: string;
  name: string;
  email_verified: boolean;
  /** Whether the user may see the operator's pages. The first user is an operator. */
  operator: boolean;
  /** Whether each sign-in requires a code. */
  second_factor: boolean;
  /** False for users who signed up through the OpenID provider and have not set a password. */
  has_password: boolean;
  created_at: string;
  last_login_at: string | null;
}

export interface SessionObject {
  id: string;
  user_id: string;
  created_at: string;
  last_seen_at: string;
  expires_at: string;
  ip: string;
  user_agent: string;
  /** Whether this is the session of the current request. */
  current: boolean;
}

/** POST …/login: signed in, or a ticket for POST …/login/code. */
export type LoginAnswer = { user: UserObject } | { second_factor: { ticket: string; expires_at: string } };

/** GET …/second-factor */
export interface SecondFactorState {
  enabled: boolean;
  since: string | null;
  recovery_codes_left: number;
  /** Whether the user is an operator and the configuration requires operators to use two-factor authentication. */
  required: boolean;
}
/** POST …/second-factor/begin: the secret for an authenticator app, as text and as the content of its QR code. */
export interface SecondFactorProposal {
  secret: string;
  uri: string;
}
/** The only responses that contain recovery codes. */
export interface RecoveryCodes {
  recovery_codes: string[];
}

/** POST …/email/change. `confirmation_sent` is false if the address was changed immediately. */
export interface EmailChange {
  email: string;
  confirmation_sent: boolean;
}

/** GET /dashboard/api/me */
export interface Me {
  user: UserObject;
  /** Whether the user is an operator who must turn on two-factor authentication before the operator pages open. */
  second_factor_missing: boolean;
  /** Whether the user can sign in through the OpenID provider. */
  oidc_linked: boolean;
  csrf_token: string;
  /** The client address of this request, as seen by the server. */
  address: string;
  /** `address_allowed`: whether the organization can be opened from this address. */
  organizations: {
    id: string;
    name: string;
    status: 'active' | 'suspended';
    role: Role;
    address_allowed: boolean;
  }[];
}

/** GET /dashboard/api/status: for the page shown before sign-in. */
export interface DashboardStatus {
  version: string;
  /** Whether no user exists yet. The first user to sign up becomes the operator. */
  first_user: boolean;
  /**
   * open: anyone can sign up; invited: only with an invitation; setup_code: only the first user, with the code that the
   * server prints at startup.
   */
  signup: 'open' | 'invited' | 'setup_code';
  /** The OpenID provider for sign-in; null if there is none. */
  oidc: { name: string } | null;
  /** Whether the server can send email, so that forgotten passwords can be reset by link. */
  mail: boolean;
  signed_in: boolean;
}

export interface OperatorUser extends UserObject {
  locked: boolean;
  organizations: { id: string; name: string; role: Role }[];
}
export interface OperatorUserPatch {
  locked?: boolean;
  operator?: boolean;
}
