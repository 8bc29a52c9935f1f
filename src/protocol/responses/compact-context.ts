// Compacts the conversation of a create request that exceeds its `compact_threshold`. Event-loop thread only.
import type { Config } from '../../config/settings.js';
import type { ServedModel } from '../../generation/served-models.js';
import type { GenerationRequest, Message } from '../../generation/types.js';
import { newItemId } from '../../shared/ids.js';
import type { Sealer } from '../../accounts/sealing/sealer.js';
import type { GenerationDeps } from '../admit.js';
import type { Caller } from '../caller.js';
import { applyEdits } from '../context/apply-edits.js';
import { compact } from '../context/compact.js';
import { PromptMeter } from '../context/prompt-meter.js';
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
  /** Null: not necessary, or the model wrote no summary. */
  compacted: ContextCompaction | null;
  /** The tokens of writing the summary. Null: not attempted. */
  usage: Usage | null;
}

/** `onStart` is called before the summary is written. Returns null if the client disconnected. Throws like admit(). */
export async function compactContext(
  deps: CompactContextDeps,
  { caller, model }: { caller: Caller; model: ServedModel },
  { request, compaction }: Pick<CreateGeneration, 'request' | 'compaction'>,
  onStart?: () => void,
): Promise<CompactedRequest | null> {
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
  const { organizationId } = caller.identity;
  const item: CompactionItem = {
    id: newItemId('cmp'),
    type: 'compaction',
    encrypted_content: deps.sealer.seal('contextSummary', summary, { organizationId, model: model.name }),
  };
  return { request: done.request, compacted: { item, messages: measured.messages }, usage };
}
