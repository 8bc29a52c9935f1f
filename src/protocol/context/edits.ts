// The edits that a request specifies. They shorten its conversation before the prompt is rendered. Each API format
// parses its own parameters into this form, and reports the applied edits.

/** Replaces old tool results, and optionally the inputs of their calls, with short placeholders. */
export interface ToolUseClearing {
  /** Tool uses are cleared only if the conversation has more than `value` input tokens or tool uses. */
  readonly trigger: { readonly type: 'input_tokens' | 'tool_uses'; readonly value: number };
  /** Number of most recent tool uses to keep. */
  readonly keep: number;
  /** Minimum number of tokens to clear at a time; 0 = no minimum. */
  readonly clearAtLeast: number;
  /** Names of the tools whose uses are never cleared. */
  readonly excluded: ReadonlySet<string>;
  /** The tools whose call inputs are cleared in addition to the results. */
  readonly inputs: 'none' | 'all' | ReadonlySet<string>;
}

/** Replaces the conversation with a summary. */
export interface Compaction {
  /**
   * The conversation is compacted if it has at least this many input tokens. Infinity means only if it does not fit in
   * the context.
   */
  readonly threshold: number;
  readonly instructions: string | null;
  /** Whether the response ends after the summary. */
  readonly pauses: boolean;
}

export interface ContextEdits {
  /** Number of most recent assistant turns that keep their reasoning. If null, no reasoning is cleared. */
  readonly keptThinkingTurns: number | null;
  readonly toolUses: ToolUseClearing | null;
  readonly compaction: Compaction | null;
}

/**
 * An edit that changed the prompt. `count`: the number of cleared tool uses, or of assistant turns whose reasoning was
 * removed.
 */
export interface AppliedEdit {
  readonly type: 'tool_uses' | 'thinking';
  readonly count: number;
  readonly tokens: number;
}
