// The state of one render.
import type { RenderBudget } from './limits.js';
import { textSteps } from './limits.js';
import { TemplateFault, type Arguments, type Value } from './values.js';

/** Maximum nesting of macros, recursive loops and values. No schema or call arguments are nested this deeply. */
const MAX_DEPTH = 300;

/** A method of a value. `self` must have the type to which the method belongs. Throws TemplateFault. */
export type Method = (run: Run, self: Value, args: Arguments) => Value;

/** Throws TemplateFault. */
export type Filter = (run: Run, value: Value, args: Arguments) => Value;

/** Throws TemplateFault. */
export type Test = (run: Run, value: Value, args: Arguments) => boolean;

/** Operations of higher-level modules of the template language that lower-level modules need. */
export interface Language {
  getAttribute(run: Run, value: Value, name: string): Value;
  getItem(run: Run, value: Value, key: Value): Value;
  callFilter(run: Run, name: string, value: Value, args: Arguments): Value;
  callTest(run: Run, name: string, value: Value, args: Arguments): boolean;
}

/**
 * Cached JSON of lists and dicts that are shared between renders, with the number of steps that serializing each takes.
 * Null if it has not been serialized yet.
 */
export type KnownJson = WeakMap<object, { readonly text: string; readonly steps: number } | null>;

export class Run {
  /** Whether printed text is escaped for HTML. */
  autoescape = false;
  /** Whether the template has changed a list that may belong to its input. */
  changedInput = false;
  /** The line of the statement that is being executed. */
  line = 0;
  #depth = 0;

  constructor(
    readonly budget: RenderBudget,
    /** Returns the local time for strftime_now(). */
    readonly now: () => Date,
    /** A character that the server inserts into the client's text (see shield.ts). It is printed unchanged. */
    readonly guard: string = '',
  ) {}

  /** Set before the template runs. */
  language!: Language;
  /** JSON of values that many renders share, such as the tools of a conversation. */
  json: KnownJson | null = null;

  /** Called before an operation. Throws TemplateError if too few steps are left. */
  spend(steps: number): void {
    this.budget.spend(steps);
  }

  /** Charges the steps for reading or writing a text. */
  spendText(length: number): void {
    this.budget.spend(textSteps(length));
  }

  /** Runs `work` one level deeper. */
  nested<T>(work: () => T): T {
    if (this.#depth === MAX_DEPTH) throw new TemplateFault('it is nested too deeply or recurses endlessly');
    this.#depth++;
    try {
      return work();
    } finally {
      this.#depth--;
    }
  }
}
