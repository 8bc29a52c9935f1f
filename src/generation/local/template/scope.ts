// The variables of a block and of its enclosing blocks.
import { globalNamed } from './globals.js';
import type { Run } from './run.js';
import { Undefined, type Value } from './values.js';

/** Variable lookups that pass through at most this many scopes are not charged. */
const NEAR_SCOPES = 8;

export class Scope {
  readonly variables = new Map<string, Value>();

  constructor(
    readonly run: Run,
    readonly parent: Scope | null,
  ) {}

  /** The scope of the whole template. */
  get top(): Scope {
    let scope: Scope = this;
    while (scope.parent !== null) scope = scope.parent;
    return scope;
  }

  /** Returns a variable, a function that every template has, or Undefined. */
  find(name: string): Value {
    let passed = 0;
    for (let scope: Scope | null = this; scope !== null; scope = scope.parent) {
      const value = scope.variables.get(name);
      if (value !== undefined) return value;
      if (++passed > NEAR_SCOPES) this.run.spend(1);
    }
    return globalNamed(this.run, name) ?? new Undefined(() => `'${name}' is undefined`);
  }
}

/** Text that is being written. */
export interface Output {
  text: string;
}
