// Keeps one generation's prompt for later comparisons. If the request names an earlier response, the two prompts are
// compared. Event-loop thread only.
import type { PreparedGeneration, PromptContent, Provider } from '../../generation/provider.js';
import type { GenerationRequest } from '../../generation/types.js';
import type { PromptDifference, RequestSink } from '../../shared/request-entry.js';
import { commonPrefix, diagnose, tiersOf, wireTiers, type CacheDiagnosis, type CacheTiers } from './diagnose.js';
import type { Caller } from '../caller.js';
import type { KeptPrompt, PromptMemory } from './prompt-memory.js';
import { PromptParts, type PromptPart } from './prompt-parts.js';

/** Number of tokens to store: tokens before the first difference, and tokens of each prompt from the difference on. */
const SHOWN_BEFORE = 24;
const SHOWN_AFTER = 48;
/** Estimated number of characters per token, used to charge the hashing time. */
const CHARACTERS_PER_TOKEN = 4;
/** Maximum number of characters of each text shown. */
const MAX_SHOWN = 500;

export interface DiagnosticsOptions {
  /** The ID of this response. */
  readonly id: string;
  /** ID of the response whose prompt is compared with this prompt; null if none. */
  readonly comparedId: string | null;
  readonly compactions?: number;
}

/** The members of an AdmittedGeneration that this class needs. */
export interface DiagnosedGeneration {
  readonly caller: Pick<Caller, 'identity' | 'charged'>;
  readonly model: string;
  readonly fingerprint: string;
  readonly provider: Pick<Provider, 'vocabulary'>;
  readonly request: GenerationRequest;
  readonly prepared: Pick<PreparedGeneration, 'content' | 'fromDisk' | 'promptTokens' | 'replayed'>;
  readonly prompts: PromptMemory;
  readonly requests: Pick<RequestSink, 'textCharacters'>;
}

export class CacheDiagnostics {
  /** The result of the comparison. Null before the generation has started, and if no comparison was requested. */
  diagnosis: CacheDiagnosis | null = null;
  /**
   * The tiers (memory or disk) that provided the cached tokens. Null if no comparison was requested, and if the server
   * keeps no KV pages on disk.
   */
  tiers: CacheTiers | null = null;
  /** The text around the difference. Set if the prompts differ and the organization stores the text of requests. */
  difference: PromptDifference | null = null;
  readonly #parts: PromptParts;

  constructor(
    private readonly generation: DiagnosedGeneration,
    private readonly options: DiagnosticsOptions,
  ) {
    const { request, model, fingerprint, caller } = generation;
    const make = (): PromptParts =>
      new PromptParts({ request, model: `${model}\n${fingerprint}`, compactions: options.compactions ?? 0 });
    const characters = CHARACTERS_PER_TOKEN * generation.prepared.promptTokens.tokens;
    this.#parts = caller.charged === undefined ? make() : caller.charged(characters, make);
  }

  /** The tool calls and reasoning blocks in the prompt that consist of the tokens that the model generated. */
  get replayed(): readonly string[] {
    return this.generation.prepared.replayed ?? [];
  }

  started(cachedTokens: number): void {
    const { prompts, caller, prepared } = this.generation;
    const { id, comparedId } = this.options;
    const organization = caller.identity.organizationNumber;
    const content = prepared.content?.() ?? null;
    if (comparedId !== null)
      this.diagnosis =
        content === null
          ? { result: 'unavailable' }
          : this.#compare(prompts.find(organization, comparedId), content, cachedTokens);
    if (this.diagnosis !== null) this.tiers = tiersOf(this.diagnosis, cachedTokens, prepared.fromDisk);
    if (content === null) return;
    prompts.keep(organization, id, { keys: content.keys, history: content.history, parts: this.#parts.ints });
  }

  #compare(earlier: KeptPrompt | null, { keys, granularity }: PromptContent, cachedTokens: number): CacheDiagnosis {
    if (earlier === null) return { result: 'not_found' };
    const diagnosis = diagnose(earlier, { keys, parts: this.#parts, cachedTokens, granularity });
    const {
      caller: { identity },
      provider: { vocabulary },
      requests: { textCharacters },
    } = this.generation;
    if (
      diagnosis.result === 'differs' &&
      !diagnosis.changed.has('model') &&
      identity.keepsText === true &&
      vocabulary !== undefined
    )
      this.difference = differenceOf(earlier.keys, keys, vocabulary, Math.min(textCharacters, MAX_SHOWN));
    return diagnosis;
  }
}

/** Fields for the request log. */
export function loggedDiagnosis(diagnosis: CacheDiagnosis, tiers: CacheTiers | null): Record<string, string | number> {
  return { ...loggedComparison(diagnosis), ...(tiers === null ? {} : loggedTiers(tiers)) };
}

function loggedTiers(tiers: CacheTiers): Record<string, string | number> {
  const { memory_tokens: memory, disk_tokens: disk, disk_miss: miss } = wireTiers(tiers);
  return {
    cache_memory_tokens: memory,
    cache_disk_tokens: disk,
    ...(miss === null ? {} : { cache_disk_miss: miss.reason }),
    ...(miss?.at == null ? {} : { cache_disk_miss_at: miss.at }),
  };
}

function loggedComparison(diagnosis: CacheDiagnosis): Record<string, string | number> {
  if (!('matched' in diagnosis)) return { cache_comparison: diagnosis.result };
  const { result, matched, missed } = diagnosis;
  const comparison = result === 'differs' ? `${firstOf(diagnosis.changed, LOGGED) ?? 'rendering'}_changed` : result;
  return { cache_comparison: comparison, cache_matched_tokens: matched, cache_missed_tokens: missed };
}

/** The parts of a prompt, in the log's order. */
const LOGGED: readonly PromptPart[] = [
  'model',
  'tools',
  'system',
  'format',
  'effort',
  'verbosity',
  'variables',
  'compaction',
  'messages',
];

export const firstOf = (changed: ReadonlySet<PromptPart>, order: readonly PromptPart[]): PromptPart | null =>
  order.find((part) => changed.has(part)) ?? null;

function differenceOf(
  earlier: Int32Array,
  keys: Int32Array,
  vocabulary: NonNullable<Provider['vocabulary']>,
  characters: number,
): PromptDifference {
  const at = commonPrefix(earlier, keys, Infinity);
  const text = (of: Int32Array, from: number, to: number): string => {
    const shown = of.subarray(Math.max(0, from), to);
    const tokens = shown.filter((key) => key >= 0);
    return vocabulary.decode(tokens) + (tokens.length < shown.length ? '[image]' : '');
  };
  const before = text(keys, at - SHOWN_BEFORE, at);
  return {
    at,
    before: before.slice(Math.max(0, before.length - characters)),
    earlier: text(earlier, at, at + SHOWN_AFTER).slice(0, characters),
    current: text(keys, at, at + SHOWN_AFTER).slice(0, characters),
  };
}
