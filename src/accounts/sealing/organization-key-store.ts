// Storage port for the sealed keys of organizations, with which KV pages on disk are encrypted. Without its key, an
// organization's pages are unreadable. Each method is one transaction and is durable when it resolves.

export interface OrganizationKeyStore {
  /** The sealed key; `made` is stored and returned if there is none. */
  keyOf(organizationId: string, made: string): Promise<string>;
  /** Replaces the key, if it is still `before`. For keys that were sealed with an older secret. */
  replace(organizationId: string, before: string, after: string): Promise<void>;
  erase(organizationId: string): Promise<void>;
}
