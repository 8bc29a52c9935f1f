// The part of Messages API responses that reports context management. No side effects.
import type { AppliedEdit } from '../context/edits.js';
import type { Usage } from '../usage.js';
import { CLEAR_THINKING, CLEAR_TOOL_USES } from './context-management.js';

export interface ContextReport {
  readonly applied: readonly AppliedEdit[];
  readonly compaction: CompactionReport | null;
}

export interface CompactionReport {
  /** The summary; null if the model wrote none. */
  readonly summary: string | null;
  readonly usage: Usage;
  /** Whether the response ends after the summary. */
  readonly pauses: boolean;
}

/** The `context_management` member of a response. */
export const wireApplied = (applied: readonly AppliedEdit[]): object => ({
  applied_edits: applied.map(({ type, count, tokens }) =>
    type === 'thinking'
      ? { type: CLEAR_THINKING, cleared_thinking_turns: count, cleared_input_tokens: tokens }
      : { type: CLEAR_TOOL_USES, cleared_tool_uses: count, cleared_input_tokens: tokens },
  ),
});

export const wireCompaction = (summary: string | null): object => ({
  type: 'compaction',
  content: summary,
  encrypted_content: null,
});

/** The events of the compaction block, which precedes all other blocks. */
export function compactionEvents(summary: string | null): { type: string; index: number; [field: string]: unknown }[] {
  const place = { index: 0 };
  const content = { content: summary, encrypted_content: null };
  return [
    { type: 'content_block_start', ...place, content_block: wireCompaction(null) },
    { type: 'content_block_delta', ...place, delta: { type: 'compaction_delta', ...content } },
    { type: 'content_block_stop', ...place },
  ];
}

/** The `iterations` member of the usage. All other counts in the response exclude the tokens of a compaction. */
export function wireIterations(
  { context, model }: { context: ContextReport | null; model: string },
  usage: Usage,
): { iterations?: object[] } {
  const compaction = context?.compaction ?? null;
  if (compaction === null) return {};
  const summary = iteration('compaction', compaction.usage);
  return { iterations: compaction.pauses ? [summary] : [summary, { ...iteration('message', usage), model }] };
}

const iteration = (type: string, usage: Usage): object => ({
  type,
  input_tokens: usage.promptTokens - usage.cachedTokens,
  cache_creation: null,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: usage.cachedTokens,
  output_tokens: usage.completionTokens,
});
