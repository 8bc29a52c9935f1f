// Opaque values that clients carry for us and bring back: thinking signatures, sealed reasoning, sealed
// summaries. Keys are the server's alone; every value names its key, so that keys can be rotated.

export interface SealContext {
  organizationId: string;
  model: string;
}

/** What a returned value opened to. `model` may be another of ours than the one asked now. */
export interface Unsealed {
  text: string;
  model: string;
}

/** `signed`: format 1, the text was visible. `sealed`: format 2, the text travelled inside the value. */
export interface OpenedThinking extends Unsealed {
  format: 'signed' | 'sealed';
}

export interface Sealer {
  /** Format 1: a keyed hash over the text (messages format, `signature`). */
  signThinking(text: string, context: SealContext): string;
  /** Format 2: the text itself, encrypted (`display: "omitted"`, `redacted_thinking.data`). */
  sealThinking(text: string, context: SealContext): string;
  /** Null if it does not verify. `thinking`: the visible text; with format 2 it must be empty. */
  openThinking(signature: string, thinking: string, organizationId: string): OpenedThinking | null;
  /** `enc1.…`: reasoning bound to organization and model, a compaction to the organization. */
  seal(kind: 'reasoning' | 'compaction', text: string, context: SealContext): string;
  /** Null if it does not open. */
  unseal(kind: 'reasoning' | 'compaction', sealed: string, organizationId: string): Unsealed | null;
}
