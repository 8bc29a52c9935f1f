// What is published of a model that is served. Types only.

import type { ReasoningEffort } from './types.js';

/** What is published of a served model. */
export interface ModelDescription {
  id: string;
  displayName: string;
  createdAt: Date;
  lifecycle: 'active' | 'deprecated' | 'retired';
  /** RFC 3339; null: not decided. */
  deprecatedAt: string | null;
  retiresAt: string | null;
  successor: string | null;
  inputModalities: readonly string[];
  contextWindow: number;          // prompt plus completion, tokens
  maxOutputTokens: number;
  efforts: readonly ReasoningEffort[];   // ['none'] for a model without reasoning
  defaultEffort: ReasoningEffort;
  sampling: { temperature: number; top_p: number; top_k: number; min_p: number; repetition_penalty: number };
}
