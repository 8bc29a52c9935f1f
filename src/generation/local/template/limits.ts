// Limits of a model's chat template. A template is a program from a model file that runs on the event loop. Its
// operations are counted in steps before they run, and their time and memory are bounded by their steps.

import { Dict } from './values.js';

/**
 * One step is charged for each evaluation, for each list item, and for each time that this many characters are read or
 * written. A step takes about 0.1 µs and, if its result is kept, about 50 bytes.
 */
const CHARACTERS_PER_STEP_LOG2 = 5;

export const TEMPLATE_LIMITS = {
  /** Maximum length of the source. The longest templates in use have a tenth of this length. */
  characters: 1 << 18,
  /**
   * Maximum number of steps for rendering a small conversation. Templates in use take a few hundred steps per message.
   * All trial renders at model load share one such budget.
   */
  steps: 1_000_000,
  /**
   * Additional steps per character and per value of the conversation. A message has several values: itself, its role,
   * its content and so on.
   */
  stepsPerCharacter: 1,
  stepsPerValue: 64,
  /** Maximum number of steps of any render. */
  mostSteps: 16_000_000,
  /** Maximum length of a range(). */
  range: 100_000,
} as const;

/** The template rejected the conversation (raise_exception), failed, or exceeded its budget. */
export class TemplateError extends Error {
  /** Whether the budget was exceeded. If so, another render would cost just as much. */
  readonly exhausted: boolean;

  constructor(message: string, exhausted = false) {
    super(message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message);
    this.exhausted = exhausted;
  }
}

/** Maximum length of an error message. It is limited because templates can produce their own messages. */
const MAX_MESSAGE = 500;

/** Steps charged for reading or writing a text. */
export function textSteps(length: number): number {
  return 1 + (length >> CHARACTERS_PER_STEP_LOG2);
}

/** Steps charged for writing `count` parts of `length` characters each. The result may be larger than any budget. */
export function piecesSteps(count: number, length: number): number {
  return count + Math.ceil((count * Math.max(0, length)) / (1 << CHARACTERS_PER_STEP_LOG2));
}

/**
 * Steps charged for searching for a string of `sought` characters in a string of `length` characters. With repetitive
 * strings, the time is proportional to the product of the lengths.
 */
export function searchSteps(length: number, sought: number): number {
  const product = sought <= 16 ? 0 : (Math.max(0, length - sought) * sought) / 64;
  return textSteps(length) + Math.ceil(product);
}

/**
 * The budget of steps for one or several renders. The budget is in steps rather than in time, so that the result does
 * not depend on the load of the machine.
 */
export class RenderBudget {
  #left: number;
  #spent = 0;
  #more: (() => number) | null;

  /**
   * `more`: returns the steps added for the size of the conversation. Called only if the first `steps` do not suffice.
   */
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
        `chat template takes too many steps: more than ${TEMPLATE_LIMITS.steps} plus the allowance for the conversation's size`,
        true,
      );
  }
}

/** Returns the budget for rendering a conversation. Several renders of the conversation may share it. */
export const budgetFor = (conversation: unknown): RenderBudget =>
  new RenderBudget(TEMPLATE_LIMITS.steps, () => stepsFor(conversation));

/** Returns the additional steps that a conversation of this size may take. */
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
