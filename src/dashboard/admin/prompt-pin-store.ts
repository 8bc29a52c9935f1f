// Port for pinned prompts (see docs/internals/storage.md). They belong to the data directory, because each server has
// its own prompt cache.

export interface PinnedPromptRow {
  readonly id: string;
  /** A served name. */
  readonly model: string;
  readonly organizationId: string;
  /** Encrypted; see SecretBox. */
  readonly sealedPrompt: string;
  /** RFC 3339. */
  readonly createdAt: string;
}

export interface PromptPinStore {
  /** Oldest first. */
  all(): Promise<readonly PinnedPromptRow[]>;
  put(row: PinnedPromptRow): Promise<void>;
  remove(id: string): Promise<void>;
}
