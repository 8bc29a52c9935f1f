// Applies a request's context edits to its conversation. The edits change only this request's prompt, not the stored
// conversation or the client's. Prompts are counted only if an edit could change them.
import type { GenerationRequest } from '../../generation/types.js';
import { clearThinking } from './clear-thinking.js';
import { clearable, clearToolUses, countToolUses } from './clear-tool-uses.js';
import { isCompactable } from './compact.js';
import type { AppliedEdit, ContextEdits, ToolUseClearing } from './edits.js';
import type { PromptMeter } from './prompt-meter.js';

export interface EditedRequest {
  request: GenerationRequest;
  applied: AppliedEdit[];
  /** Whether the conversation should be compacted. */
  compacts: boolean;
}

/** Returns null if the client disconnected. Throws ApiError 422 or 503. */
export async function applyEdits(
  meter: PromptMeter,
  asked: GenerationRequest,
  edits: ContextEdits,
): Promise<EditedRequest | null> {
  const edited: EditedRequest = { request: asked, applied: [], compacts: false };
  if (edits.keptThinkingTurns !== null && !(await clearOldThinking(meter, edited, edits.keptThinkingTurns)))
    return null;
  if (edits.toolUses !== null && !(await clearOldToolUses(meter, edited, edits.toolUses))) return null;
  if (edits.compaction !== null && isCompactable(edited.request)) {
    const exceeds = await meter.exceeds(edited.request, edits.compaction.threshold - 1);
    if (exceeds === null) return null;
    edited.compacts = exceeds;
  }
  return edited;
}

async function clearOldThinking(meter: PromptMeter, edited: EditedRequest, kept: number): Promise<boolean> {
  const { request } = edited;
  const { messages, turns } = clearThinking(request.messages, kept);
  return turns === 0 || keep(meter, edited, { ...request, messages }, { type: 'thinking', count: turns, atLeast: 0 });
}

async function clearOldToolUses(meter: PromptMeter, edited: EditedRequest, rule: ToolUseClearing): Promise<boolean> {
  const { request } = edited;
  const { trigger } = rule;
  if (clearable(request.messages, rule).length === 0) return true;
  const triggered =
    trigger.type === 'tool_uses'
      ? countToolUses(request.messages) > trigger.value
      : await meter.exceeds(request, trigger.value);
  if (triggered === null) return false;
  if (!triggered) return true;
  const { messages, uses } = await clearToolUses(request.messages, rule, (text) => meter.sizeOf(text));
  if (uses === 0) return true;
  const edit = { type: 'tool_uses', count: uses, atLeast: rule.clearAtLeast } as const;
  return keep(meter, edited, { ...request, messages }, edit);
}

/**
 * Keeps the edit if it saves enough tokens. Otherwise, leaves the request unchanged. Returns false if the client
 * disconnected.
 */
async function keep(
  meter: PromptMeter,
  edited: EditedRequest,
  next: GenerationRequest,
  { type, count, atLeast }: Pick<AppliedEdit, 'type' | 'count'> & { atLeast: number },
): Promise<boolean> {
  const tokens = await meter.saved(edited.request, next);
  if (tokens === null) return false;
  if (tokens < Math.max(1, atLeast)) return true;
  edited.request = next;
  edited.applied.push({ type, count, tokens });
  return true;
}
