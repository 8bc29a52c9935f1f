// Storage port for the organizations' sealed keys, which encrypt KV pages on disk. Without its key, an organization's
// pages are unreadable. Each method is one transaction and is durable when it resolves.

export interface OrganizationKeyStore {
  /** Returns the sealed key. If there is none, stores and returns `made`. */
  keyOf(organizationId: string, made: string): Promise<string>;
  /** Replaces the key if it is still `before`. Used for keys that were sealed with an older secret. */
  replace(organizationId: string, before: string, after: string): Promise<void>;
  erase(organizationId: string): Promise<void>;
}
