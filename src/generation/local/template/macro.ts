// Macros, and the bodies of call blocks. Such a body is a macro that another macro calls as `caller`.
import { compileExpression } from './evaluate.js';
import { Scope, type Output } from './scope.js';
import { Symbols } from './symbols.js';
import type * as tree from './syntax-tree.js';
import { Callable, Dict, Markup, TemplateFault, Tuple, Undefined, type Arguments, type Value } from './values.js';

/** Steps charged for a call, in addition to the steps of the macro's body. */
const CALL_STEPS = 8;

/** Compiles a block that has its own variables. `begin` prepares a scope for it. */
export type CompileBody = (
  block: tree.Block,
  symbols: Symbols,
) => { readonly execute: (scope: Scope, out: Output) => unknown; readonly begin: (scope: Scope) => Scope };

/** Returns a function that creates the macro in a given scope. Throws TemplateFault. */
export function compileMacro(node: tree.Macro, outside: Symbols, compileBody: CompileBody): (scope: Scope) => Callable {
  const symbols = new Symbols(outside);
  for (const name of [...node.parameters.map((parameter) => parameter.name), 'caller', 'varargs', 'kwargs'])
    symbols.declare(name);
  const { execute, begin } = compileBody(node.body, symbols.loadAll(node.parameters.map(({ fallback }) => fallback)));
  const parameters = node.parameters.map(({ name, fallback }) => ({
    name,
    fallback: fallback === null ? null : compileExpression(fallback, false),
  }));
  const names = new Set(parameters.map(({ name }) => name));
  const attributes = new Map<string, Value>([
    ['name', node.name],
    ['arguments', new Tuple([...names])],
    ['catch_kwargs', node.reads.kwargs],
    ['catch_varargs', node.reads.varargs],
    ['caller', node.reads.caller],
  ]);

  const bound = (scope: Scope, { positional, named }: Arguments): void => {
    const { variables } = scope;
    for (const [index, { name, fallback }] of parameters.entries()) {
      const given = positional[index] ?? (index < positional.length ? null : named?.get(name));
      if (given !== undefined) variables.set(name, given);
      else if (fallback !== null) variables.set(name, fallback(scope));
      else variables.set(name, new Undefined(() => `parameter '${name}' was not provided`));
    }
    bindSpecial(node, scope, { positional: positional.slice(parameters.length), named: unknown(names, named) });
  };

  return (outer) =>
    new Callable(
      node.name,
      (args) => {
        const { run } = outer;
        run.spend(CALL_STEPS);
        return run.nested(() => {
          const scope = begin(new Scope(run, outer));
          bound(scope, args);
          const out: Output = { text: '' };
          execute(scope, out);
          return run.autoescape ? new Markup(out.text) : out.text;
        });
      },
      'Macro',
      attributes,
    );
}

/** Returns the named arguments that are not parameters of the macro. */
function unknown(names: ReadonlySet<string>, named: Arguments['named']): Map<string, Value> {
  return new Map([...(named ?? [])].filter(([name]) => !names.has(name)));
}

/** Sets `caller`, `varargs` and `kwargs` if the macro reads them. `rest`: the arguments that are not parameters. */
function bindSpecial(
  { name, parameters, reads }: tree.Macro,
  { variables }: Scope,
  rest: { positional: readonly Value[]; named: Map<string, Value> },
): void {
  if (reads.caller && !parameters.some((parameter) => parameter.name === 'caller')) {
    variables.set('caller', rest.named.get('caller') ?? new Undefined(() => 'No caller defined'));
    rest.named.delete('caller');
  }
  if (reads.kwargs) {
    const dict = new Dict();
    for (const [key, value] of rest.named) dict.set(key, value);
    variables.set('kwargs', dict);
  } else {
    const [first] = rest.named.keys();
    if (first !== undefined) throw new TemplateFault(`macro '${name}' takes no keyword argument '${first}'`);
  }
  if (reads.varargs) variables.set('varargs', new Tuple(rest.positional));
  else if (rest.positional.length > 0)
    throw new TemplateFault(`macro '${name}' takes not more than ${parameters.length} argument(s)`);
}
