// Limits of a model's chat template. A template is a program from a model file that runs on the event loop. Its
// operations are counted in steps before they run, and their time and memory are bounded by their steps.

import { Dict } from './values.js';

/**
 * A step is an evaluation, a list item, or this many characters read or written. It takes about 0.1 µs and, if the
 * result is kept, about 50 bytes.
 */
const CHARACTERS_PER_STEP_LOG2 = 5;

export const TEMPLATE_LIMITS = {
  /** Maximum length of the source. The longest templates in use have a tenth of it. */
  characters: 1 << 18,
  /**
   * Maximum for rendering a small conversation. Templates in use take some hundred steps per message. All trial renders
   * while a model is loaded share one such budget.
   */
  steps: 1_000_000,
  /**
   * Additional steps per character and per value of the conversation. A message has several values: itself, its role,
   * its content and so on.
   */
  stepsPerCharacter: 1,
  stepsPerValue: 64,
  /** Maximum for any render. */
  mostSteps: 16_000_000,
  /** Maximum length of a range(). */
  range: 100_000,
} as const;

/** The template rejected the conversation (raise_exception), failed, or exceeded its budget. */
export class TemplateError extends Error {
  /** Set if the budget was exceeded: another render would cost as much. */
  readonly exhausted: boolean;

  constructor(message: string, exhausted = false) {
    super(message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message);
    this.exhausted = exhausted;
  }
}

/** Maximum length of a message, because templates produce their own messages. */
const MAX_MESSAGE = 500;

/** Steps for reading or writing a text. */
export function textSteps(length: number): number {
  return 1 + (length >> CHARACTERS_PER_STEP_LOG2);
}

/** Steps for writing `count` parts of `length` characters each. The result may exceed the limits. */
export function piecesSteps(count: number, length: number): number {
  return count + Math.ceil((count * Math.max(0, length)) / (1 << CHARACTERS_PER_STEP_LOG2));
}

/** Steps for searching `sought` characters in `length`. Repetitive texts take time proportional to the product. */
export function searchSteps(length: number, sought: number): number {
  const product = sought <= 16 ? 0 : (Math.max(0, length - sought) * sought) / 64;
  return textSteps(length) + Math.ceil(product);
}

/**
 * The remaining steps of one or several renders. Steps instead of time, so that the result does not depend on the load
 * of the machine.
 */
export class RenderBudget {
  #left: number;
  #spent = 0;
  #more: (() => number) | null;

  /** `more`: returns the steps added for the size of the conversation. Called only if they are needed. */
  constructor(steps: number = TEMPLATE_LIMITS.steps, more: (() => number) | null = null) {
    this.#left = steps;
    this.#more = more;
  }

  /** Steps that have been spent. */
  get spent(): number {
    return this.#spent;
  }

  /** Called before an operation. Throws TemplateError if fewer steps are left. */
  spend(steps: number): void {
    this.#spent += steps;
    this.#left -= steps;
    if (!(this.#left >= 0)) this.#extend(); // the condition also covers NaN
  }

  #extend(): void {
    if (this.#more !== null) {
      this.#left += this.#more();
      this.#more = null;
    }
    if (!(this.#left >= 0))
      throw new TemplateError(
        `chat template takes too much: more than ${TEMPLATE_LIMITS.steps} steps plus those for the size of the conversation`,
        true,
      );
  }
}

/** Additional steps for the size of a conversation. */
export function stepsFor(conversation: unknown): number {
  const { stepsPerCharacter, stepsPerValue, mostSteps, steps } = TEMPLATE_LIMITS;
  let sum = 0;
  const add = (value: unknown): void => {
    sum += stepsPerValue;
    if (typeof value === 'string') sum += value.length * stepsPerCharacter;
    else if (Array.isArray(value)) value.forEach(add);
    else if (value instanceof Dict) {
      for (const [key, item] of value.entries()) {
        add(key);
        add(item);
      }
    } else if (typeof value === 'object' && value !== null) {
      for (const [key, item] of Object.entries(value)) {
        sum += key.length * stepsPerCharacter;
        add(item);
      }
    }
  };
  add(conversation);
  return Math.min(sum, mostSteps - steps);
}
