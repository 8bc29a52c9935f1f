// Determines which variables a block has. As in Jinja2, this is decided before rendering: a variable that a block sets
// before reading it starts undefined in the block, even if the context has a variable of that name. A variable that
// only some branches set starts with its value from outside.
import type * as tree from './syntax-tree.js';

/** Where a variable gets its initial value: from outside the block, or from nowhere, so that it starts undefined. */
type Source = 'outside' | 'nowhere';

export class Symbols {
  #stores = new Set<string>();
  #sources = new Map<string, Source>();

  constructor(private readonly parent: Symbols | null) {}

  /** The variables that start undefined. */
  undefinedNames(): string[] {
    return [...this.#sources].filter(([, source]) => source === 'nowhere').map(([name]) => name);
  }

  /** Declares a variable that is set before the block begins, such as a parameter. */
  declare(name: string): this {
    this.#stores.add(name);
    this.#sources.set(name, 'outside');
    return this;
  }

  declareTarget(target: tree.Target): this {
    if (target.type === 'name') this.declare(target.name);
    else if (target.type === 'tuple') for (const item of target.items) this.declareTarget(item);
    return this;
  }

  /** Analyzes the statements of the block, but not nested blocks that have their own variables. */
  analyze(block: tree.Block): this {
    for (const statement of block) this.#statement(statement);
    return this;
  }

  loadAll(expressions: Iterable<tree.Expression | null>): this {
    for (const expression of expressions) if (expression !== null) this.#expression(expression);
    return this;
  }

  #knows(name: string): boolean {
    for (let symbols: Symbols | null = this; symbols !== null; symbols = symbols.parent)
      if (symbols.#sources.has(name)) return true;
    return false;
  }

  #load(name: string): void {
    if (!this.#knows(name)) this.#sources.set(name, 'outside');
  }

  #store(name: string): void {
    this.#stores.add(name);
    if (!this.#sources.has(name)) this.#sources.set(name, this.#knows(name) ? 'outside' : 'nowhere');
  }

  #target(target: tree.Target): void {
    if (target.type === 'name') this.#store(target.name);
    else if (target.type === 'attribute') this.#load(target.namespace);
    else for (const item of target.items) this.#target(item);
  }

  #statement(node: tree.Statement): void {
    switch (node.type) {
      case 'print':
        this.loadAll(node.values);
        break;
      case 'if':
        this.#branches(node.branches, node.otherwise);
        break;
      case 'for':
        this.#expression(node.iterable);
        break;
      case 'set':
        this.#expression(node.value);
        this.#target(node.target);
        break;
      case 'set-block':
        this.#target(node.target);
        break;
      case 'macro':
        this.#store(node.name);
        break;
      case 'call-block':
        this.#expression(node.call);
        break;
      case 'filter-block':
        this.#filter(node.filter);
        break;
      case 'with':
        this.loadAll(node.values);
        break;
      default:
    }
  }

  #branches([first, ...others]: (tree.Statement & { type: 'if' })['branches'], otherwise: tree.Block): void {
    if (first === undefined) return;
    this.#expression(first.test);
    const bodies = [this.#copy().analyze(first.body), this.#copy(), this.#copy().analyze(otherwise)] as const;
    for (const { test, body } of others) bodies[1].#branches([{ test, body }], []);
    const counts = new Map<string, number>();
    for (const body of bodies)
      for (const name of body.#stores) if (!this.#stores.has(name)) counts.set(name, (counts.get(name) ?? 0) + 1);
    for (const body of bodies) {
      for (const name of body.#stores) this.#stores.add(name);
      for (const [name, source] of body.#sources) this.#sources.set(name, source);
    }
    for (const [name, count] of counts) if (count < bodies.length) this.#sources.set(name, 'outside');
  }

  #copy(): Symbols {
    const copy = new Symbols(this.parent);
    copy.#stores = new Set(this.#stores);
    copy.#sources = new Map(this.#sources);
    return copy;
  }

  #filter({ operand, args }: tree.Filter): void {
    if (operand !== null) this.#expression(operand);
    this.#arguments(args);
  }

  #arguments({ positional, named, list, dict }: tree.CallArguments): void {
    this.loadAll([...positional, ...named.map(([, value]) => value), list, dict]);
  }

  #expression(node: tree.Expression): void {
    switch (node.type) {
      case 'constant':
        break;
      case 'name':
        this.#load(node.name);
        break;
      case 'attribute':
        this.#expression(node.object);
        break;
      case 'item':
        this.loadAll([node.object, node.index]);
        break;
      case 'slice':
        this.loadAll([node.object, ...node.bounds]);
        break;
      case 'call':
        this.#expression(node.callee);
        this.#arguments(node.args);
        break;
      case 'filter':
        this.#filter(node);
        break;
      case 'test':
        this.#expression(node.operand);
        this.#arguments(node.args);
        break;
      case 'unary':
        this.#expression(node.operand);
        break;
      case 'binary':
      case 'logical':
        this.loadAll([node.left, node.right]);
        break;
      case 'compare':
        this.loadAll([node.first, ...node.rest.map(({ operand }) => operand)]);
        break;
      case 'concat':
        this.loadAll(node.parts);
        break;
      case 'conditional':
        this.loadAll([node.test, node.then, node.otherwise]);
        break;
      case 'list':
      case 'tuple':
        this.loadAll(node.items);
        break;
      case 'dict':
        this.loadAll(node.entries.flat());
    }
  }
}
