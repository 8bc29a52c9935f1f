// Parses the statements of a chat template. The grammar is Jinja2's, with the loop controls and the `generation` block
// that transformers adds.
import { tokenize } from './lexer.js';
import { ExpressionParser } from './parse-expression.js';
import type { Block, Expression, Macro, Parameter, Statement } from './syntax-tree.js';
import { TokenStream } from './token-stream.js';

/** Maximum nesting of blocks. Deeper nesting is refused, because evaluation recurses. */
const MAX_DEPTH = 200;

/** Throws TemplateFault with the line of the first error. */
export function parse(template: string): Block {
  return new Parser(new TokenStream(tokenize(template))).template();
}

class Parser extends ExpressionParser {
  readonly #open: string[] = []; // the tags around the current place
  #inLoop = false;

  template(): Block {
    const body = this.#body([]);
    const { current } = this.stream;
    if (current.type !== 'end') this.stream.fail(`unexpected ${this.stream.described()}`);
    return body;
  }

  /** Parses statements up to a tag whose name is in `ends`. That name is then the current token. */
  #body(ends: readonly string[]): Block {
    const { stream } = this;
    const statements: (Statement & { line: number })[] = [];
    for (;;) {
      const { type, text, line } = stream.current;
      if (type === 'end') {
        if (ends.length > 0) stream.fail(`"${this.#open.at(-1)}" is not closed: expected ${ends.join(' or ')}`);
        return statements;
      }
      stream.next();
      if (type === 'text') statements.push({ type: 'text', text, line });
      else if (type === '{{') {
        statements.push({ type: 'print', values: [this.tuple(() => this.expression())], line });
        stream.expect('}}');
      } else {
        if (stream.current.type === 'name' && ends.includes(stream.current.text)) return statements;
        statements.push({ ...this.#statement(), line });
        stream.expect('%}');
      }
    }
  }

  #statement(): Statement {
    const { stream } = this;
    const tag = stream.current.type === 'name' ? stream.current.text : stream.fail('a tag needs a name');
    if (this.#open.length === MAX_DEPTH) stream.fail('it is nested too deeply');
    this.#open.push(tag);
    const statement = this.#tagged(tag);
    this.#open.pop();
    return statement;
  }

  #tagged(tag: string): Statement {
    const { stream } = this;
    stream.next();
    switch (tag) {
      case 'for':
        return this.#for();
      case 'if':
        return this.#if();
      case 'set':
        return this.#set();
      case 'macro':
        return this.#macro(this.assignedName(), this.#parameters(), 'endmacro');
      case 'call':
        return this.#callBlock();
      case 'filter':
        return { type: 'filter-block', filter: this.#blockFilter(), body: this.#block('endfilter') };
      case 'with':
        return this.#with();
      case 'generation':
        return { type: 'scope', body: this.#block('endgeneration') };
      case 'autoescape':
        return { type: 'autoescape', enabled: this.expression(), body: this.#block('endautoescape') };
      case 'block':
        return this.#namedBlock();
      case 'print':
        return { type: 'print', values: this.#printed() };
      case 'break':
      case 'continue':
        if (!this.#inLoop) stream.fail(`"${tag}" is only allowed in a loop`);
        return { type: tag };
      case 'include':
      case 'extends':
      case 'import':
      case 'from':
        while (stream.current.type !== '%}' && stream.current.type !== 'end') stream.next();
        return { type: 'load', tag };
      default:
        return stream.fail(`unknown tag "${tag}"`);
    }
  }

  /** Parses the body of a block that can end at only one tag. */
  #block(end: string): Block {
    this.#closeHead();
    const body = this.#body([end]);
    this.stream.next();
    return body;
  }

  #closeHead(): void {
    this.stream.skipOperator(':');
    this.stream.expect('%}');
  }

  #for(): Statement {
    const { stream } = this;
    const target = this.target({ end: 'in' });
    stream.expectName('in');
    const iterable = this.tuple(() => this.unconditional(), { end: 'recursive' });
    const filter = stream.skipName('if') ? this.expression() : null;
    const recursive = stream.skipName('recursive');
    this.#closeHead();
    const body = this.#within(true, () => this.#body(['endfor', 'else']));
    const hasElse = stream.expectName() === 'else';
    const otherwise = hasElse ? this.#block('endfor') : [];
    return { type: 'for', target, iterable, filter, recursive, body, otherwise };
  }

  #within<T>(loop: boolean, parse: () => T): T {
    const before = this.#inLoop;
    this.#inLoop = loop;
    const result = parse();
    this.#inLoop = before;
    return result;
  }

  #if(): Statement {
    const { stream } = this;
    const branches: { test: Expression; body: Block }[] = [];
    for (;;) {
      const test = this.tuple(() => this.unconditional());
      this.#closeHead();
      branches.push({ test, body: this.#body(['elif', 'else', 'endif']) });
      const tag = stream.expectName();
      if (tag === 'elif') continue;
      return { type: 'if', branches, otherwise: tag === 'else' ? this.#block('endif') : [] };
    }
  }

  #set(): Statement {
    const target = this.target({ namespaced: true });
    if (this.stream.skipOperator('=')) return { type: 'set', target, value: this.tuple(() => this.expression()) };
    return { type: 'set-block', target, filter: this.filters(null), body: this.#block('endset') };
  }

  #parameters(): Parameter[] {
    const { stream } = this;
    const parameters: Parameter[] = [];
    stream.expectOperator('(');
    while (!stream.skipOperator(')')) {
      if (parameters.length > 0) stream.expectOperator(',');
      const name = this.assignedName();
      const fallback = stream.skipOperator('=') ? this.expression() : null;
      if (fallback === null && parameters.at(-1)?.fallback) stream.fail(`parameter "${name}" needs a default value`);
      parameters.push({ name, fallback });
    }
    return parameters;
  }

  #macro(name: string, parameters: readonly Parameter[], end: string): Macro {
    const names = new Set<string>();
    this.reads.push(names);
    const body = this.#within(false, () => this.#block(end));
    this.reads.pop();
    const reads = (special: string): boolean =>
      names.has(special) && !parameters.some((parameter) => parameter.name === special);
    return {
      type: 'macro',
      name,
      parameters,
      body,
      reads: { caller: names.has('caller'), varargs: reads('varargs'), kwargs: reads('kwargs') },
    };
  }

  #callBlock(): Statement {
    const { stream } = this;
    const parameters = stream.isOperator('(') ? this.#parameters() : [];
    const call = this.expression();
    if (call.type !== 'call') return stream.fail('"call" needs a call of a macro');
    return { type: 'call-block', call, caller: this.#macro('caller', parameters, 'endcall') };
  }

  #blockFilter(): ReturnType<ExpressionParser['filter']> {
    const first = this.filter(null);
    return this.filters(first) ?? first;
  }

  #with(): Statement {
    const { stream } = this;
    const targets = [];
    const values: Expression[] = [];
    while (stream.current.type !== '%}' && !stream.isOperator(':')) {
      if (targets.length > 0) stream.expectOperator(',');
      targets.push(this.target());
      stream.expectOperator('=');
      values.push(this.expression());
    }
    return { type: 'with', targets, values, body: this.#block('endwith') };
  }

  #namedBlock(): Statement {
    const { stream } = this;
    const name = stream.expectName();
    const scoped = stream.skipName('scoped');
    stream.skipName('required');
    this.#closeHead();
    const body = this.#within(false, () => this.#body(['endblock']));
    stream.next();
    stream.skipName(name);
    return { type: 'block', name, scoped, body };
  }

  #printed(): Expression[] {
    const { stream } = this;
    const values: Expression[] = [];
    while (stream.current.type !== '%}') {
      if (values.length > 0) stream.expectOperator(',');
      values.push(this.expression());
    }
    return values;
  }
}
