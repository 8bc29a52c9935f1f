// Answers decision questions with the engine of this process. Each question is one prompt, after which the engine
// computes the next-token distribution over the codes of the allowed answers. One instance per loaded model; has no
// per-request state. Event-loop thread only.
//
//   questions ─► prompts ─► first question, which fills the prefix cache ─► the others, 8 at a time ─► probabilities
import type { AdapterInfo, NativeImage, SubmitOptions } from '../../engine/addon-types.js';
import type { Engine } from '../../engine/engine.js';
import { ApiError, apiError } from '../../shared/errors.js';
import { inTurns } from '../../shared/in-turns.js';
import { exactly } from '../../shared/token-count.js';
import { answerCount, questionMessages, type DecisionRequest } from '../decisions.js';
import type { GenerationLimits } from '../generation-limits.js';
import type { Decider, PreparedDecisions, RequestContext } from '../provider.js';
import type { GenerationRequest } from '../types.js';
import { AnswerCodes, type AnswerCode } from './answer-codes.js';
import { codeOf, goingAway } from './engine-failure.js';
import { comparisons, DecisionRun, type DecisionPrompt } from './decision-run.js';
import type { PromptImages } from './prompt-images.js';
import { promptSizeOf } from './prompt-size.js';
import type { Prompt, Prompter } from './prompter.js';

/** Maximum total number of tokens in a request's prompts, which are kept in memory while the request runs. */
const MAX_PROMPT_TOKENS = 1 << 22;

export interface DeciderDeps {
  readonly engine: Engine;
  readonly prompter: Prompter;
  /** Null if the model has no vision encoder. */
  readonly images: PromptImages | null;
  readonly adapter: AdapterInfo | null;
  /** The model's ID, for errors. */
  readonly model: string;
  readonly limits: Pick<GenerationLimits, 'queueWaitMs' | 'maxGenerationMs'>;
}

export class LocalDecider implements Decider {
  readonly #codes: AnswerCodes;

  constructor(private readonly deps: DeciderDeps) {
    this.#codes = new AnswerCodes(deps.engine);
  }

  async prepare(decisions: DecisionRequest, context: RequestContext): Promise<PreparedDecisions> {
    try {
      return await this.#prepare(decisions, context);
    } catch (error) {
      throw codeOf(error) === 'closed' ? goingAway() : error;
    }
  }

  async #prepare(decisions: DecisionRequest, context: RequestContext): Promise<PreparedDecisions> {
    const { engine, images, adapter, limits, model } = this.deps;
    images?.check(decisions.request.messages);
    const written: Written[] = [];
    let promptTokens = 0;
    await inTurns(
      decisions.forms.keys(),
      async (question) => {
        const codes = await this.#codesOf(decisions, question);
        const prompt = await this.#prompt(decisions, question, codes, context);
        promptTokens += prompt.length;
        if (promptTokens > MAX_PROMPT_TOKENS)
          throw apiError(
            'unsupported_value',
            `The prompts of all questions have more than ${MAX_PROMPT_TOKENS} tokens in total.`,
            'questions',
          );
        written.push({ prompt, answers: codes.map(({ token }) => token) });
      },
      context.signal,
    );
    const native =
      (await images?.prepare(
        written.flatMap(({ prompt }) => prompt.images.map(({ part }) => part)),
        context,
      )) ?? [];
    const prompts = withImages(written, native);
    const common: SubmitOptions = {
      ...SCORING,
      adapter: adapter?.id ?? null,
      organization: context.organization,
      background: context.isBackground ?? false,
      queueWaitMs: limits.queueWaitMs,
      generationMs: limits.maxGenerationMs,
    };
    let found: readonly (readonly number[])[] = [];
    return {
      promptTokens: exactly(promptTokens),
      maxTokens: prompts.reduce((sum, { answers }) => sum + comparisons(answers).length, 0),
      cappedByContext: false,
      n: 1,
      ignoredKeywords: [],
      probabilities: () => found,
      start: (onEvent) => {
        const keep = (probabilities: readonly (readonly number[])[]): void => {
          found = probabilities;
        };
        return new DecisionRun({ engine, model, adapter, common, prompts, keep, onEvent }).start();
      },
    };
  }

  async #prompt(
    decisions: DecisionRequest,
    question: number,
    codes: readonly AnswerCode[],
    context: RequestContext,
  ): Promise<Prompt> {
    const { prompter, model } = this.deps;
    const texts = codes.map(({ text }) => text);
    const request: GenerationRequest = {
      ...decisions.request,
      messages: questionMessages(decisions, question, texts),
      continueFinal: true,
      effort: 'none',
    };
    const size = promptSizeOf(request);
    prompter.checkLength(request, size);
    return prompter.prompt(request, size, context).catch((error: unknown) => {
      if (error instanceof ApiError && error.param === 'continue_final_message')
        throw apiError(
          'unsupported_feature',
          `${model} does not answer decision questions: its chat template cannot continue an assistant message.`,
          'model',
        );
      throw error;
    });
  }

  /** Throws ApiError 422 if the vocabulary has too few usable codes for the allowed answers. */
  async #codesOf({ forms }: DecisionRequest, question: number): Promise<readonly AnswerCode[]> {
    const form = forms[question]!;
    const count = answerCount(form);
    const codes = form.type === 'predicate' ? await this.#codes.ofPredicate() : await this.#codes.first(count);
    if (codes.length === count) return codes;
    const { model } = this.deps;
    if (codes.length < 2)
      throw apiError(
        'unsupported_feature',
        `${model} does not answer decision questions: its vocabulary has no tokens for the answers.`,
        'model',
      );
    const path = `questions[${question}].${form.type === 'choice' ? 'choices' : 'levels'}`;
    throw apiError(
      'unsupported_value',
      `${path} may have at most ${codes.length} entries for ${model}, because its vocabulary has no more answer codes.`,
      path,
    );
  }
}

interface Written {
  readonly prompt: Prompt;
  /** The tokens of the allowed answers, in order. */
  readonly answers: readonly number[];
}

/** Engine options for a request that only computes a next-token distribution. */
const SCORING = {
  prompt: new Int32Array(),
  organization: 0,
  n: 1,
  maxTokens: 1,
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  repetitionPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  seed: 0n,
  logitBias: [],
  topLogprobs: 0,
  stop: [],
  stopTokens: [],
  ignoreEos: true,
  prefixCache: true,
  reasoning: null,
} satisfies Partial<SubmitOptions>;

/** Assigns the prepared images, which are in the order of all prompts, to their prompts. */
function withImages(written: readonly Written[], native: readonly NativeImage[]): DecisionPrompt[] {
  let next = 0;
  return written.map(({ prompt, answers }) => ({
    tokens: prompt.tokens,
    length: prompt.length,
    images: prompt.images.map(({ at }) => ({ at, image: native[next++]! })),
    answers,
  }));
}
