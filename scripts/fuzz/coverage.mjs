// A module loader that adds a counter to every branch in the modules of dist/, so that the fuzzer can see which
// branches an input takes. Parses with the TypeScript compiler. Registered by fuzz-node.mjs; runs on Node's loader
// thread.
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

let counters = 0;
let folder = '';

export function initialize(data) {
  folder = data.folder;
}

export async function load(url, context, next) {
  const loaded = await next(url, context);
  if (loaded.format !== 'module' || !url.startsWith('file:') || !fileURLToPath(url).startsWith(folder)) return loaded;
  return { ...loaded, source: instrumented(String(loaded.source)) };
}

/** Returns the source with counters added. Passes the literals in the source's comparisons to the fuzzer. */
export function instrumented(source) {
  const file = ts.createSourceFile('x.js', source, ts.ScriptTarget.ESNext, true, ts.ScriptKind.JS);
  const inserted = []; // [position, order, text]; at the same position, closing text precedes opening text
  const words = new Set();
  const count = () => `globalThis.__fuzzCounters[${counters++}]++`;
  const opens = (at, text) => inserted.push([at, 1, text]);
  const closes = (at, text) => inserted.push([at, 0, text]);

  /** Adds a counter to a statement, adding braces if it has none. */
  function branch(node) {
    if (node === undefined) return;
    if (ts.isBlock(node)) {
      opens(node.getStart(file) + 1, `${count()};`);
      visit(node);
      return;
    }
    opens(node.getStart(file), `{${count()};`);
    visit(node);
    closes(node.end, '}');
  }
  function value(node) {
    opens(node.getStart(file), `(${count()},`);
    visit(node);
    closes(node.end, ')');
  }
  function visit(node) {
    if (ts.isStringLiteralLike(node) && node.text.length > 1 && node.text.length <= 40) words.add(node.text);
    if (ts.isIfStatement(node)) {
      visit(node.expression);
      branch(node.thenStatement);
      if (node.elseStatement) branch(node.elseStatement);
    } else if (
      ts.isForStatement(node) ||
      ts.isForOfStatement(node) ||
      ts.isForInStatement(node) ||
      ts.isWhileStatement(node) ||
      ts.isDoStatement(node)
    ) {
      node.forEachChild((child) => (child === node.statement ? branch(child) : visit(child)));
    } else if (ts.isCaseOrDefaultClause(node)) {
      if (node.statements.length > 0) opens(node.statements[0].getStart(file), `${count()};`);
      node.forEachChild(visit);
    } else if (ts.isConditionalExpression(node)) {
      visit(node.condition);
      value(node.whenTrue);
      value(node.whenFalse);
    } else if (
      ts.isBinaryExpression(node) &&
      [ts.SyntaxKind.AmpersandAmpersandToken, ts.SyntaxKind.BarBarToken, ts.SyntaxKind.QuestionQuestionToken].includes(
        node.operatorToken.kind,
      )
    ) {
      visit(node.left);
      value(node.right);
    } else if (ts.isArrowFunction(node) && !ts.isBlock(node.body)) {
      node.parameters.forEach(visit);
      value(node.body);
    } else if (ts.isFunctionLike(node) && node.body !== undefined) {
      node.forEachChild((child) => (child === node.body ? branch(child) : visit(child)));
    } else if (ts.isCatchClause(node)) {
      branch(node.block);
    } else {
      node.forEachChild(visit);
    }
  }
  visit(file);
  let out = '',
    from = 0;
  // Among insertions at the same position, opening texts stay in tree order, and closing texts are reversed.
  inserted
    .map((one, index) => [...one, index])
    .sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[3] - b[3])
    .forEach(([at, , text]) => {
      out += source.slice(from, at) + text;
      from = at;
    });
  return `${out}${source.slice(from)}\nglobalThis.__fuzzWords.push(${[...words].map((word) => JSON.stringify(word)).join(',')});\n`;
}
