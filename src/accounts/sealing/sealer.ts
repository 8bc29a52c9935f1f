// Opaque values that clients store and send back: thinking signatures, encrypted reasoning, encrypted summaries. Only
// the server has the keys. Every value contains a key ID, so that keys can be rotated.

export interface SealContext {
  organizationId: string;
  model: string;
}

/** The content of a returned value. `model` may be a different model on this server than the request's. */
export interface Unsealed {
  text: string;
  model: string;
}

/** `signed`: format 1, in which the text is visible. `sealed`: format 2, in which the text is inside the value. */
export interface OpenedThinking extends Unsealed {
  format: 'signed' | 'sealed';
}

export interface Sealer {
  /** Format 1: a keyed hash of the text (Messages API, `signature`). */
  signThinking(text: string, context: SealContext): string;
  /** Format 2: the encrypted text (`display: "omitted"`, `redacted_thinking.data`). */
  sealThinking(text: string, context: SealContext): string;
  /** Null if verification fails. `thinking`: the visible text; must be empty for format 2. */
  openThinking(signature: string, thinking: string, organizationId: string): OpenedThinking | null;
  /** Returns `enc1.…`. Reasoning is bound to the organization and the model, a compaction only to the organization. */
  seal(kind: 'reasoning' | 'compaction', text: string, context: SealContext): string;
  /** Null if it is invalid. */
  unseal(kind: 'reasoning' | 'compaction', sealed: string, organizationId: string): Unsealed | null;
}
