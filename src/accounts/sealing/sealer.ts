// Opaque values that clients store and send back: thinking signatures, encrypted reasoning, encrypted summaries. Only
// the server has the keys. Every value contains a key ID, so that keys can be rotated.

export interface SealContext {
  organizationId: string;
  /** The model that wrote the text. */
  model: string;
  /** Set if an upstream generated the text. */
  origin?: SealedOrigin | null | undefined;
}

/** The upstream that generated a text and, if available, the upstream's original block with that text. */
export interface SealedOrigin {
  upstream: string;
  block: Readonly<Record<string, unknown>> | null;
}

/** The content of a returned value. `model` may be a different model on this server than the one in the request. */
export interface Unsealed {
  text: string;
  model: string;
  origin: SealedOrigin | null;
}

/**
 * `signed`: formats 1 and 3, in which the text is visible to the client. `sealed`: formats 2 and 4, in which the text
 * is encrypted within the value.
 */
export interface OpenedThinking extends Unsealed {
  format: 'signed' | 'sealed';
}

/**
 * `compaction`: a summary that replaces the items that it summarizes. `contextSummary`: a summary that replaces all
 * preceding items.
 */
export type SealKind = 'reasoning' | 'compaction' | 'contextSummary';

export interface Sealer {
  /** Format 1, or format 3 with an origin: bound to the text (Messages API, `signature`). */
  signThinking(text: string, context: SealContext): string;
  /** Format 2, or format 4 with an origin: the encrypted text (`display: "omitted"`, `redacted_thinking.data`). */
  sealThinking(text: string, context: SealContext): string;
  /** Null if verification fails. `thinking`: the visible text, which must be empty for formats 2 and 4. */
  openThinking(signature: string, thinking: string, organizationId: string): OpenedThinking | null;
  /** Returns `enc1.…`, or `enc2.…` with an origin. The value is bound to the organization. */
  seal(kind: SealKind, text: string, context: SealContext): string;
  /** Returns null if the value is invalid. */
  unseal(kind: SealKind, sealed: string, organizationId: string): Unsealed | null;
}
