// The edits that a request asks for. They shorten its conversation before the prompt is rendered. Each API format
// parses its own parameters into this form, and reports the applied edits.

/** Old tool results, and optionally the inputs of their calls, are replaced by short placeholders. */
export interface ToolUseClearing {
  /** Nothing is cleared until the conversation has more than `value` input tokens or tool uses. */
  readonly trigger: { readonly type: 'input_tokens' | 'tool_uses'; readonly value: number };
  /** Number of the latest tool uses that are kept. */
  readonly keep: number;
  /** Minimum number of tokens that are cleared at a time. 0: no minimum. */
  readonly clearAtLeast: number;
  /** Names of tools whose uses are kept. */
  readonly excluded: ReadonlySet<string>;
  /** The tools whose inputs are cleared too. */
  readonly inputs: 'none' | 'all' | ReadonlySet<string>;
}

/** The conversation is replaced by a summary. */
export interface Compaction {
  /** The conversation is compacted if it has at least this many input tokens. Infinity: only if it does not fit. */
  readonly threshold: number;
  readonly instructions: string | null;
  /** Whether the response ends after the summary. */
  readonly pauses: boolean;
}

export interface ContextEdits {
  /** Number of the latest assistant turns that keep their reasoning. Null: no such edit. */
  readonly keptThinkingTurns: number | null;
  readonly toolUses: ToolUseClearing | null;
  readonly compaction: Compaction | null;
}

/** An edit that changed the prompt. `count`: the number of tool uses or assistant turns. */
export interface AppliedEdit {
  readonly type: 'tool_uses' | 'thinking';
  readonly count: number;
  readonly tokens: number;
}
