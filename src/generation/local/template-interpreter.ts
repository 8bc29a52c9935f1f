// Runs a parsed chat template within a budget. Rare operations are left to the library's interpreter. Operations that
// every template performs for each message are implemented here (name and member lookup, comparison, branches, loops),
// because the library spends most of its time creating a value object for each. Operations whose result may be larger
// than their node are charged here before the library runs them: an oversized text or list could crash the process, and
// the library cannot be interrupted. Event-loop thread only.
import * as jinja from '@huggingface/jinja';
import { filterSteps, JSON_TIMES, loopSteps, methodSteps, spendDeep } from './template-costs.js';
import { fieldValue, formatPieces } from './template-format.js';
import { type RenderBudget, searchSteps, textSteps } from './template-limits.js';
import type { Node, Prepared, Program } from './template-syntax.js';
import {
  ArrayValue,
  EMPTY,
  Environment,
  FunctionValue,
  ObjectValue,
  StringValue,
  UNDEFINED,
  boolean,
  integer,
} from './template-values.js';
import type { Arguments, Scope, Value } from './template-values.js';

/**
 * The library declares the last three members private. It calls them on `this` in the version pinned in package.json.
 */
const Interpreter = jinja.Interpreter as new (
  environment: Scope,
) => {
  global: Scope;
  evaluate(node: Node | undefined, environment: Scope): Value;
  evaluateBlock(statements: readonly Node[], environment: Scope): Value;
  evaluateArguments(nodes: readonly Node[], environment: Scope): Arguments;
  applyFilter(operand: Value, filter: Node, environment: Scope): Value;
};

/** Steps for objects that the library creates: the scope of a call, and an exception with a stack trace. */
const CALL_STEPS = 16;
const JUMP_STEPS = 32;
/** Steps for creating all methods of a value, which happens at the first call of one. */
const METHODS_STEPS = 32;
/** Steps per value of a list that a function has created. */
const MADE_STEPS = 4;
/** Lookups through at most this many scopes are not charged. */
const NEAR_SCOPES = 8;

export class TemplateInterpreter extends Interpreter {
  readonly #budget: RenderBudget;
  /** Arguments of a filter, evaluated to compute its cost before the library requests them. */
  #evaluated: { nodes: readonly Node[]; values: Arguments } | null = null;

  /**
   * Lists created by the template, and whether one of them has changed. After a change, texts of values are not cached.
   */
  readonly #lists = new WeakSet<Value>();
  #changed = false;

  constructor(environment: Scope, budget: RenderBudget) {
    super(environment);
    this.#budget = budget;
  }

  /** Returns the program's output. Throws TemplateError if the budget is exceeded or the template raises an error. */
  text(program: Program): string {
    return this.#block(program.body, this.global);
  }

  override evaluate(statement: Node | undefined, environment: Scope): Value {
    if (!statement) return UNDEFINED;
    const node = statement as Prepared;
    if (node.constant !== undefined) return node.constant;
    this.#budget.spend(1);
    switch (node.type) {
      case 'Identifier':
        return this.#lookUp(node.value as string, environment);
      case 'MemberExpression':
        return this.#member(node, environment);
      case 'BinaryExpression':
        return this.#binary(node, environment);
      case 'If': {
        const branch = truth(this.evaluate(node.test, environment)) ? node.body : node.alternate;
        return stringValue(this.#block(branch as readonly Node[], environment));
      }
      case 'For':
        return this.#for(node, environment);
      case 'FilterExpression':
        return this.applyFilter(this.evaluate(node.operand, environment), node.filter as Node, environment);
      case 'CallExpression': {
        const result = super.evaluate(node, environment);
        // e.g. range()
        if (result.type === 'ArrayValue') this.#budget.spend(MADE_STEPS * (result.value as Value[]).length);
        return result;
      }
      case 'TestExpression': {
        if (!READING_TESTS.has((node.test as Prepared).value as string)) return super.evaluate(node, environment);
        const operand = this.evaluate(node.operand, environment);
        if (operand.type === 'StringValue') this.#budget.spend(textSteps((operand.value as string).length));
        return super.evaluate({ ...node, operand: constant(operand) } as Node, environment);
      }
      case 'ArrayLiteral': {
        this.#budget.spend((node.value as readonly Node[]).length);
        const made = super.evaluate(node, environment);
        this.#lists.add(made);
        return made;
      }
      case 'TupleLiteral':
        this.#budget.spend((node.value as readonly Node[]).length);
        return super.evaluate(node, environment);
      case 'ObjectLiteral': {
        this.#budget.spend((node.value as ReadonlyMap<Node, Node>).size);
        const made = super.evaluate(withTextKeys(node), environment);
        for (const key of (made.value as ReadonlyMap<string, Value>).keys()) this.#budget.spend(textSteps(key.length));
        return made;
      }
      case 'Macro':
      case 'CallStatement':
        this.#budget.spend(node.size as number);
        return super.evaluate(node, environment);
      case 'Break':
      case 'Continue':
        this.#budget.spend(JUMP_STEPS);
        return super.evaluate(node, environment);
      default:
        return super.evaluate(node, environment);
    }
  }

  override evaluateBlock(statements: readonly Node[], environment: Scope): Value {
    return stringValue(this.#block(statements, environment));
  }

  override evaluateArguments(nodes: readonly Node[], environment: Scope): Arguments {
    const evaluated = this.#evaluated;
    if (evaluated?.nodes === nodes) {
      this.#evaluated = null;
      return evaluated.values;
    }
    const values = super.evaluateArguments(nodes, environment);
    let steps = CALL_STEPS + values[1].size;
    for (const value of values[0]) {
      if (value.type === 'ArrayValue')
        steps += (value.value as Value[]).length >> 2; // namespace() copies the list
      else if (value.type === 'ObjectValue') steps += (value.value as ReadonlyMap<string, Value>).size >> 2;
    }
    this.#budget.spend(steps);
    return values;
  }

  override applyFilter(operand: Value, filter: Node, environment: Scope): Value {
    const { type, value: name, callee, args: nodes } = filter as Prepared & { args: readonly Node[] };
    if (type === 'Identifier') {
      if (name === 'tojson') return this.#json(operand, filter, environment);
      // Python would print its own notation, which is not JSON; the library does not support this case.
      if (name === 'string' && operand.type === 'ObjectValue')
        return this.#json(operand, { type: 'Identifier', value: 'tojson' } as Node, environment);
      const word = wordOf(operand, name as string);
      if (word !== null) return stringValue(word);
      this.#budget.spend(filterSteps(this.#budget, operand, name as string, NO_ARGUMENTS));
      return super.applyFilter(operand, filter, environment);
    }
    const values = this.evaluateArguments(nodes, environment);
    this.#budget.spend(filterSteps(this.#budget, operand, callee?.value ?? '', values));
    this.#evaluated = { nodes, values };
    const result = super.applyFilter(operand, filter, environment);
    this.#evaluated = null;
    return result;
  }

  #json(operand: Value, filter: Node, environment: Scope): Value {
    const whole = operand.type === 'ObjectValue' || operand.type === 'ArrayValue';
    const known = whole && !this.#changed ? jsonOf.get(operand) : undefined;
    if (known !== undefined) return known;
    const fixed = spendDeep(this.#budget, operand, { times: JSON_TIMES });
    const result = super.applyFilter(operand, filter, environment);
    if (whole && fixed && !this.#changed) jsonOf.set(operand, result);
    return result;
  }

  #block(statements: readonly Node[], environment: Scope): string {
    let text = '';
    for (const statement of statements) {
      const value = this.evaluate(statement, environment);
      if (value.type === 'NullValue' || value.type === 'UndefinedValue') continue;
      const piece = value.type === 'StringValue' ? (value.value as string) : this.#textOf(value);
      this.#budget.spend(textSteps(piece.length));
      text += piece;
    }
    return text;
  }

  #textOf(value: Value): string {
    spendDeep(this.#budget, value);
    return value.toString();
  }

  #lookUp(name: string, environment: Scope): Value {
    let passed = 0;
    for (let scope: Scope | undefined = environment; scope !== undefined; scope = scope.parent) {
      const value = scope.variables.get(name);
      if (value !== undefined) return value;
      if (++passed > NEAR_SCOPES) this.#budget.spend(1);
    }
    return UNDEFINED;
  }

  #member(node: Prepared, environment: Scope): Value {
    const property = node.property as Prepared;
    const object = this.evaluate(node.object, environment);
    if (property.type === 'SliceExpression') return this.#slice(object, property, environment);
    const key =
      node.computed === true
        ? this.#key(object, this.evaluate(property, environment))
        : (property.constant?.value ?? property.value);
    if (key === undefined) return UNDEFINED;
    switch (object.type) {
      case 'ObjectValue':
      case 'NamespaceValue':
      case 'KeywordArgumentsValue': {
        if (typeof key !== 'string') throw new Error('Cannot access property with non-string');
        const found = (object.value as ReadonlyMap<string, Value>).get(key);
        // The library creates a value's methods on access, which is expensive.
        if (found !== undefined || object.type === 'NamespaceValue' || !OBJECT_METHODS.has(key))
          return found ?? UNDEFINED;
        return this.#method(object, key);
      }
      case 'StringValue': {
        const text = object.value as string;
        if (typeof key === 'number') {
          this.#budget.spend(textSteps(text.length));
          const character = text.at(key);
          return character === undefined ? UNDEFINED : stringValue(character);
        }
        if (key === 'length') return integer(text.length);
        if (key === 'format') return new FunctionValue((args) => this.#format(text, args));
        return typeof key === 'string' && TEXT_METHODS.has(key) ? this.#method(object, key) : UNDEFINED;
      }
      case 'ArrayValue':
      case 'TupleValue': {
        const items = object.value as Value[];
        if ((key === 'append' || key === 'pop') && this.#lists.has(object)) return this.#change(items, key);
        return typeof key === 'number'
          ? (items.at(key) ?? UNDEFINED)
          : key === 'length'
            ? integer(items.length)
            : UNDEFINED;
      }
      default:
        return UNDEFINED;
    }
  }

  /** Returns the key of a subscript. */
  #key(object: Value, { type, value }: Value): string | number | undefined {
    if (type === 'StringValue') {
      this.#budget.spend(textSteps((value as string).length));
      return value as string;
    }
    const listed = object.type === 'ArrayValue' || object.type === 'TupleValue' || object.type === 'StringValue';
    if (type === 'IntegerValue' && listed) return value as number;
    if (type === 'IntegerValue' && object.type === 'ObjectValue') return String(value);
    if (type === 'UndefinedValue' && object.type === 'ObjectValue') return undefined; // a missing member
    throw new Error(`Cannot access property with non-string${listed ? '/non-number' : ''}: got ${type}`);
  }

  /** Methods that change a list. Only lists created by the template may be changed, because all others are shared. */
  #change(items: Value[], how: 'append' | 'pop'): Value {
    return new FunctionValue(([argument]) => {
      this.#changed = true;
      this.#budget.spend(how === 'append' ? METHODS_STEPS : METHODS_STEPS + (items.length >> 2));
      if (how === 'append') items.push(argument ?? UNDEFINED);
      else return items.splice(argument?.type === 'IntegerValue' ? (argument.value as number) : -1, 1)[0] ?? UNDEFINED;
      return UNDEFINED;
    });
  }

  /** The texts of the arguments are charged as they are written. */
  #format(text: string, args: readonly Value[]): Value {
    this.#budget.spend(METHODS_STEPS + text.length);
    let written = '';
    for (const { text: said, field } of formatPieces(text)) {
      const piece = field === null ? EMPTY : fieldValue(field, args);
      const shown =
        piece.type === 'StringValue' ? (piece.value as string) : (wordOf(piece, 'string') ?? this.#textOf(piece));
      this.#budget.spend(1 + textSteps(shown.length));
      written += said + shown;
    }
    return stringValue(written);
  }

  /** A method that is charged wherever it is called, also through a variable. */
  #method(object: Value, name: string): Value {
    return new FunctionValue((args, scope) => {
      this.#budget.spend(METHODS_STEPS + methodSteps(this.#budget, object, name, args));
      // biome-ignore lint/correctness/noUnsafeOptionalChaining: only called for a method that the object has
      return (object.builtins.get(name)?.value as (args: Value[], scope: Scope) => Value)(args, scope);
    });
  }

  #slice(object: Value, slice: Prepared, environment: Scope): Value {
    const [start, stop, step] = [slice.start, slice.stop, slice.step].map((bound) =>
      this.evaluate(bound, environment),
    ) as [Value, Value, Value];
    const by = step.value ?? 1;
    const whole = (bound: Value): boolean =>
      bound === UNDEFINED || (bound.type === 'IntegerValue' && Number.isSafeInteger(bound.value));
    if (by === 1 && whole(start) && whole(stop)) {
      const [from, to] = [start.value as number | undefined, stop.value as number | undefined];
      if (object.type === 'ArrayValue' || object.type === 'TupleValue') {
        const items = (object.value as Value[]).slice(from, to);
        this.#budget.spend(items.length >> 2);
        return new ArrayValue(items);
      }
      if (object.type === 'StringValue') {
        const text = object.value as string;
        this.#budget.spend(textSteps(text.length));
        if (!SURROGATE.test(text)) return stringValue(text.slice(from, to));
      }
    }
    // Slicing costs one step per list item or character.
    this.#budget.spend((object.value as { length?: number } | null | undefined)?.length ?? 1);
    const bounds = { start: constant(start), stop: constant(stop), step: constant(step) };
    return super.evaluate(
      { type: 'MemberExpression', object: constant(object), computed: true, property: { ...slice, ...bounds } } as Node,
      environment,
    );
  }

  #binary(node: Prepared, environment: Scope): Value {
    const operator = node.operator?.value;
    switch (operator) {
      case 'and': {
        const left = this.evaluate(node.left, environment);
        return truth(left) ? this.evaluate(node.right, environment) : left;
      }
      case 'or': {
        const left = this.evaluate(node.left, environment);
        return truth(left) ? left : this.evaluate(node.right, environment);
      }
      case '==':
      case '!=':
        return boolean(
          this.#equal(this.evaluate(node.left, environment), this.evaluate(node.right, environment)) ===
            (operator === '=='),
        );
      case '+':
      case '~': {
        const left = this.evaluate(node.left, environment);
        const right = this.evaluate(node.right, environment);
        if (left.type === 'StringValue' && right.type === 'StringValue') {
          const [before, after] = [left.value as string, right.value as string];
          // the longer text is not copied; its readers are charged
          this.#budget.spend(textSteps(Math.min(before.length, after.length)));
          return stringValue(before + after);
        }
        if (operator === '+' && left.type === 'ArrayValue' && right.type === 'ArrayValue') {
          this.#budget.spend(((left.value as Value[]).length + (right.value as Value[]).length) >> 1);
        } else {
          spendDeep(this.#budget, left);
          spendDeep(this.#budget, right);
        }
        return super.evaluate({ ...node, left: constant(left), right: constant(right) } as Node, environment);
      }
      case 'in':
      case 'not in': {
        const left = this.evaluate(node.left, environment);
        const right = this.evaluate(node.right, environment);
        // an undefined container is empty
        if (left.type === 'UndefinedValue' || right.type === 'UndefinedValue') return boolean(operator === 'not in');
        const sought = left.type === 'StringValue' ? (left.value as string) : null;
        if (right.type === 'StringValue') {
          this.#budget.spend(searchSteps((right.value as string).length, sought?.length ?? 0));
          if (sought !== null) return boolean((right.value as string).includes(sought) === (operator === 'in'));
        } else {
          const length =
            right.type === 'ArrayValue' || right.type === 'TupleValue' ? (right.value as Value[]).length : 1;
          this.#budget.spend(length * textSteps(sought?.length ?? 0));
        }
        return super.evaluate({ ...node, left: constant(left), right: constant(right) } as Node, environment);
      }
      case '<':
      case '<=':
      case '>':
      case '>=': {
        // Integer keys of a mapping are strings here.
        const [left, right] = [this.evaluate(node.left, environment), this.evaluate(node.right, environment)];
        const [a, b] = [numberOf(left, right), numberOf(right, left)];
        return super.evaluate({ ...node, left: constant(a), right: constant(b) } as Node, environment);
      }
      default:
        return super.evaluate(node, environment); // numbers, or an error
    }
  }

  /** Loose equality, as in the library: 1 == 1.0, and none equals undefined. */
  #equal(left: Value, right: Value): boolean {
    const [a, b] = [left.value, right.value];
    if (typeof a === 'string' && typeof b === 'string') {
      if (a.length === b.length) this.#budget.spend(textSteps(a.length));
    } else if (typeof a !== typeof b) {
      // one is converted to the type of the other: a list to its whole text
      spendDeep(this.#budget, left);
      spendDeep(this.#budget, right);
    }
    // biome-ignore lint/suspicious/noDoubleEquals: the library compares values with ==
    return a == b;
  }

  #for(node: Prepared, environment: Scope): Value {
    const scope = new Environment(environment);
    const select = node.iterable?.type === 'SelectExpression' ? (node.iterable as Prepared) : null;
    const iterable = this.evaluate(select === null ? node.iterable : select.lhs, scope);
    this.#budget.spend(loopSteps(iterable));
    if (node.plain === true && iterable.type === 'ArrayValue')
      return this.#loop(node, iterable.value as Value[], scope);
    return super.evaluate(
      { ...node, iterable: select === null ? constant(iterable) : { ...select, lhs: constant(iterable) } } as Node,
      environment,
    );
  }

  #loop(node: Prepared, items: readonly Value[], scope: Scope): Value {
    const { length } = items;
    let text = '';
    items.forEach((item, index) => {
      scope.setVariable(
        'loop',
        new ObjectValue(
          new Map([
            ['index', integer(index + 1)],
            ['index0', integer(index)],
            ['revindex', integer(length - index)],
            ['revindex0', integer(length - index - 1)],
            ['first', boolean(index === 0)],
            ['last', boolean(index === length - 1)],
            ['length', integer(length)],
            ['previtem', items[index - 1] ?? UNDEFINED],
            ['nextitem', items[index + 1] ?? UNDEFINED],
          ]),
        ),
      );
      scope.setVariable((node.loopvar as { value: string }).value, item);
      text += this.#block(node.body as readonly Node[], scope);
    });
    if (length === 0) text = this.#block(node.defaultBlock as readonly Node[], scope);
    return stringValue(text);
  }
}

/** Converts integer keys of a mapping literal to strings, because lookups use strings. */
function withTextKeys(node: Prepared): Prepared {
  const entries = [...(node.value as ReadonlyMap<Prepared, Node>)];
  if (!entries.some(([key]) => key.type === 'IntegerLiteral')) return node;
  return {
    ...node,
    value: new Map(
      entries.map(([key, value]) => [
        key.type === 'IntegerLiteral' ? constant(stringValue(String(key.constant?.value))) : key,
        value,
      ]),
    ),
  };
}

/** Converts a string of digits that is compared with a number to that number. */
function numberOf(value: Value, other: Value): Value {
  const text = value.value;
  return typeof text === 'string' && typeof other.value === 'number' && /^-?\d{1,15}$/.test(text)
    ? integer(Number(text))
    : value;
}

/**
 * Returns the result of a string filter for a value that is not a string, as in Python. Null: the library handles it.
 */
function wordOf({ type, value }: Value, filter: string): string | null {
  if (type === 'UndefinedValue' && (filter === 'string' || CHANGING_FILTERS.has(filter))) return '';
  if (filter !== 'string') return null;
  return type === 'NullValue' ? 'None' : type === 'BooleanValue' ? (value === true ? 'True' : 'False') : null;
}

/** A node with an already evaluated value. */
function constant(value: Value): Node & { constant: Value } {
  return { type: 'Value', constant: value };
}

const NO_ARGUMENTS: Arguments = [[], new Map()];
const SURROGATE = /[\ud800-\udfff]/;

/**
 * Values are immutable except namespaces. The values of tools recur with every request of a conversation (cached
 * by chat-template.ts).
 */
const jsonOf = new WeakMap<Value, Value>();

const CHANGING_FILTERS: ReadonlySet<string> = new Set(['upper', 'lower', 'trim', 'capitalize', 'title']);

/** Tests that read a whole text. All others only check the type. */
const READING_TESTS: ReadonlySet<string> = new Set(['lower', 'upper']);
const TEXT_METHODS: ReadonlySet<string> = new Set((EMPTY.builtins as ReadonlyMap<string, Value>).keys());
const OBJECT_METHODS: ReadonlySet<string> = new Set(['get', 'items', 'keys', 'values', 'dictsort']);

function stringValue(text: string): Value {
  return text === '' ? EMPTY : new StringValue(text);
}

/** As in Python: empty strings, lists and mappings are false. */
function truth(value: Value): boolean {
  switch (value.type) {
    case 'ObjectValue':
      return (value.value as Map<string, Value>).size > 0;
    case 'ArrayValue':
    case 'TupleValue':
      return (value.value as Value[]).length > 0;
    default:
      return Boolean(value.value);
  }
}
