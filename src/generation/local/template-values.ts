// What a template computes with, as the library has it. Types only: its own declarations do not resolve under this module
// resolution.

export interface Value {
  readonly type: string;
  readonly value: unknown;
  readonly builtins: ReadonlyMap<string, Value>;
  toString(): string;
}

/** Positional and keyword arguments, evaluated. */
export type Arguments = [positional: Value[], keywords: Map<string, Value>];
