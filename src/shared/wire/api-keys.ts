// API keys.
import type { LimitOverrides } from './limits.js';

export type KeyScope =
  | 'inference'
  | 'responses.read'
  | 'responses.delete'
  | 'models.read'
  | 'tokens.count'
  | 'files.read'
  | 'files.write'
  | 'batches';

export interface ApiKeyObject {
  id: string;
  organization_id: string;
  /** The user who created it, or the service account that owns it. Null: the command line. */
  created_by: string | null;
  name: string;
  prefix: string | null;
  last4: string;
  status: 'active' | 'expired' | 'revoked';
  models: string[];
  scopes: KeyScope[];
  limits: LimitOverrides | null;
  expires_at: string | null;
  last_used_at: string | null;
  created_at: string;
  revoked_at: string | null;
  rotated_from: string | null;
  /** IP addresses and CIDR ranges from which the key may be used. Empty: all addresses. */
  allowed_addresses: string[];
  /** Created by a command for its own requests. Lists show it only while it is valid. */
  temporary: boolean;
}
/** The only response that contains the secret. */
export interface CreatedApiKey extends ApiKeyObject {
  secret: string;
}
