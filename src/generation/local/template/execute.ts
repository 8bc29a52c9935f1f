// Compiles statements to functions that write their output.
import { callValue, compileArguments, compileExpression, compileFilter, type Evaluate } from './evaluate.js';
import { escapeHtml } from './html.js';
import { items } from './iterate.js';
import { LoopItems, LoopVariable } from './loop.js';
import { compileMacro } from './macro.js';
import { setAttribute } from './members.js';
import { str } from './print.js';
import { Scope, type Output } from './scope.js';
import { Symbols } from './symbols.js';
import type * as tree from './syntax-tree.js';
import { Callable, Markup, PythonObject, TemplateFault, Undefined, isTrue, textOf, type Value } from './values.js';

/** How the enclosing loop continues after a statement. */
type Signal = 'next' | 'break' | 'continue';

/** Throws TemplateFault, or TemplateError if the budget is exceeded or the template raises an error. */
type Execute = (scope: Scope, out: Output) => Signal;

/** The context of a statement. `soft`: as in compileExpression(). */
export interface Place {
  readonly soft: boolean;
  readonly symbols: Symbols;
}

/** A block that has its own variables. `begin` returns the scope in which it runs, which is new or reused. */
export interface ScopedBlock {
  readonly execute: Execute;
  readonly begin: (scope: Scope) => Scope;
}

/** `symbols`: the variables that the block declares. */
export function compileScoped(block: tree.Block, symbols: Symbols): ScopedBlock {
  symbols.analyze(block);
  const execute = compileBlock(block, { soft: false, symbols });
  const missing = symbols
    .undefinedNames()
    .map((name) => [name, new Undefined(() => `'${name}' is undefined`)] as const);
  return {
    execute,
    begin: (scope) => {
      for (const [name, value] of missing) scope.variables.set(name, value);
      return scope;
    },
  };
}

/** Throws TemplateFault. */
function compileBlock(block: tree.Block, place: Place): Execute {
  const statements = block.map((statement) => ({ execute: compileStatement(statement, place), line: statement.line }));
  return (scope, out) => {
    const { run } = scope;
    for (const { execute, line } of statements) {
      run.line = line;
      const signal = execute(scope, out);
      if (signal !== 'next') return signal;
    }
    return 'next';
  };
}

function compileStatement(node: tree.Statement, place: Place): Execute {
  const { soft, symbols } = place;
  switch (node.type) {
    case 'text': {
      const { text } = node;
      return (scope, out) => {
        scope.run.spendText(text.length);
        out.text += text;
        return 'next';
      };
    }
    case 'print':
      return compilePrint(node.values, soft);
    case 'if':
      return compileIf(node, place);
    case 'for':
      return compileFor(node, place);
    case 'set': {
      const assign = compileTarget(node.target);
      const value = compileExpression(node.value, soft);
      return (scope) => {
        scope.run.spend(1);
        assign(scope, value(scope));
        return 'next';
      };
    }
    case 'set-block':
      return compileSetBlock(node, place);
    case 'macro': {
      const macro = compileMacro(node, symbols, compileScoped);
      return (scope) => {
        scope.variables.set(node.name, macro(scope));
        return 'next';
      };
    }
    case 'call-block':
      return compileCallBlock(node, place);
    case 'filter-block': {
      const body = compileScoped(node.body, new Symbols(symbols));
      const filter = compileChain(node.filter, soft);
      return (scope, out) => {
        const inner = written(scope, body);
        if (inner.signal !== 'next') return inner.signal;
        const result = filter(scope, inner.text);
        if (textOf(result) === null) throw new TemplateFault(`the filter "${node.filter.name}" does not return text`);
        write(scope, out, result);
        return 'next';
      };
    }
    case 'with':
      return compileWith(node, place);
    case 'scope': {
      const { execute, begin } = compileScoped(node.body, new Symbols(symbols));
      return (scope, out) => execute(begin(new Scope(scope.run, scope)), out);
    }
    case 'autoescape':
      return compileAutoescape(node, place);
    case 'block': {
      const { execute, begin } = compileScoped(node.body, new Symbols(null));
      const { scoped } = node;
      return (scope, out) => {
        execute(begin(new Scope(scope.run, scoped ? scope : scope.top)), out);
        return 'next';
      };
    }
    case 'break':
    case 'continue':
      return () => node.type as Signal;
    case 'load':
      return () => {
        throw new TemplateFault(`"${node.tag}" is not supported: a chat template has no other templates`);
      };
  }
}

function write(scope: Scope, out: Output, value: Value): void {
  const { run } = scope;
  const text =
    typeof value === 'string' && !run.autoescape ? value : run.autoescape ? escapeHtml(run, value) : str(run, value);
  run.spendText(text.length);
  out.text += text;
}

/** Runs a block in a child scope of `scope` and returns its text instead of adding it to the output. */
function written(scope: Scope, { execute, begin }: ScopedBlock): { text: Value; signal: Signal } {
  const out: Output = { text: '' };
  const signal = execute(begin(new Scope(scope.run, scope)), out);
  return { text: scope.run.autoescape ? new Markup(out.text) : out.text, signal };
}

function compilePrint(nodes: readonly tree.Expression[], soft: boolean): Execute {
  const values = nodes.map((node) => compileExpression(node, soft));
  const [only] = values;
  if (values.length === 1 && only !== undefined)
    return (scope, out) => {
      write(scope, out, only(scope));
      return 'next';
    };
  return (scope, out) => {
    for (const value of values) write(scope, out, value(scope));
    return 'next';
  };
}

function compileIf({ branches, otherwise }: tree.Statement & { type: 'if' }, { symbols }: Place): Execute {
  const place: Place = { soft: true, symbols };
  const compiled = branches.map(({ test, body }) => ({
    test: compileExpression(test, true),
    body: compileBlock(body, place),
  }));
  const last = compileBlock(otherwise, place);
  return (scope, out) => {
    for (const { test, body } of compiled) {
      scope.run.spend(1);
      if (isTrue(test(scope))) return body(scope, out);
    }
    return last(scope, out);
  };
}

type Assign = (scope: Scope, value: Value) => void;

function compileTarget(target: tree.Target): Assign {
  if (target.type === 'name') return (scope, value) => void scope.variables.set(target.name, value);
  if (target.type === 'attribute')
    return (scope, value) => setAttribute(scope.find(target.namespace), target.name, value);
  const parts = target.items.map(compileTarget);
  return (scope, value) => {
    const values = [...items(scope.run, value)];
    if (values.length !== parts.length)
      throw new TemplateFault(
        values.length > parts.length
          ? `too many values to unpack (expected ${parts.length})`
          : `not enough values to unpack (expected ${parts.length}, got ${values.length})`,
      );
    parts.forEach((assign, index) => assign(scope, values[index] as Value));
  };
}

/** Steps charged for a loop, in addition to its iterations. */
const LOOP_STEPS = 8;

function compileFor(node: tree.For, { soft, symbols }: Place): Execute {
  const iterable = compileExpression(node.iterable, soft);
  const assign = compileTarget(node.target);
  const filter = node.filter === null ? null : compileExpression(node.filter, false);
  const body = compileScoped(node.body, new Symbols(symbols).declareTarget(node.target).declare('loop'));
  const otherwise = compileScoped(node.otherwise, new Symbols(symbols));
  const captured = node.body.some(capturesScope);

  const loop = (scope: Scope, out: Output, values: Value, depth0: number): Signal => {
    const { run } = scope;
    run.spend(LOOP_STEPS);
    const source = items(run, values);
    const list = new LoopItems(filter === null ? source : filtered(scope, source, assign, filter), run);
    const recurse = node.recursive ? (inner: Value, depth: number): Value => recursion(scope, inner, depth) : null;
    const variable = new LoopVariable(run, list, depth0, recurse);
    let inner = new Scope(run, scope);
    let completed = false; // whether the end of the body was reached, without which "else" runs
    for (let index = 0; list.has(index); index++) {
      run.spend(2);
      if (captured) inner = new Scope(run, scope);
      else inner.variables.clear();
      variable.index0 = index;
      body.begin(inner).variables.set('loop', variable);
      assign(inner, list.at(index));
      const signal = body.execute(inner, out);
      if (signal === 'break') break;
      completed ||= signal === 'next';
    }
    return completed ? 'next' : otherwise.execute(otherwise.begin(new Scope(run, scope)), out);
  };
  const recursion = (scope: Scope, values: Value, depth0: number): Value =>
    scope.run.nested(() => {
      const out: Output = { text: '' };
      loop(scope, out, values, depth0);
      return scope.run.autoescape ? new Markup(out.text) : out.text;
    });
  return (scope, out) => loop(scope, out, iterable(scope), 0);
}

function* filtered(scope: Scope, source: Iterable<Value>, assign: Assign, filter: Evaluate): Generator<Value> {
  for (const item of source) {
    const inner = new Scope(scope.run, scope);
    assign(inner, item);
    if (isTrue(filter(inner))) yield item;
  }
}

/** Whether a statement creates a function that keeps a reference to the scope. */
function capturesScope(statement: tree.Statement): boolean {
  if (statement.type === 'macro' || statement.type === 'call-block') return true;
  if (statement.type === 'if')
    return [...statement.branches.map(({ body }) => body), statement.otherwise].some((body) =>
      body.some(capturesScope),
    );
  if (statement.type === 'for')
    return [...statement.body, ...statement.otherwise].some(capturesScope) || statement.recursive;
  return 'body' in statement && statement.body.some(capturesScope);
}

function compileSetBlock(
  { target, filter, body }: tree.Statement & { type: 'set-block' },
  { soft, symbols }: Place,
): Execute {
  const assign = compileTarget(target);
  const inner = compileScoped(body, new Symbols(symbols));
  const apply = filter === null ? null : compileChain(filter, soft);
  return (scope) => {
    const { text, signal } = written(scope, inner);
    if (signal !== 'next') return signal;
    assign(scope, apply === null ? text : apply(scope, text));
    return 'next';
  };
}

/** Compiles filters that are applied to a text one after the other. */
function compileChain(filter: tree.Filter, soft: boolean): (scope: Scope, text: Value) => Value {
  const apply = compileFilter(filter, soft);
  const { operand } = filter;
  if (operand === null) return apply;
  const before = compileChain(operand as tree.Filter, soft);
  return (scope, text) => apply(scope, before(scope, text));
}

function compileCallBlock(
  { call, caller }: tree.Statement & { type: 'call-block' },
  { soft, symbols }: Place,
): Execute {
  const callee = compileExpression(call.callee, soft);
  const args = compileArguments(call.args, soft);
  const body = compileMacro(caller, symbols, compileScoped);
  return (scope, out) => {
    scope.run.spend(1);
    const called = callee(scope);
    write(scope, out, callValue(called, args(scope, ['caller', body(scope)])));
    return 'next';
  };
}

function compileWith({ targets, values, body }: tree.Statement & { type: 'with' }, { soft, symbols }: Place): Execute {
  const assigns = targets.map(compileTarget);
  const computed = values.map((value) => compileExpression(value, soft));
  const own = targets.reduce((declared, target) => declared.declareTarget(target), new Symbols(symbols));
  const { execute, begin } = compileScoped(body, own);
  return (scope, out) => {
    const inner = begin(new Scope(scope.run, scope));
    computed.forEach((value, index) => assigns[index]?.(inner, value(scope)));
    return execute(inner, out);
  };
}

function compileAutoescape(
  { enabled, body }: tree.Statement & { type: 'autoescape' },
  { soft, symbols }: Place,
): Execute {
  const test = compileExpression(enabled, soft);
  const { execute, begin } = compileScoped(body, new Symbols(symbols));
  return (scope, out) => {
    const { run } = scope;
    const before = run.autoescape;
    run.autoescape = isTrue(test(scope));
    try {
      return execute(begin(new Scope(run, scope)), out);
    } finally {
      run.autoescape = before;
    }
  };
}

/** The variable `self`, which a template uses to print one of its blocks again. */
export class BlockReferences extends PythonObject {
  readonly typeName = 'TemplateReference';

  constructor(
    private readonly scope: Scope,
    private readonly blocks: ReadonlyMap<string, ScopedBlock>,
  ) {
    super();
  }

  override attribute(name: string): Value | undefined {
    const block = this.blocks.get(name);
    if (block === undefined) return undefined;
    return new Callable(name, () => this.scope.run.nested(() => written(this.scope, block).text));
  }
}
