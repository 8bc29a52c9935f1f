// Determines the reasoning efforts that a chat template knows, by rendering one user message with each effort, and maps
// a request's effort to the template's word for it.
import { REASONING_EFFORTS, type ReasoningEffort } from '../../types.js';

type Level = Exclude<ReasoningEffort, 'none'>;
const LEVELS = REASONING_EFFORTS.filter((effort): effort is Level => effort !== 'none');

/** The words that turn reasoning off in templates. */
const OFF_WORDS = ['no_think', 'none'] as const;

/** The levels offered for templates that print any word (gpt-oss). */
const PRINTED: readonly Level[] = ['low', 'medium', 'high'];

/** A word that no template knows. */
const UNKNOWN = 'probe-effort';

/** Index of the lowest level that stands for more reasoning than usual. */
const FIRST_HIGH = LEVELS.indexOf('high');

export class TemplateEfforts {
  /** The template's word for a request without an effort. If undefined, the variable is not set. */
  readonly standard: string | undefined;
  readonly #levels: readonly Level[];
  /** Whether the template fails for words that it does not know. */
  readonly #strict: boolean;
  readonly #off: string | undefined;

  /** `render`: renders one user message with this `reasoning_effort`; returns null if the template fails. */
  constructor(source: string, render: (effort: string | undefined, thinking: boolean) => string | null) {
    if (!source.includes('reasoning_effort')) {
      this.#levels = [];
      this.#strict = false;
      return;
    }
    const unknown = render(UNKNOWN, true);
    this.#strict = unknown === null;
    const prints = unknown?.includes(UNKNOWN) === true;
    this.#levels = prints
      ? PRINTED
      : LEVELS.filter((level) => {
          const text = render(level, true);
          return text !== null && text !== unknown;
        });
    const otherwise = render(prints ? this.#levels[0] : UNKNOWN, false);
    this.#off = prints
      ? this.#levels[0]
      : OFF_WORDS.find((word) => {
          const text = render(word, false);
          return text !== null && text !== otherwise;
        });
    const offByDefault = this.#off !== undefined && !prints && render(undefined, true) === render(this.#off, true);
    this.standard = offByDefault ? this.word('high') : undefined;
  }

  /** `none` and the efforts that change the prompt. */
  withNone(): readonly ReasoningEffort[] {
    return ['none', ...this.#levels];
  }

  /**
   * Returns the value of `reasoning_effort`. If the template does not know the effort, this is the nearest effort that
   * it knows or, if two are equally near, the stronger one. A template that accepts any word gets the effort itself
   * unless it knows a similar one that is not stronger. Returns undefined if the variable should not be set.
   */
  word(effort: ReasoningEffort): string | undefined {
    if (effort === 'none') return this.#off;
    if (this.#levels.length === 0) return this.#strict ? undefined : effort;
    if (this.#levels.includes(effort)) return effort;
    const rank = LEVELS.indexOf(effort);
    if (!this.#strict && this.#levels !== PRINTED) {
      const isHigh = rank >= FIRST_HIGH;
      const similar = this.#levels.filter((level) => {
        const other = LEVELS.indexOf(level);
        return isHigh ? other >= FIRST_HIGH && other < rank : effort === 'minimal' && level === 'low';
      });
      return similar.at(-1) ?? effort;
    }
    const distance = (level: Level): number => Math.abs(LEVELS.indexOf(level) - rank);
    return this.#levels.reduce((best, level) => (distance(level) <= distance(best) ? level : best));
  }
}
