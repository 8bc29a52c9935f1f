// Parses the expressions of a chat template with Jinja2's operator precedence, which differs from Python's: a unary
// minus binds more tightly than a power, and powers are left-associative.
import type { Arithmetic, CallArguments, Comparison, Expression, Filter, Target } from './syntax-tree.js';
import type { TokenStream } from './token-stream.js';

/** Deeper nesting is refused, because parsing and evaluation recurse. Python's limit is the same. */
const MAX_DEPTH = 200;
/** Maximum number of operators in a chain such as a + b + c, in which each operation contains the one before it. */
const MAX_CHAIN = 1_000;

const COMPARISONS: ReadonlySet<string> = new Set<Comparison['operator']>(['==', '!=', '<', '<=', '>', '>=']);
const CONSTANTS: ReadonlyMap<string, boolean | null> = new Map([
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
  ['none', null],
  ['None', null],
]);
const NO_ARGUMENTS: CallArguments = { positional: [], named: [], list: null, dict: null };

export class ExpressionParser {
  #depth = 0;
  /** The names read by each macro that is being parsed. */
  readonly reads: Set<string>[] = [];

  constructor(protected readonly stream: TokenStream) {}

  expression(): Expression {
    return this.#nested(() => {
      let result = this.#or();
      let depth = 0;
      while (this.stream.skipName('if')) {
        this.#checkChain(++depth);
        const test = this.#or();
        const otherwise = this.stream.skipName('else') ? this.expression() : null;
        result = { type: 'conditional', test, then: result, otherwise };
      }
      return result;
    });
  }

  /** Parses an expression without a conditional at its end, as in the head of a loop. */
  unconditional(): Expression {
    return this.#nested(() => this.#or());
  }

  /**
   * Parses one expression, or several comma-separated expressions, which form a tuple. `end`: a name that ends the
   * tuple.
   */
  tuple(
    parse: () => Expression,
    { end, inParentheses = false }: { end?: string; inParentheses?: boolean } = {},
  ): Expression {
    const { stream } = this;
    const items: Expression[] = [];
    let commas = false;
    while (!stream.endsTuple(end)) {
      items.push(parse());
      if (!stream.skipOperator(',')) break;
      commas = true;
    }
    const [only] = items;
    if (!commas && only !== undefined) return only;
    if (!commas && !inParentheses) stream.fail(`an expression is missing before ${stream.described()}`);
    return { type: 'tuple', items };
  }

  filters(operand: Expression | null): Filter | null {
    let result: Filter | null = null;
    while (this.stream.skipOperator('|')) result = this.filter(result ?? operand);
    return result;
  }

  filter(operand: Expression | null): Filter {
    const name = this.#dottedName();
    return { type: 'filter', name, operand, args: this.stream.isOperator('(') ? this.#arguments() : NO_ARGUMENTS };
  }

  /** Parses the target of an assignment. `end`: the name before which the target ends. */
  target({ end, namespaced = false }: { end?: string; namespaced?: boolean } = {}): Target {
    const { stream } = this;
    const items: Target[] = [];
    let commas = false;
    while (!stream.endsTuple(end) && !stream.isOperator('=')) {
      items.push(this.#oneTarget(namespaced));
      if (!stream.skipOperator(',')) break;
      commas = true;
    }
    const [only] = items;
    if (only === undefined) return stream.fail(`a name to assign to is missing before ${stream.described()}`);
    return commas ? { type: 'tuple', items } : only;
  }

  #oneTarget(namespaced: boolean): Target {
    const { stream } = this;
    if (stream.skipOperator('(')) {
      const inner = this.#nestedTarget();
      stream.expectOperator(')');
      return inner;
    }
    const name = this.assignedName();
    if (!namespaced || !stream.skipOperator('.')) return { type: 'name', name };
    return { type: 'attribute', namespace: name, name: stream.expectName() };
  }

  #nestedTarget(): Target {
    if (++this.#depth > MAX_DEPTH) this.stream.fail('it is nested too deeply');
    const target = this.target();
    this.#depth--;
    return target;
  }

  assignedName(): string {
    const name = this.stream.expectName();
    if (CONSTANTS.has(name)) this.stream.fail(`cannot assign to "${name}"`);
    return name;
  }

  #nested<T>(parse: () => T): T {
    if (++this.#depth > MAX_DEPTH) this.stream.fail('it is nested too deeply');
    const result = parse();
    this.#depth--;
    return result;
  }

  #checkChain(length: number): void {
    if (length > MAX_CHAIN) this.stream.fail('it is nested too deeply');
  }

  #or(): Expression {
    return this.#logical('or', () => this.#logical('and', () => this.#not()));
  }

  #logical(operator: 'or' | 'and', operand: () => Expression): Expression {
    let left = operand();
    for (let depth = 1; this.stream.skipName(operator); depth++) {
      this.#checkChain(depth);
      left = { type: 'logical', operator, left, right: operand() };
    }
    return left;
  }

  #not(): Expression {
    if (!this.stream.skipName('not')) return this.#compare();
    return this.#nested(() => ({ type: 'unary', operator: 'not', operand: this.#not() }));
  }

  #compare(): Expression {
    const first = this.#sum();
    const rest: Comparison[] = [];
    for (;;) {
      const operator = this.#comparison();
      if (operator === null) break;
      rest.push({ operator, operand: this.#sum() });
    }
    return rest.length === 0 ? first : { type: 'compare', first, rest };
  }

  #comparison(): Comparison['operator'] | null {
    const { stream } = this;
    const { type, text } = stream.current;
    if (type === 'operator' && COMPARISONS.has(text)) {
      stream.next();
      return text as Comparison['operator'];
    }
    if (stream.skipName('in')) return 'in';
    if (stream.isName('not') && stream.following.type === 'name' && stream.following.text === 'in') {
      stream.next();
      stream.next();
      return 'not in';
    }
    return null;
  }

  #sum(): Expression {
    return this.#arithmetic(['+', '-'], () => this.#concat());
  }

  #concat(): Expression {
    const parts = [this.#product()];
    while (this.stream.skipOperator('~')) parts.push(this.#product());
    return parts.length === 1 ? (parts[0] as Expression) : { type: 'concat', parts };
  }

  #product(): Expression {
    return this.#arithmetic(['*', '/', '//', '%'], () => this.#arithmetic(['**'], () => this.#unary(true)));
  }

  #arithmetic(operators: readonly Arithmetic[], operand: () => Expression): Expression {
    let left = operand();
    for (let depth = 1; ; depth++) {
      const operator = operators.find((one) => this.stream.skipOperator(one));
      if (operator === undefined) return left;
      this.#checkChain(depth);
      left = { type: 'binary', operator, left, right: operand() };
    }
  }

  #unary(filtered: boolean): Expression {
    const { stream } = this;
    const operator = stream.skipOperator('-') ? '-' : stream.skipOperator('+') ? '+' : null;
    const value: Expression =
      operator === null
        ? this.#primary()
        : { type: 'unary', operator, operand: this.#nested(() => this.#unary(false)) };
    const whole = this.#postfix(value);
    return filtered ? this.#filteredOrTested(whole) : whole;
  }

  #primary(): Expression {
    const { stream } = this;
    const { type, text, value } = stream.current;
    if (type === 'name') {
      stream.next();
      const constant = CONSTANTS.get(text);
      if (constant !== undefined) return { type: 'constant', value: constant };
      for (const names of this.reads) names.add(text);
      return { type: 'name', name: text };
    }
    if (type === 'constant') {
      stream.next();
      let whole = value!;
      // Adjacent string literals are concatenated.
      for (; typeof whole === 'string' && typeof stream.current.value === 'string'; stream.next())
        whole += stream.current.value;
      return { type: 'constant', value: whole };
    }
    if (stream.skipOperator('(')) {
      const inner = this.#nested(() => this.tuple(() => this.expression(), { inParentheses: true }));
      stream.expectOperator(')');
      return inner;
    }
    if (stream.skipOperator('[')) return { type: 'list', items: this.#listed(']', () => this.expression()) };
    if (stream.skipOperator('{')) return { type: 'dict', entries: this.#listed('}', () => this.#entry()) };
    return stream.fail(`unexpected ${stream.described()}`);
  }

  #entry(): readonly [Expression, Expression] {
    const key = this.expression();
    this.stream.expectOperator(':');
    return [key, this.expression()];
  }

  /** Parses comma-separated elements. A trailing comma is allowed. */
  #listed<T>(closing: string, element: () => T): T[] {
    const elements: T[] = [];
    while (!this.stream.skipOperator(closing)) {
      if (elements.length > 0) {
        this.stream.expectOperator(',');
        if (this.stream.skipOperator(closing)) break;
      }
      elements.push(this.#nested(element));
    }
    return elements;
  }

  #postfix(value: Expression): Expression {
    const { stream } = this;
    let result = value;
    for (let depth = 1; ; depth++) {
      this.#checkChain(depth);
      if (stream.skipOperator('.')) result = this.#member(result);
      else if (stream.skipOperator('[')) result = this.#subscript(result);
      else if (stream.isOperator('(')) result = { type: 'call', callee: result, args: this.#arguments() };
      else return result;
    }
  }

  #filteredOrTested(value: Expression): Expression {
    const { stream } = this;
    let result = value;
    for (let depth = 1; ; depth++) {
      this.#checkChain(depth);
      if (stream.skipOperator('|')) result = this.filter(result);
      else if (stream.skipName('is')) result = this.#test(result);
      else if (stream.isOperator('(')) result = { type: 'call', callee: result, args: this.#arguments() };
      else return result;
    }
  }

  #member(object: Expression): Expression {
    const { stream } = this;
    const { type, text, value } = stream.current;
    if (type === 'name') {
      stream.next();
      return { type: 'attribute', object, name: text };
    }
    if (type !== 'constant' || (typeof value !== 'number' && typeof value !== 'bigint'))
      return stream.fail(`a name or a number must follow ".", not ${stream.described()}`);
    stream.next();
    return { type: 'item', object, index: { type: 'constant', value } };
  }

  #subscript(object: Expression): Expression {
    const parts = this.#listed(']', () => this.#index());
    const [only] = parts;
    if (parts.length === 1 && only !== undefined)
      return Array.isArray(only)
        ? { type: 'slice', object, bounds: only as readonly (Expression | null)[] }
        : { type: 'item', object, index: only as Expression };
    if (parts.length === 0 || parts.some(Array.isArray)) this.stream.fail('invalid subscript');
    return { type: 'item', object, index: { type: 'tuple', items: parts as Expression[] } };
  }

  /** Parses an index or the bounds of a slice. */
  #index(): Expression | (Expression | null)[] {
    const { stream } = this;
    const bound = (): Expression | null =>
      stream.isOperator(':') || stream.isOperator(']') || stream.isOperator(',') ? null : this.expression();
    const start = bound();
    if (!stream.skipOperator(':')) return start ?? stream.fail(`unexpected ${stream.described()}`);
    const stop = bound();
    return [start, stop, stream.skipOperator(':') ? bound() : null];
  }

  #arguments(): CallArguments {
    const { stream } = this;
    stream.expectOperator('(');
    const positional: Expression[] = [];
    const named: [string, Expression][] = [];
    let list: Expression | null = null;
    let dict: Expression | null = null;
    const check = (allowed: boolean): void => {
      if (!allowed) stream.fail('the arguments are in the wrong order');
    };
    this.#listed(')', () => {
      if (stream.skipOperator('*')) {
        check(list === null && dict === null);
        list = this.expression();
      } else if (stream.skipOperator('**')) {
        check(dict === null);
        dict = this.expression();
      } else if (
        stream.current.type === 'name' &&
        stream.following.text === '=' &&
        stream.following.type === 'operator'
      ) {
        check(dict === null);
        const name = stream.expectName();
        stream.next();
        named.push([name, this.expression()]);
      } else {
        check(list === null && dict === null && named.length === 0);
        positional.push(this.expression());
      }
    });
    return { positional, named, list, dict };
  }

  #test(operand: Expression): Expression {
    const { stream } = this;
    const negated = stream.skipName('not');
    const name = this.#dottedName();
    const test: Expression = { type: 'test', name, operand, args: this.#testArguments() };
    return negated ? { type: 'unary', operator: 'not', operand: test } : test;
  }

  #testArguments(): CallArguments {
    const { stream } = this;
    if (stream.isOperator('(')) return this.#arguments();
    const { type, text } = stream.current;
    const starts =
      type === 'constant' ||
      (type === 'name' && text !== 'else' && text !== 'or' && text !== 'and') ||
      stream.isOperator('[') ||
      stream.isOperator('{');
    if (!starts) return NO_ARGUMENTS;
    if (stream.isName('is')) stream.fail('tests cannot be chained with "is"');
    return { ...NO_ARGUMENTS, positional: [this.#nested(() => this.#postfix(this.#primary()))] };
  }

  #dottedName(): string {
    let name = this.stream.expectName();
    while (this.stream.skipOperator('.')) name += `.${this.stream.expectName()}`;
    return name;
  }
}
