// A parsed chat template, ready to be rendered.
import { BlockReferences, compileScoped, type ScopedBlock } from './execute.js';
import { callFilter } from './filters.js';
import { getAttribute, getItem } from './members.js';
import { parse } from './parser.js';
import type { Language, Run } from './run.js';
import { Scope, type Output } from './scope.js';
import { Symbols } from './symbols.js';
import { callTest } from './tests.js';
import type { Block, Statement } from './syntax-tree.js';
import type { Value } from './values.js';

const LANGUAGE: Language = { getAttribute, getItem, callFilter, callTest };

export class Program {
  readonly #body: ScopedBlock;
  readonly #blocks: ReadonlyMap<string, ScopedBlock>;

  /** Throws TemplateFault if the template does not parse, with the line of the first error. */
  constructor(template: string) {
    const tree = parse(template);
    this.#body = compileScoped(tree, new Symbols(null));
    this.#blocks = new Map(namedBlocks(tree).map(({ name, body }) => [name, compileScoped(body, new Symbols(null))]));
  }

  /**
   * Returns the text. Throws TemplateFault if an operation fails, or TemplateError if the budget is exceeded or the
   * template raises an error.
   */
  render(run: Run, variables: Iterable<readonly [string, Value]>): string {
    run.language = LANGUAGE;
    const scope = new Scope(run, null);
    scope.variables.set('self', new BlockReferences(scope, this.#blocks));
    for (const [name, value] of variables) scope.variables.set(name, value);
    const out: Output = { text: '' };
    this.#body.execute(this.#body.begin(scope), out);
    return out.text;
  }
}

function namedBlocks(block: Block): (Statement & { type: 'block' })[] {
  return block.flatMap((statement) => {
    const inner = bodiesOf(statement).flatMap(namedBlocks);
    return statement.type === 'block' ? [statement, ...inner] : inner;
  });
}

function bodiesOf(statement: Statement): Block[] {
  if (statement.type === 'if') return [...statement.branches.map(({ body }) => body), statement.otherwise];
  if (statement.type === 'for') return [statement.body, statement.otherwise];
  if (statement.type === 'call-block') return [statement.caller.body];
  return 'body' in statement ? [statement.body] : [];
}
