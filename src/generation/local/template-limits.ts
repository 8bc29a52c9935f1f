// What a model's chat template may use. A template comes with a file and is a program: it is run on the event loop,
// so what it does is counted in steps before it is done, and nothing it does is longer or larger than its steps.

/** A step is an evaluation, an item of a list, or this many characters that are read or made: some 0.1 µs and, kept, some 50 bytes. */
const CHARACTERS_PER_STEP_LOG2 = 5;

export const TEMPLATE_LIMITS = {
  /** Of the source. The largest in use have a tenth of it. */
  characters: 1 << 18,
  /** White space in one piece: reading a template takes the square of it. */
  blanksInARow: 1_024,
  /** Of a render of a small conversation; a template in use takes some hundred for each message. All trials while a model is loaded share as many. */
  steps: 1_000_000,
  /** What a larger conversation adds to that, for each character and each value (of a message: itself, its role, its content …) of it. */
  stepsPerCharacter: 1,
  stepsPerValue: 64,
  /** Of any render. */
  mostSteps: 16_000_000,
  /** Of one range(). */
  range: 100_000,
} as const;

/** The template refused this conversation (raise_exception), failed, or took too much. */
export class TemplateError extends Error {
  /** Set when it was stopped for what it took: rendering again would cost as much. */
  readonly exhausted: boolean;

  constructor(message: string, exhausted = false) {
    super(message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message);
    this.exhausted = exhausted;
  }
}

/** Templates make their own messages. */
const MAX_MESSAGE = 500;

/** Steps of reading or making a text. */
export function textSteps(length: number): number {
  return 1 + (length >> CHARACTERS_PER_STEP_LOG2);
}

/** Steps of making `count` pieces of `length` characters, of which there may be more than fit. */
export function piecesSteps(count: number, length: number): number {
  return count + Math.ceil((count * Math.max(0, length)) / (1 << CHARACTERS_PER_STEP_LOG2));
}

/** Steps of looking for `sought` characters in `length` of them; repetitive texts take the product. */
export function searchSteps(length: number, sought: number): number {
  const product = sought <= 16 ? 0 : (Math.max(0, length - sought) * sought) / 64;
  return textSteps(length) + Math.ceil(product);
}

/** The steps that a render, or several together, has left. No clock: what fails on a busy machine fails on an idle one. */
export class RenderBudget {
  #left: number;
  #more: (() => number) | null;

  /** `more`: the steps that the size of the conversation adds, asked for once they are needed. */
  constructor(steps: number = TEMPLATE_LIMITS.steps, more: (() => number) | null = null) {
    this.#left = steps;
    this.#more = more;
  }

  /** Before what takes them is done. Throws TemplateError when there are no such steps. */
  spend(steps: number): void {
    this.#left -= steps;
    if (!(this.#left >= 0)) this.#extend(); // so for NaN too
  }

  #extend(): void {
    if (this.#more !== null) {
      this.#left += this.#more();
      this.#more = null;
    }
    if (!(this.#left >= 0))
      throw new TemplateError(
        `chat template takes too much: more than ${TEMPLATE_LIMITS.steps} steps and those that the size of the conversation adds`,
        true,
      );
  }
}

/** Steps that a conversation adds to those of a small one. */
export function stepsFor(conversation: unknown): number {
  const { stepsPerCharacter, stepsPerValue, mostSteps, steps } = TEMPLATE_LIMITS;
  let sum = 0;
  const add = (value: unknown): void => {
    sum += stepsPerValue;
    if (typeof value === 'string') sum += value.length * stepsPerCharacter;
    else if (Array.isArray(value)) value.forEach(add);
    else if (typeof value === 'object' && value !== null) {
      for (const [key, item] of Object.entries(value)) {
        sum += key.length * stepsPerCharacter;
        add(item);
      }
    }
  };
  add(conversation);
  return Math.min(sum, mostSteps - steps);
}
