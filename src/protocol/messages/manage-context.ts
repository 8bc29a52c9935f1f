// Applies the context edits of a Messages request before its prompt is built. Event-loop thread only.
import type { Config } from '../../config/settings.js';
import type { ServedModel } from '../../generation/served-models.js';
import type { Exchange } from '../../http/exchange.js';
import { countPrompt, nameCounted, type GenerationDeps } from '../admit.js';
import type { Caller } from '../caller.js';
import { applyEdits } from '../context/apply-edits.js';
import { compact } from '../context/compact.js';
import { PromptMeter } from '../context/prompt-meter.js';
import type { ContextReport } from './context-answer.js';
import type { MessagesGeneration } from './parse.js';

export interface ManageDeps extends GenerationDeps {
  settings: Pick<Config['responses'], 'compact_max_tokens'>;
}

/** A request whose context edits have been applied. */
export interface Managed {
  request: MessagesGeneration['request'];
  context: ContextReport | null;
}

/** Returns null if the client disconnected. Throws ApiError like admit(). */
export async function manageContext(
  deps: ManageDeps,
  exchange: Exchange,
  { caller, model, asked }: { caller: Caller; model: ServedModel; asked: MessagesGeneration },
): Promise<Managed | null> {
  const { request, edits, stream } = asked;
  if (edits === null) return { request, context: null };
  const meter = new PromptMeter(deps, caller, model);
  const edited = await applyEdits(meter, request, edits);
  if (edited === null) return null;
  const { applied } = edited;
  const { compaction } = edits;
  if (compaction === null || !edited.compacts)
    return { request: edited.request, context: { applied, compaction: null } };
  // The stream is opened now, so that keep-alives are sent while the summary is written.
  if (stream) exchange.sse();
  const done = await compact(deps, { caller, model, meter }, edited.request, {
    ...compaction,
    maxTokens: deps.settings.compact_max_tokens,
  });
  if (done === null) return null;
  const { summary, usage } = done;
  const pauses = compaction.pauses && summary !== null;
  return { request: done.request, context: { applied, compaction: { summary, usage, pauses } } };
}

/** Counts the prompt tokens after the edits. A conversation is not compacted merely to be counted. */
export async function countEdited(
  deps: ManageDeps,
  caller: Caller,
  model: ServedModel,
  { request, edits }: MessagesGeneration,
): Promise<object | null> {
  if (edits === null) {
    const tokens = await countPrompt(deps, caller, model, request);
    return tokens === null ? null : { input_tokens: tokens };
  }
  const meter = new PromptMeter(deps, caller, model);
  const before = await meter.tokens(request);
  const edited = before === null ? null : await applyEdits(meter, request, { ...edits, compaction: null });
  const after = edited === null ? null : await meter.measure(edited.request);
  if (after === null) return null;
  nameCounted(caller, request, after.count);
  return { input_tokens: after.count.tokens, context_management: { original_input_tokens: before } };
}
