// Running a parsed chat template under a time limit. The library's interpreter does what is rare; what every
// template does for every message is done here: looking names and members up, comparing, branching, looping.
// The library makes a new value object for each of these, which is most of its time. Event-loop thread only.
import * as jinja from '@huggingface/jinja';

// What is used of the library. Its own declarations do not resolve under this module resolution.

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

interface Node { readonly type: string }
export interface Program extends Node { readonly body: readonly Node[] }

export const Environment = jinja.Environment as new (parent?: Scope) => Scope;
const Interpreter = jinja.Interpreter as new (environment: Scope) => { global: Scope; evaluate(node: Node | undefined, environment: Scope): Value };

/** Throws what is wrong with the source. */
export function parseTemplate(source: string): Program {
  const program = jinja.parse(jinja.tokenize(source, { lstrip_blocks: true, trim_blocks: true })) as Program;
  prepare(program);
  return program;
}

/** Of the library's syntax tree: what is read here. `constant` and `plain` are set by prepare(). */
interface Prepared extends Node {
  constant?: Value;
  plain?: boolean;               // a loop over a list with one name and no break or continue
  value?: string;
  object?: Node;
  property?: Node;
  computed?: boolean;
  operator?: { value: string };
  left?: Node;
  right?: Node;
  test?: Node;
  body?: readonly Node[];
  alternate?: readonly Node[];
  iterable?: Node;
  operand?: Node;
  filter?: Node & { value?: string };
  loopvar?: Node & { value: string };
  defaultBlock?: readonly Node[];
}

/** The render took longer than it may. */
export class RenderTimeout extends Error {}

/** The library keeps its value classes to itself; an environment makes them. */
export function valueOf(input: unknown): Value {
  return new Environment().set('value', input);
}

const UNDEFINED = valueOf(undefined);
const TRUE = valueOf(true);
const FALSE = valueOf(false);
const EMPTY = valueOf('');
const StringValue = EMPTY.constructor as new (text: string) => Value;
const ObjectValue = valueOf({}).constructor as new (map: Map<string, Value>) => Value;
const SMALL = Array.from({ length: 256 }, (_, number) => valueOf(number));
const IntegerValue = (SMALL[0] as Value).constructor as new (number: number) => Value;

const integer = (number: number): Value => SMALL[number] ?? new IntegerValue(number);
const boolean = (value: boolean): Value => (value ? TRUE : FALSE);

/** Evaluations between two looks at the clock; what may take long by itself looks each time. */
const CLOCK_EVERY = 64;

/** Marks what can be decided once per template; true if the node holds a break or continue. */
function prepare(node: Prepared): boolean {
  let jumps = node.type === 'Break' || node.type === 'Continue';
  if (node.type === 'StringLiteral' || node.type === 'IntegerLiteral') node.constant = valueOf(node.value);
  for (const child of Object.values(node)) {
    for (const one of Array.isArray(child) ? child : child instanceof Map ? [...child].flat() : [child]) {
      if (typeof one === 'object' && one !== null && 'type' in one && one !== node.constant && prepare(one as Prepared)) jumps = true;
    }
  }
  if (node.type === 'For') node.plain = !jumps && node.loopvar?.type === 'Identifier' && node.iterable?.type !== 'SelectExpression';
  return jumps;
}

export class TemplateInterpreter extends Interpreter {
  readonly #deadline: number;
  #untilClock = CLOCK_EVERY;

  constructor(environment: Scope, limitMs: number) {
    super(environment);
    this.#deadline = performance.now() + limitMs;
  }

  /** The text the program writes. Throws RenderTimeout, and what the template raises. */
  text(program: Program): string {
    return this.#block(program.body, this.global);
  }

  override evaluate(statement: Node | undefined, environment: Scope): Value {
    if (!statement) return UNDEFINED;
    const node = statement as Prepared;
    if (node.constant !== undefined) return node.constant;
    if (--this.#untilClock <= 0) this.#lookAtClock();
    switch (node.type) {
      case 'Identifier': return lookUp(node.value as string, environment);
      case 'MemberExpression': return this.#member(node, environment);
      case 'BinaryExpression': return this.#binary(node, environment);
      case 'If': {
        const branch = truth(this.evaluate(node.test, environment)) ? node.body : node.alternate;
        return stringValue(this.#block(branch as readonly Node[], environment));
      }
      case 'For':
        return node.plain === true ? this.#loop(node, environment) : super.evaluate(node, environment);
      case 'FilterExpression':
        return this.#filter(node, environment);
      case 'CallExpression':
        this.#lookAtClock();   // what it does may be as long as the text
        return super.evaluate(node, environment);
      default:
        return super.evaluate(node, environment);
    }
  }

  #lookAtClock(): void {
    this.#untilClock = CLOCK_EVERY;
    if (performance.now() > this.#deadline) throw new RenderTimeout();
  }

  #block(statements: readonly Node[], environment: Scope): string {
    let text = '';
    for (const statement of statements) {
      const value = this.evaluate(statement, environment);
      if (value.type === 'StringValue') text += value.value as string;
      else if (value.type !== 'NullValue' && value.type !== 'UndefinedValue') text += value.toString();
    }
    return text;
  }

  #member(node: Prepared, environment: Scope): Value {
    const property = node.property as Prepared;
    const key = node.computed === true ? property.constant?.value : property.type === 'Identifier' ? property.value : undefined;
    if (typeof key !== 'string') return super.evaluate(node, environment);
    const object = this.evaluate(node.object, environment);
    if (object.type === 'ObjectValue' || object.type === 'NamespaceValue') {
      const found = (object.value as Map<string, Value>).get(key);
      // Its methods are made by the library when they are asked for, which is dear.
      if (found !== undefined || !OBJECT_METHODS.has(key)) return found ?? UNDEFINED;
    }
    return object.builtins.get(key) ?? UNDEFINED;
  }

  #binary(node: Prepared, environment: Scope): Value {
    switch (node.operator?.value) {
      case 'and': {
        const left = this.evaluate(node.left, environment);
        return truth(left) ? this.evaluate(node.right, environment) : left;
      }
      case 'or': {
        const left = this.evaluate(node.left, environment);
        return truth(left) ? left : this.evaluate(node.right, environment);
      }
      // Loosely, as the library does: 1 == 1.0, and none is as good as undefined.
      case '==': return boolean(this.evaluate(node.left, environment).value == this.evaluate(node.right, environment).value);
      case '!=': return boolean(this.evaluate(node.left, environment).value != this.evaluate(node.right, environment).value);
      case '+': {
        const left = this.evaluate(node.left, environment);
        const right = this.evaluate(node.right, environment);
        if (left.type === 'StringValue' && right.type === 'StringValue') return stringValue((left.value as string) + (right.value as string));
        return super.evaluate({ ...node, left: { type: 'Value', constant: left }, right: { type: 'Value', constant: right } } as Node, environment);
      }
      default: return super.evaluate(node, environment);
    }
  }

  #filter(node: Prepared, environment: Scope): Value {
    this.#lookAtClock();
    const operand = this.evaluate(node.operand, environment);
    const json = node.filter?.type === 'Identifier' && node.filter.value === 'tojson' && (operand.type === 'ObjectValue' || operand.type === 'ArrayValue');
    const known = json ? jsonOf.get(operand) : undefined;
    if (known !== undefined) return known;
    const result = super.evaluate({ ...node, operand: { type: 'Value', constant: operand } } as Node, environment);
    if (json) jsonOf.set(operand, result);
    return result;
  }

  #loop(node: Prepared, environment: Scope): Value {
    const scope = new Environment(environment);
    const iterable = this.evaluate(node.iterable, scope);
    if (iterable.type !== 'ArrayValue') return super.evaluate(node, environment);
    const items = iterable.value as Value[];
    const { length } = items;
    let text = '';
    items.forEach((item, index) => {
      scope.setVariable('loop', new ObjectValue(new Map([
        ['index', integer(index + 1)], ['index0', integer(index)], ['revindex', integer(length - index)], ['revindex0', integer(length - index - 1)],
        ['first', boolean(index === 0)], ['last', boolean(index === length - 1)], ['length', integer(length)],
        ['previtem', items[index - 1] ?? UNDEFINED], ['nextitem', items[index + 1] ?? UNDEFINED],
      ])));
      scope.setVariable((node.loopvar as { value: string }).value, item);
      text += this.#block(node.body as readonly Node[], scope);
    });
    if (length === 0) text = this.#block(node.defaultBlock as readonly Node[], scope);
    return stringValue(text);
  }
}

/** Values never change, and those of tools come with every request of a conversation (chat-template.ts keeps them). */
const jsonOf = new WeakMap<Value, Value>();

const OBJECT_METHODS: ReadonlySet<string> = new Set(['get', 'items', 'keys', 'values', 'dictsort']);

function stringValue(text: string): Value {
  return text === '' ? EMPTY : new StringValue(text);
}

function lookUp(name: string, environment: Scope): Value {
  for (let scope: Scope | undefined = environment; scope !== undefined; scope = scope.parent) {
    const value = scope.variables.get(name);
    if (value !== undefined) return value;
  }
  return UNDEFINED;
}

/** As Python has it: empty texts, lists and mappings are false. */
function truth(value: Value): boolean {
  switch (value.type) {
    case 'ObjectValue': return (value.value as Map<string, Value>).size > 0;
    case 'ArrayValue':
    case 'TupleValue': return (value.value as Value[]).length > 0;
    default: return Boolean(value.value);
  }
}
