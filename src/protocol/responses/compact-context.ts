// Compacts the conversation of a create request: one that exceeds its `compact_threshold`, or one whose input ends with
// a compaction_trigger. Event-loop thread only.
import type { Config } from '../../config/settings.js';
import type { ServedModel } from '../../generation/served-models.js';
import type { GenerationRequest, Message } from '../../generation/types.js';
import { apiError } from '../../shared/errors.js';
import { newItemId } from '../../shared/ids.js';
import type { Sealer } from '../../accounts/sealing/sealer.js';
import type { GenerationDeps } from '../admit.js';
import type { Caller } from '../caller.js';
import { applyEdits } from '../context/apply-edits.js';
import { compact } from '../context/compact.js';
import { PromptMeter } from '../context/prompt-meter.js';
import { summaryText } from '../context/summary-text.js';
import { Summarizer, transcript } from '../context/summarizer.js';
import type { Usage } from '../usage.js';
import type { CreateGeneration } from './parse.js';
import type { CompactionItem } from './resource.js';

export interface CompactContextDeps extends GenerationDeps {
  sealer: Sealer;
  settings: Pick<Config['responses'], 'compact_max_tokens'>;
}

export interface ContextCompaction {
  item: CompactionItem;
  /** The original messages, with their images loaded. */
  messages: readonly Message[];
}

export interface CompactedRequest {
  request: GenerationRequest;
  /** The result; null if no compaction was necessary or the model wrote no summary. */
  compacted: ContextCompaction | null;
  /** The tokens used to write the summary; null if no summary was attempted. */
  usage: Usage | null;
}

/** `onStart` is called before the summary is written. Returns null if the client disconnected. Throws like admit(). */
export async function compactContext(
  deps: CompactContextDeps,
  { caller, model }: { caller: Caller; model: ServedModel },
  created: Pick<CreateGeneration, 'request' | 'conversation' | 'compactsOnly' | 'compaction'>,
  onStart?: () => void,
): Promise<CompactedRequest | null> {
  const { request, compaction } = created;
  if (created.compactsOnly) {
    onStart?.();
    return compactOnRequest(deps, { caller, model }, created);
  }
  if (compaction === null) return { request, compacted: null, usage: null };
  const meter = new PromptMeter(deps, caller, model);
  const edited = await applyEdits(meter, request, { keptThinkingTurns: null, toolUses: null, compaction });
  if (edited === null) return null;
  if (!edited.compacts) return { request, compacted: null, usage: null };
  onStart?.();
  const options = { ...compaction, maxTokens: deps.settings.compact_max_tokens };
  const done = await compact(deps, { caller, model, meter }, request, options);
  const measured = await meter.measure(request);
  if (done === null || measured === null) return null;
  const { summary, usage } = done;
  if (summary === null) return { request, compacted: null, usage };
  const item = sealed(deps, { caller, model }, 'contextSummary', summary);
  return { request: done.request, compacted: { item, messages: measured.messages }, usage };
}

/**
 * The summary covers the whole conversation. The only remaining work is to prefill the prompt that starts with the
 * summary, so that the next request finds it in the prefix cache. Clients such as Codex send the user's messages again
 * before the item, so the summary does not replace items that precede it in an input; see readInput() for chains.
 */
async function compactOnRequest(
  deps: CompactContextDeps,
  { caller, model }: { caller: Caller; model: ServedModel },
  { request, conversation }: Pick<CreateGeneration, 'request' | 'conversation'>,
): Promise<CompactedRequest | null> {
  const measured = await new PromptMeter(deps, caller, model).measure(request);
  if (measured === null) return null;
  const summarizer = new Summarizer(deps, caller, model, {
    instructions: null,
    maxTokens: deps.settings.compact_max_tokens,
  });
  caller.onAborted?.(() => summarizer.cancel());
  const written = await summarizer.run(transcript(conversation));
  if (written === null) return null;
  if (written.text === '') throw apiError('model_error', 'The model wrote an empty summary of the conversation.');
  const messages: Message[] = [
    ...request.messages.filter(({ role }) => role === 'system'),
    { role: 'user', path: 'input', content: summaryText(written.text) },
  ];
  const { webSearch: _search, mcp: _mcp, ...rest } = request;
  return {
    request: { ...rest, messages, maxTokens: 0, format: { type: 'text' }, toolChoice: { mode: 'auto', allowed: null } },
    compacted: { item: sealed(deps, { caller, model }, 'compaction', written.text), messages: measured.messages },
    usage: written.usage,
  };
}

function sealed(
  { sealer }: Pick<CompactContextDeps, 'sealer'>,
  { caller, model }: { caller: Caller; model: ServedModel },
  kind: 'compaction' | 'contextSummary',
  summary: string,
): CompactionItem {
  const { organizationId } = caller.identity;
  return {
    id: newItemId('cmp'),
    type: 'compaction',
    encrypted_content: sealer.seal(kind, summary, { organizationId, model: model.name }),
  };
}
