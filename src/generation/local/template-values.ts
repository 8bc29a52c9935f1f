// Values and scopes of the template library: the members that are used here. The library's own declarations do not resolve
// under this module resolution.
import * as jinja from '@huggingface/jinja';

export interface Value {
  readonly type: string;
  readonly value: unknown;
  readonly builtins: ReadonlyMap<string, Value>;
  toString(): string;
}

/** Variables of a block, and those around it. */
export interface Scope {
  readonly parent?: Scope | undefined;
  readonly variables: ReadonlyMap<string, Value>;
  /** Makes a value of plain data and declares it. */
  set(name: string, input: unknown): Value;
  setVariable(name: string, value: Value): Value;
}

export const Environment = jinja.Environment as new (parent?: Scope) => Scope;

/** Positional and keyword arguments, evaluated. */
export type Arguments = [positional: Value[], keywords: Map<string, Value>];

/** The library keeps its value classes to itself; an environment makes them. */
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
