// Organizations, their members and invitations, and the audit log.
import type { LimitOverrides, LimitValues } from './limits.js';

export type Role = 'owner' | 'admin' | 'developer' | 'viewer';
/** In ascending order: each role has all permissions of the roles before it. */
export const ROLES: readonly Role[] = ['viewer', 'developer', 'admin', 'owner'];

export interface OrganizationObject {
  id: string;
  name: string;
  status: 'active' | 'suspended';
  created_at: string;
  /** The organization's effective limits by model name. Read-only for members. */
  limits: Record<string, LimitValues>;
  /** Whether prompts and responses are stored in the request log. */
  request_text: boolean;
  /**
   * IP addresses and CIDR ranges from which members can open the organization on the dashboard. Empty allows all
   * addresses.
   */
  dashboard_addresses: string[];
}

export interface MembershipObject {
  organization_id: string;
  user_id: string;
  role: Role;
  created_at: string;
}
export interface MemberObject extends MembershipObject {
  email: string;
  name: string;
  last_login_at: string | null;
}

/** Service accounts are never owners. */
export type ServiceAccountRole = Exclude<Role, 'owner'>;
/** A member that cannot sign in and only owns API keys. */
export interface ServiceAccountObject {
  id: string;
  organization_id: string;
  name: string;
  role: ServiceAccountRole;
  /** Whether its keys are refused. */
  disabled: boolean;
  created_by: string | null;
  created_at: string;
  /** Number of its keys that are neither expired nor revoked. */
  active_keys: number;
}

/** GET, PUT …/organizations/{org}/dashboard-addresses. PUT takes only `allowed_addresses`. */
export interface DashboardAddresses {
  /** IP addresses and CIDR ranges. Empty allows all addresses. */
  allowed_addresses: string[];
  /** The client address of this request, as seen by the server. */
  your_address: string;
  /** Whether the caller is the organization's only owner, so that no other owner could correct the list. */
  only_owner: boolean;
}

export interface InviteObject {
  id: string;
  organization_id: string;
  email: string;
  role: Role;
  expires_at: string;
  created_at: string;
  state: 'pending' | 'accepted' | 'revoked' | 'expired';
  /**
   * Link to accept the invitation, only while the invitation is pending. Shown to the inviting user, because the server
   * may be unable to send email.
   */
  url: string | null;
}

/** GET /dashboard/api/invites/{token}: the invitation, which anyone with the link can read. */
export interface InvitePreview {
  organization: { id: string; name: string };
  email: string;
  role: Role;
  expires_at: string;
}

export interface AuditEntry {
  id: string;
  at: string;
  /**
   * A user's ID and email address; null for the operator API, the command line and the OpenID Connect provider, whose
   * claims set roles.
   */
  actor: {
    type: 'user' | 'operator_api' | 'command_line' | 'identity_provider';
    id: string | null;
    email: string | null;
  };
  /** `api_key.created`, `member.role_changed`, `organization.limits_changed`, … */
  action: string;
  target: string | null;
  ip: string | null;
  detail: Record<string, unknown>;
}

export interface OperatorOrganization extends OrganizationObject {
  members: number;
  active_keys: number;
  overrides: LimitOverrides;
  monthly_token_cap: number | null;
  month_tokens: number;
}
/** PATCH …/organizations/{org} */
export interface OperatorOrganizationPatch {
  status?: 'active' | 'suspended';
  limits?: LimitOverrides;
  monthly_token_cap?: number | null;
  /** Must be empty: operators can only allow all addresses again. */
  dashboard_addresses?: [];
}
