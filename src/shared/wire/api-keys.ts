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
  /** The user who created the key, or the service account that owns it; null if created on the command line. */
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
  /** IP addresses and CIDR ranges from which the key may be used. Empty allows all addresses. */
  allowed_addresses: string[];
  /** Whether a command created the key for its own requests. Lists show such keys only while they are valid. */
  temporary: boolean;
}
/** The only response that contains the secret. */
export interface CreatedApiKey extends ApiKeyObject {
  secret: string;
}
