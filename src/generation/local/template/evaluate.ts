// Compiles expressions to functions that compute their values. A function call per node is several times faster than
// walking the tree.
import { calculate, negated, unchanged } from './arithmetic.js';
import { contains, equal, order } from './compare.js';
import { callFilter, filterNamed } from './filters.js';
import { escapeHtml } from './html.js';
import { items } from './iterate.js';
import { getAttribute, getItem, methodOf, slice } from './members.js';
import { str } from './print.js';
import type { Filter, Run, Test } from './run.js';
import type { Scope } from './scope.js';
import type * as tree from './syntax-tree.js';
import { callTest, testNamed } from './tests.js';
import {
  Callable,
  Dict,
  Markup,
  NO_ARGUMENTS,
  TemplateFault,
  Tuple,
  Undefined,
  isTrue,
  textOf,
  typeName,
  type Arguments,
  type Value,
} from './values.js';

/** Throws TemplateFault, or TemplateError if the budget is exceeded or the template raises an error. */
export type Evaluate = (scope: Scope) => Value;

/** Steps charged for a call, in addition to the steps of the called function. */
const CALL_STEPS = 4;

/**
 * `soft`: the expression is directly inside a branch. An unknown filter or test then causes an error only when it is
 * evaluated, because templates check whether it exists. Throws TemplateFault.
 */
export function compileExpression(node: tree.Expression, soft: boolean): Evaluate {
  switch (node.type) {
    case 'constant': {
      const { value } = node;
      return () => value;
    }
    case 'name': {
      const { name } = node;
      return (scope) => {
        scope.run.spend(1);
        return scope.find(name);
      };
    }
    case 'attribute': {
      const object = compileExpression(node.object, soft);
      const { name } = node;
      return (scope) => {
        scope.run.spend(1);
        return getAttribute(scope.run, object(scope), name);
      };
    }
    case 'item': {
      const object = compileExpression(node.object, soft);
      const index = compileExpression(node.index, soft);
      return (scope) => {
        scope.run.spend(1);
        const value = object(scope);
        return getItem(scope.run, value, index(scope));
      };
    }
    case 'slice': {
      const object = compileExpression(node.object, soft);
      const [start, stop, step] = node.bounds.map((bound) =>
        bound === null ? none : compileExpression(bound, soft),
      ) as [Evaluate, Evaluate, Evaluate];
      return (scope) => {
        scope.run.spend(1);
        return slice(scope.run, object(scope), [start(scope), stop(scope), step(scope)]);
      };
    }
    case 'call':
      return compileCall(node, soft);
    case 'filter': {
      const operand = compileExpression(node.operand as tree.Expression, soft);
      const apply = compileFilter(node, soft);
      return (scope) => apply(scope, operand(scope));
    }
    case 'test':
      return compileTest(node, soft);
    case 'unary':
      return compileUnary(node, soft);
    case 'binary': {
      const left = compileExpression(node.left, soft);
      const right = compileExpression(node.right, soft);
      const { operator } = node;
      return (scope) => {
        scope.run.spend(1);
        const value = left(scope);
        return calculate(scope.run, operator, value, right(scope));
      };
    }
    case 'logical': {
      const left = compileExpression(node.left, soft);
      const right = compileExpression(node.right, soft);
      const stops = node.operator === 'or';
      return (scope) => {
        scope.run.spend(1);
        const value = left(scope);
        return isTrue(value) === stops ? value : right(scope);
      };
    }
    case 'compare':
      return compileComparison(node, soft);
    case 'concat':
      return compileConcat(node.parts, soft);
    case 'conditional': {
      const test = compileExpression(node.test, true);
      const then = compileExpression(node.then, true);
      const otherwise = node.otherwise === null ? noBranch : compileExpression(node.otherwise, true);
      return (scope) => {
        scope.run.spend(1);
        return isTrue(test(scope)) ? then(scope) : otherwise(scope);
      };
    }
    case 'list':
      return compileItems(node.items, soft);
    case 'tuple': {
      const parts = compileItems(node.items, soft);
      return (scope) => new Tuple(parts(scope));
    }
    case 'dict': {
      const entries = node.entries.map(
        ([key, value]) => [compileExpression(key, soft), compileExpression(value, soft)] as const,
      );
      return (scope) => {
        const dict = new Dict();
        for (const [key, value] of entries) {
          const name = key(scope);
          scope.run.spend(2 + ((textOf(name)?.length ?? 0) >> 5));
          dict.set(name, value(scope));
        }
        return dict;
      };
    }
  }
}

const none: Evaluate = () => null;
const noBranch: Evaluate = () => new Undefined(() => 'the condition is false, and there is no else');

function compileItems(nodes: readonly tree.Expression[], soft: boolean): (scope: Scope) => Value[] {
  const parts = nodes.map((node) => compileExpression(node, soft));
  return (scope) => {
    scope.run.spend(1 + parts.length);
    return parts.map((part) => part(scope));
  };
}

function compileUnary({ operator, operand }: tree.Expression & { type: 'unary' }, soft: boolean): Evaluate {
  const inner = compileExpression(operand, soft);
  if (operator === 'not') return (scope) => !isTrue(inner(scope));
  return (scope) => {
    scope.run.spend(1);
    return operator === '-' ? negated(inner(scope)) : unchanged(inner(scope));
  };
}

function compileComparison({ first, rest }: tree.Expression & { type: 'compare' }, soft: boolean): Evaluate {
  const start = compileExpression(first, soft);
  const steps = rest.map(({ operator, operand }) => ({
    holds: COMPARISONS[operator],
    operand: compileExpression(operand, soft),
  }));
  return (scope) => {
    let left = start(scope);
    for (const { holds, operand } of steps) {
      const right = operand(scope);
      if (!holds(scope.run, left, right)) return false;
      left = right;
    }
    return true;
  };
}

const COMPARISONS: Readonly<Record<tree.Comparison['operator'], (run: Run, left: Value, right: Value) => boolean>> = {
  '==': equal,
  '!=': (run, left, right) => !equal(run, left, right),
  '<': (run, left, right) => order(run, left, right) < 0,
  '<=': (run, left, right) => order(run, left, right, '<=') <= 0,
  '>': (run, left, right) => order(run, left, right, '>') > 0,
  '>=': (run, left, right) => order(run, left, right, '>=') >= 0,
  in: (run, left, right) => contains(run, right, left),
  'not in': (run, left, right) => !contains(run, right, left),
};

function compileConcat(nodes: readonly tree.Expression[], soft: boolean): Evaluate {
  const parts = nodes.map((node) => compileExpression(node, soft));
  return (scope) => {
    const { run } = scope;
    const values = parts.map((part) => part(scope));
    const texts = values.map((value) => (run.autoescape ? escapeHtml(run, value) : str(run, value)));
    // The longest text is not charged, because JavaScript does not copy it when it concatenates texts. Reading the
    // result is charged later.
    run.spendText(texts.reduce((sum, { length }) => sum + length, 0) - Math.max(...texts.map(({ length }) => length)));
    const joined = texts.join('');
    return run.autoescape ? new Markup(joined) : joined;
  };
}

function compileTest({ name, operand, args }: tree.Expression & { type: 'test' }, soft: boolean): Evaluate {
  const inner = compileExpression(operand, soft);
  const evaluated = compileArguments(args, soft);
  const test: Test = testNamed(name) ?? missingTest(name, soft);
  return (scope) => {
    scope.run.spend(1);
    const value = inner(scope);
    return test(scope.run, value, evaluated(scope));
  };
}

function missingTest(name: string, soft: boolean): Test {
  if (!soft) throw new TemplateFault(`No test named '${name}'.`);
  return (run, value, args) => callTest(run, name, value, args);
}

/** A filter with its arguments. */
export function compileFilter({ name, args }: tree.Filter, soft: boolean): (scope: Scope, operand: Value) => Value {
  const evaluated = compileArguments(args, soft);
  const filter: Filter = filterNamed(name) ?? missingFilter(name, soft);
  return (scope, operand) => {
    scope.run.spend(1);
    return filter(scope.run, operand, evaluated(scope));
  };
}

function missingFilter(name: string, soft: boolean): Filter {
  if (!soft) throw new TemplateFault(`No filter named '${name}'.`);
  return (run, value, args) => callFilter(run, name, value, args);
}

function compileCall({ callee, args }: tree.Expression & { type: 'call' }, soft: boolean): Evaluate {
  const evaluated = compileArguments(args, soft);
  if (callee.type === 'attribute') return compileMethodCall(callee, evaluated, soft);
  const called = compileExpression(callee, soft);
  return (scope) => {
    scope.run.spend(CALL_STEPS);
    const value = called(scope);
    return callValue(value, evaluated(scope));
  };
}

/** Compiles a call such as `x.method()`, which looks up the method and calls it without creating an object for it. */
function compileMethodCall(
  { object, name }: tree.Expression & { type: 'attribute' },
  args: (scope: Scope) => Arguments,
  soft: boolean,
): Evaluate {
  const owner = compileExpression(object, soft);
  return (scope) => {
    scope.run.spend(CALL_STEPS);
    const value = owner(scope);
    const method = methodOf(value, name);
    if (method !== undefined) return method(scope.run, value, args(scope));
    return callValue(getAttribute(scope.run, value, name), args(scope));
  };
}

export function callValue(value: Value, args: Arguments): Value {
  if (value instanceof Callable) return value.call(args);
  if (value instanceof Undefined) throw value.fault();
  throw new TemplateFault(`'${typeName(value)}' object is not callable`);
}

/** `more`: an additional named argument. */
export function compileArguments(
  node: tree.CallArguments,
  soft: boolean,
): (scope: Scope, more?: readonly [string, Value]) => Arguments {
  const positional = node.positional.map((part) => compileExpression(part, soft));
  const named = node.named.map(([name, value]) => [name, compileExpression(value, soft)] as const);
  const list = node.list === null ? null : compileExpression(node.list, soft);
  const dict = node.dict === null ? null : compileExpression(node.dict, soft);
  if (list === null && dict === null && named.length === 0) {
    return (scope, more) => {
      if (positional.length === 0 && more === undefined) return NO_ARGUMENTS;
      return { positional: positional.map((part) => part(scope)), named: more === undefined ? null : new Map([more]) };
    };
  }
  return (scope, more) => {
    const values = positional.map((part) => part(scope));
    const names = new Map<string, Value>();
    for (const [name, value] of named) addNamed(names, name, value(scope));
    if (list !== null) for (const value of items(scope.run, list(scope))) values.push(value);
    if (dict !== null) addAll(names, dict(scope));
    if (more !== undefined) addNamed(names, ...more);
    scope.run.spend(values.length + names.size);
    return { positional: values, named: names };
  };
}

function addNamed(names: Map<string, Value>, name: string, value: Value): void {
  if (names.has(name)) throw new TemplateFault(`got multiple values for keyword argument '${name}'`);
  names.set(name, value);
}

function addAll(names: Map<string, Value>, dict: Value): void {
  if (!(dict instanceof Dict)) throw new TemplateFault(`argument after ** must be a mapping, not ${typeName(dict)}`);
  for (const [name, value] of dict.entries()) {
    if (typeof name !== 'string') throw new TemplateFault('keywords must be strings');
    addNamed(names, name, value);
  }
}
