// The model provider of one simulated HTTP thread. Each request specifies its own output: how many tokens, how fast,
// and how it ends. The provider has the fair slots that long prompts wait for, and records what its engines reported
// for each request.
import { apiError } from '../../../src/shared/errors.js';
import { FairSlots } from '../../../src/generation/fair-slots.js';
import type { RequestContext, PreparedGeneration, Provider } from '../../../src/generation/provider.js';
import type { ServedModel } from '../../../src/generation/served-models.js';
import type { GenerationEvent, GenerationRequest, Message } from '../../../src/generation/types.js';
import type { Owner } from './sim-time.js';

export const ENDS = ['ok', 'fails', 'fails first', 'fails after the start', 'is refused', 'waits too long'] as const;

/** The behavior that a request's text specifies. */
export interface Course {
  tag: number;
  prompt: number;
  estimate: number;
  tokens: number;
  stepMs: number;
  queueMs: number;
  prepareMs: number;
  end: (typeof ENDS)[number];
}

export const textOf = (course: Course): string => JSON.stringify(course);

/** What an engine has reported for a request. */
export interface Told {
  readonly tag: number;
  readonly organization: number;
  readonly model: string;
  readonly n: number;
  readonly owner: Owner;
  promptTokens: number;
  tokens: number;
  over: boolean;
}

export interface Engines {
  /** Requests that are being generated. */
  readonly running: Set<Told>;
  /** Receives the texts of a request's messages. */
  prepared(tag: number, texts: readonly string[]): void;
  /** Reports that an organization's request is waiting for a fair slot, gets it, or leaves. */
  slot(owner: Owner, what: 'waits' | 'begins' | 'leaves', organization: number, tag: number): void;
}

export const PLACES = 2;
export const MAX_TOKENS = 64;

const textsOf = (messages: readonly Message[]): string[] =>
  messages.map(({ content }) =>
    typeof content === 'string'
      ? content
      : (content ?? []).map((part) => (part.type === 'text' ? part.text : '')).join(''),
  );

export class SimProvider implements Provider {
  readonly contextWindow = 4_096;
  readonly maxOutputTokens = MAX_TOKENS;
  readonly fingerprint = 'fp_0123456789';
  readonly efforts = ['none'] as const;
  readonly decodesImages = false;

  constructor(
    private readonly model: string,
    private readonly engines: Engines,
    private readonly owner: Owner,
    private readonly preparing: FairSlots,
  ) {}

  check(): void {}

  async prepare(request: GenerationRequest, { organization, signal }: RequestContext): Promise<PreparedGeneration> {
    const { n } = request;
    const texts = textsOf(request.messages);
    const course = JSON.parse(texts.at(-1) as string) as Course;
    const { tag, prepareMs } = course;
    this.engines.prepared(tag, texts);
    if (prepareMs > 0) {
      this.engines.slot(this.owner, 'waits', organization, tag);
      try {
        await this.preparing.run({ organization, signal }, 1, async () => {
          this.engines.slot(this.owner, 'begins', organization, tag);
          await new Promise((resolve) => {
            setTimeout(resolve, prepareMs);
          });
        });
      } finally {
        this.engines.slot(this.owner, 'leaves', organization, tag);
      }
    }
    signal?.throwIfAborted();
    const maxTokens = request.maxTokens ?? MAX_TOKENS;
    return {
      promptTokens: { tokens: course.estimate, exact: course.estimate === course.prompt },
      maxTokens,
      cappedByContext: false,
      n,
      ignoredKeywords: [],
      start: (onEvent) => this.#start(course, organization, n, maxTokens, onEvent),
    };
  }

  async count(): Promise<never> {
    throw new Error('no simulated client counts tokens');
  }

  #start(
    course: Course,
    organization: number,
    n: number,
    maxTokens: number,
    onEvent: (event: GenerationEvent) => void,
  ): { cancel(): void } {
    if (course.end === 'is refused')
      throw apiError('capacity_exhausted', 'Too many requests are waiting.', null, { retryAfterMs: 1000 });
    const told: Told = {
      tag: course.tag,
      organization,
      model: this.model,
      n,
      owner: this.owner,
      promptTokens: course.estimate,
      tokens: 0,
      over: false,
    };
    this.engines.running.add(told);
    const end = (): void => {
      told.over = true;
      this.engines.running.delete(told);
    };
    const events = eventsOf(course, n, maxTokens);
    let event = events.next();
    const later = (): void => {
      setTimeout(
        () => {
          for (let more = true; more && !told.over && event.done !== true; ) {
            const now = event.value;
            event = events.next();
            if (now.type === 'started') told.promptTokens = now.promptTokens;
            if (now.type === 'text') told.tokens += now.tokens;
            if (event.done === true) end();
            onEvent(now);
            more = now.type === 'text' && now.choice < n - 1; // one step produces a token for every choice
          }
          if (!told.over) later();
        },
        told.tokens === 0 ? course.queueMs : course.stepMs,
      );
    };
    later();
    return { cancel: end };
  }
}

function* eventsOf(
  { tag, prompt, tokens, queueMs, end }: Course,
  n: number,
  maxTokens: number,
): Generator<GenerationEvent> {
  const failed: GenerationEvent = { type: 'failed', code: 'engine_error', message: 'a forward pass failed' };
  if (end === 'waits too long')
    return yield { type: 'failed', code: 'queue_timeout', message: 'the request waited too long', retryAfterMs: 1000 };
  if (end === 'fails first') return yield failed;
  yield { type: 'started', promptTokens: prompt, cachedTokens: 0, queueMs };
  if (end === 'fails after the start') return yield failed;
  const all = Math.min(tokens, maxTokens);
  for (let at = 0; at < all; at++) {
    for (let choice = 0; choice < n; choice++)
      yield { type: 'text', choice, section: 'content', text: `${tag}.${at} `, tokens: 1, logprobs: null };
    if (end === 'fails' && at === all - 1) return yield failed;
  }
  for (let choice = 0; choice < n; choice++) {
    yield {
      type: 'finished',
      choice,
      reason: all === maxTokens ? 'max_tokens' : 'end_of_turn',
      stopString: null,
      completionTokens: all,
      reasoningTokens: 0,
      calls: 0,
      timings: { prefillMs: 1, decodeMs: 1 },
    };
  }
}

export function servedModel(name: string, provider: Provider): ServedModel {
  return {
    name,
    recordedAs: name,
    asked: name,
    lifecycle: { state: 'active', deprecatedAt: null, retiresAt: null, successor: null },
    sampling: { temperature: 1, top_p: 1, top_k: 0, min_p: 0, repetition_penalty: 1 },
    ensureLoaded: () => Promise.resolve(),
    ready: () => provider,
  };
}

export const fairSlots = (): FairSlots => new FairSlots(PLACES, 'long prompts', 6);
