// Types for the members of the template library's values and scopes that are used here. The library's own declarations
// do not resolve under this module resolution.
import * as jinja from '@huggingface/jinja';

export interface Value {
  readonly type: string;
  readonly value: unknown;
  readonly builtins: ReadonlyMap<string, Value>;
  toString(): string;
}

/** The variables of a block and its enclosing scope. */
export interface Scope {
  readonly parent?: Scope | undefined;
  readonly variables: ReadonlyMap<string, Value>;
  /** Converts plain data to a value and declares it. */
  set(name: string, input: unknown): Value;
  setVariable(name: string, value: Value): Value;
}

export const Environment = jinja.Environment as new (parent?: Scope) => Scope;

/** Evaluated positional and keyword arguments. */
export type Arguments = [positional: Value[], keywords: Map<string, Value>];

/** The library does not export its value classes, but an environment creates values. */
export function valueOf(input: unknown): Value {
  return new Environment().set('value', input);
}

export const UNDEFINED = valueOf(undefined);
const TRUE = valueOf(true);
const FALSE = valueOf(false);
export const EMPTY = valueOf('');
export const StringValue = EMPTY.constructor as new (text: string) => Value;
export const ObjectValue = valueOf({}).constructor as new (map: Map<string, Value>) => Value;
const SMALL = Array.from({ length: 256 }, (_, number) => valueOf(number));
const IntegerValue = (SMALL[0] as Value).constructor as new (number: number) => Value;

export const integer = (number: number): Value => SMALL[number] ?? new IntegerValue(number);
export const boolean = (value: boolean): Value => (value ? TRUE : FALSE);

export const ArrayValue = valueOf([]).constructor as new (items: Value[]) => Value;
export const FunctionValue = valueOf(() => null).constructor as new (
  call: (args: Value[], scope: Scope) => Value,
) => Value;
