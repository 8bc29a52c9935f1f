// The built-in tests, as in `x is defined`.
import { positional } from './arguments.js';
import { calculate } from './arithmetic.js';
import { contains, equal, order } from './compare.js';
import { filterNamed } from './filters.js';
import { itemsOrNull } from './iterate.js';
import { str } from './print.js';
import type { Run, Test } from './run.js';
import { isLower, isUpper } from './text-methods.js';
import {
  Bytes,
  Callable,
  Dict,
  Float,
  Lazy,
  Markup,
  Range,
  TemplateFault,
  Tuple,
  Undefined,
  isInteger,
  textOf,
  type Arguments,
  type Value,
} from './values.js';

const one =
  (name: string, holds: (value: Value, run: Run) => boolean): Test =>
  (run, value, args) => {
    positional(name, args, 0);
    return holds(value, run);
  };

const two =
  (name: string, holds: (run: Run, value: Value, other: Value) => boolean): Test =>
  (run, value, args) =>
    holds(run, value, positional(name, args, 1, 1)[0] as Value);

const remainder = (run: Run, value: Value, divisor: Value): Value => calculate(run, '%', value, divisor);

/**
 * Like Python's operator `is`, except that numbers or strings with the same type and value count as the same object.
 */
function same(_run: Run, value: Value, other: Value): boolean {
  if (value instanceof Float && other instanceof Float) return Object.is(value.value, other.value);
  return value === other;
}

function isSequence(value: Value): boolean {
  return (
    textOf(value) !== null ||
    Array.isArray(value) ||
    [Tuple, Dict, Range, Bytes, Undefined].some((kind) => value instanceof kind)
  );
}

const text = (name: string, holds: (text: string) => boolean): Test =>
  one(name, (value, run) => {
    const shown = str(run, value);
    run.spend(1 + (shown.length >> 3));
    return holds(shown);
  });

const equals = two('eq', equal);
const differs = two('ne', (run, value, other) => !equal(run, value, other));
const less = two('lt', (run, value, other) => order(run, value, other) < 0);
const lessOrEqual = two('le', (run, value, other) => order(run, value, other, '<=') <= 0);
const greater = two('gt', (run, value, other) => order(run, value, other, '>') > 0);
const greaterOrEqual = two('ge', (run, value, other) => order(run, value, other, '>=') >= 0);

const TESTS: ReadonlyMap<string, Test> = new Map<string, Test>([
  ['boolean', one('boolean', (value) => typeof value === 'boolean')],
  ['callable', one('callable', (value) => value instanceof Callable || value instanceof Undefined)],
  ['defined', one('defined', (value) => !(value instanceof Undefined))],
  ['divisibleby', two('divisibleby', (run, value, divisor) => equal(run, remainder(run, value, divisor), 0))],
  ['escaped', one('escaped', (value) => value instanceof Markup)],
  ['even', one('even', (value, run) => equal(run, remainder(run, value, 2), 0))],
  ['false', one('false', (value) => value === false)],
  ['filter', one('filter', (value) => filterNamed(textOf(value) ?? '') !== undefined)],
  ['float', one('float', (value) => value instanceof Float)],
  ['in', two('in', (run, value, container) => contains(run, container, value))],
  ['integer', one('integer', (value) => isInteger(value) && typeof value !== 'boolean')],
  [
    'iterable',
    one(
      'iterable',
      (value, run) => value instanceof Lazy || textOf(value) !== null || itemsOrNull(run, value) !== null,
    ),
  ],
  ['lower', text('lower', isLower)],
  ['mapping', one('mapping', (value) => value instanceof Dict)],
  ['none', one('none', (value) => value === null)],
  ['number', one('number', (value) => isInteger(value) || value instanceof Float)],
  ['odd', one('odd', (value, run) => equal(run, remainder(run, value, 2), 1))],
  ['sameas', two('sameas', same)],
  ['sequence', one('sequence', isSequence)],
  ['string', one('string', (value) => textOf(value) !== null)],
  ['test', one('test', (value) => testNamed(textOf(value) ?? '') !== undefined)],
  ['true', one('true', (value) => value === true)],
  ['undefined', one('undefined', (value) => value instanceof Undefined)],
  ['upper', text('upper', isUpper)],
  ['==', equals],
  ['eq', equals],
  ['equalto', equals],
  ['!=', differs],
  ['ne', differs],
  ['<', less],
  ['lt', less],
  ['lessthan', less],
  ['<=', lessOrEqual],
  ['le', lessOrEqual],
  ['>', greater],
  ['gt', greater],
  ['greaterthan', greater],
  ['>=', greaterOrEqual],
  ['ge', greaterOrEqual],
]);

/** Returns undefined if there is no test with that name. */
export function testNamed(name: string): Test | undefined {
  return TESTS.get(name);
}

export function callTest(run: Run, name: string, value: Value, args: Arguments): boolean {
  const test = TESTS.get(name);
  if (test === undefined) throw new TemplateFault(`No test named '${name}'.`);
  return test(run, value, args);
}
