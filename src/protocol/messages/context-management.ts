// The `context_management` parameter of the Messages API. No side effects.
import { z } from 'zod';
import { apiError } from '../../shared/errors.js';
import { MAX_TOOLS } from '../../config/tool-limit.js';
import type { Compaction, ContextEdits, ToolUseClearing } from '../context/edits.js';
import { integer } from '../fields.js';

export const CLEAR_THINKING = 'clear_thinking_20251015';
export const CLEAR_TOOL_USES = 'clear_tool_uses_20250919';
const COMPACT = 'compact_20260112';

/** Anthropic's defaults. */
const CLEAR_TRIGGER = 100_000;
const KEPT_TOOL_USES = 3;
const KEPT_THINKING_TURNS = 1;
const COMPACT_TRIGGER = 150_000;

const MAX_EDITS = 16;

const amount = <T extends string>(type: T, least: number) =>
  z.object({ type: z.literal(type), value: integer().min(least) });
const toolNames = z.array(z.string()).max(MAX_TOOLS);

const clearThinking = z.object({
  type: z.literal(CLEAR_THINKING),
  keep: z
    .union([
      z.literal('all'),
      z.discriminatedUnion('type', [amount('thinking_turns', 1), z.object({ type: z.literal('all') })]),
    ])
    .nullish(),
});
const clearToolUses = z.object({
  type: z.literal(CLEAR_TOOL_USES),
  trigger: z.discriminatedUnion('type', [amount('input_tokens', 1), amount('tool_uses', 1)]).nullish(),
  keep: z.discriminatedUnion('type', [amount('tool_uses', 0)]).nullish(),
  clear_at_least: z.discriminatedUnion('type', [amount('input_tokens', 0)]).nullish(),
  exclude_tools: toolNames.nullish(),
  clear_tool_inputs: z.union([z.boolean(), toolNames]).nullish(),
});
const compact = z.object({
  type: z.literal(COMPACT),
  trigger: z.discriminatedUnion('type', [amount('input_tokens', 1)]).nullish(),
  pause_after_compaction: z.boolean().nullish(),
  instructions: z.string().nullish(),
});

export const contextManagementField = z
  .object({
    edits: z
      .array(z.discriminatedUnion('type', [clearThinking, clearToolUses, compact]))
      .max(MAX_EDITS)
      .nullish(),
  })
  .nullish();

type Edit = NonNullable<NonNullable<z.infer<typeof contextManagementField>>['edits']>[number];

/** Returns null if the request has no `context_management`. `thinks`: whether thinking is on. Throws ApiError 422. */
export function readContextEdits(wire: z.infer<typeof contextManagementField>, thinks: boolean): ContextEdits | null {
  if (wire == null) return null;
  const edits = wire.edits ?? [];
  edits.forEach((edit, index) => checkPlace(edits, edit, index));
  const of = <T extends Edit['type']>(type: T) =>
    edits.find((edit): edit is Extract<Edit, { type: T }> => edit.type === type) ?? null;
  const thinking = of(CLEAR_THINKING);
  const toolUses = of(CLEAR_TOOL_USES);
  const compaction = of(COMPACT);
  return {
    keptThinkingTurns: thinking === null ? null : keptTurns(thinking, thinks),
    toolUses: toolUses === null ? null : toolUseClearing(toolUses),
    compaction: compaction === null ? null : compactionOf(compaction),
  };
}

function checkPlace(edits: readonly Edit[], { type }: Edit, index: number): void {
  const path = `context_management.edits[${index}]`;
  if (edits.findIndex((edit) => edit.type === type) !== index)
    throw apiError('invalid_value', `${path}: ${type} may appear only once.`, path);
  if (type === CLEAR_THINKING && index > 0)
    throw apiError('invalid_value', `${path}: ${type} must be the first edit.`, path);
}

/** Returns the number of most recent turns whose thinking is kept. Infinity means all turns. */
function keptTurns({ keep }: z.infer<typeof clearThinking>, thinks: boolean): number {
  if (keep === 'all' || keep?.type === 'all') return Infinity;
  if (!thinks)
    throw apiError(
      'conflicting_parameters',
      `\`${CLEAR_THINKING}\` strategy requires \`thinking\` to be enabled.`,
      'context_management.edits[0]',
    );
  return keep?.value ?? KEPT_THINKING_TURNS;
}

function toolUseClearing(edit: z.infer<typeof clearToolUses>): ToolUseClearing {
  const { clear_tool_inputs: inputs } = edit;
  return {
    trigger: edit.trigger ?? { type: 'input_tokens', value: CLEAR_TRIGGER },
    keep: edit.keep?.value ?? KEPT_TOOL_USES,
    clearAtLeast: edit.clear_at_least?.value ?? 0,
    excluded: new Set(edit.exclude_tools),
    inputs: Array.isArray(inputs) ? new Set(inputs) : inputs === true ? 'all' : 'none',
  };
}

const compactionOf = ({
  trigger,
  instructions,
  pause_after_compaction: pauses,
}: z.infer<typeof compact>): Compaction => ({
  threshold: trigger?.value ?? COMPACT_TRIGGER,
  instructions: instructions ?? null,
  pauses: pauses === true,
});
