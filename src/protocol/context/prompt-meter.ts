// Counts the tokens in one request's prompt before and after edits. Event-loop thread only.
import type { ServedModel } from '../../generation/served-models.js';
import type { GenerationRequest } from '../../generation/types.js';
import { ensureLoaded, measurePrompt, type MeasuredPrompt, type PromptDeps } from '../admit.js';
import type { Caller } from '../caller.js';

/** Estimated number of characters per token, for models whose vocabulary is not available. */
const CHARACTERS_PER_TOKEN = 4;

/**
 * Counts prompts of whole requests and of single texts. The methods that count a request return null if the client
 * disconnected. All methods throw ApiError 422 or 503.
 */
export class PromptMeter {
  readonly #measured = new Map<GenerationRequest, MeasuredPrompt>();

  constructor(
    private readonly deps: Pick<PromptDeps, 'images' | 'limits'>,
    private readonly caller: Caller,
    private readonly model: ServedModel,
  ) {}

  /** Measures the whole prompt, even if the request allows truncation. */
  async measure(request: GenerationRequest): Promise<MeasuredPrompt | null> {
    const known = this.#measured.get(request);
    if (known !== undefined) return known;
    const whole: GenerationRequest = { ...request, truncation: 'disabled' };
    const measured = await measurePrompt(this.deps, this.caller, this.model, whole);
    if (measured === null) return null;
    // Only the original request's images are needed later. Keeping every copy's images could take several times the
    // memory.
    const kept = this.#measured.size === 0 ? measured : { ...measured, messages: request.messages };
    this.#measured.set(request, kept);
    return measured;
  }

  async tokens(request: GenerationRequest): Promise<number | null> {
    return (await this.measure(request))?.count.tokens ?? null;
  }

  /** Returns how many more tokens the first prompt has than the second. */
  async saved(before: GenerationRequest, after: GenerationRequest): Promise<number | null> {
    const longer = await this.tokens(before);
    const shorter = await this.tokens(after);
    return longer === null || shorter === null ? null : Math.max(0, longer - shorter);
  }

  /** Whether the prompt has more tokens than `threshold` or does not fit in the context. */
  async exceeds(request: GenerationRequest, threshold: number): Promise<boolean | null> {
    const measured = await this.measure(request);
    if (measured === null) return null;
    const { count, contextWindow } = measured;
    return count.tokens > threshold || count.tokens >= contextWindow;
  }

  /** Returns the number of tokens of a text. For upstream models, this is an estimate. */
  async sizeOf(text: string): Promise<number> {
    const { vocabulary } = await ensureLoaded(this.model, this.caller);
    if (vocabulary === undefined) return Math.ceil(text.length / CHARACTERS_PER_TOKEN);
    return (await vocabulary.encode(text, false)).length;
  }
}
