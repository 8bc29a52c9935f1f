// Storage port for pinned prompts (see docs/internals/storage.md). Pins are stored in the data directory and not in a
// shared database, because each server has its own prompt cache.

export interface PinnedPromptRow {
  readonly id: string;
  /** Public name of the model. */
  readonly model: string;
  readonly organizationId: string;
  /** The prompt, encrypted by SecretBox. */
  readonly sealedPrompt: string;
  /** Creation time in RFC 3339 format. */
  readonly createdAt: string;
}

export interface PromptPinStore {
  /** Returns all pinned prompts, oldest first. */
  all(): Promise<readonly PinnedPromptRow[]>;
  put(row: PinnedPromptRow): Promise<void>;
  remove(id: string): Promise<void>;
}
