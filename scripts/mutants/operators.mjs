// One-line mutants of a TypeScript file: typical small mistakes, each made by replacing some text. Types, imports,
// comments and messages are not mutated, because no test can or should detect such a change.
import ts from 'typescript';

/**
 * @typedef {object} Mutant
 * @property {number} start offset of the replaced text in the file, in characters
 * @property {number} end
 * @property {string} text the replacement
 * @property {number} line counted from 1
 * @property {string} what description of the change
 */

const SWAPPED = new Map([
  [ts.SyntaxKind.LessThanToken, '<='],
  [ts.SyntaxKind.LessThanEqualsToken, '<'],
  [ts.SyntaxKind.GreaterThanToken, '>='],
  [ts.SyntaxKind.GreaterThanEqualsToken, '>'],
  [ts.SyntaxKind.EqualsEqualsEqualsToken, '!=='],
  [ts.SyntaxKind.ExclamationEqualsEqualsToken, '==='],
  [ts.SyntaxKind.PlusToken, '-'],
  [ts.SyntaxKind.MinusToken, '+'],
  [ts.SyntaxKind.AsteriskToken, '/'],
  [ts.SyntaxKind.SlashToken, '*'],
  [ts.SyntaxKind.AmpersandAmpersandToken, '||'],
  [ts.SyntaxKind.BarBarToken, '&&'],
  [ts.SyntaxKind.PlusEqualsToken, '-='],
  [ts.SyntaxKind.MinusEqualsToken, '+='],
]);
const NAMES = new Map([
  ['min', 'max'],
  ['max', 'min'],
  ['floor', 'ceil'],
  ['ceil', 'floor'],
  ['some', 'every'],
  ['every', 'some'],
]);

/**
 * All mutants of a source text.
 * @param {string} name file name, for the parser
 * @param {string} text
 * @returns {Mutant[]} in source order
 */
export function mutantsOf(name, text) {
  const file = ts.createSourceFile(name, text, ts.ScriptTarget.ESNext, true);
  /** @type {Mutant[]} */
  const mutants = [];
  const add = (node, replacement, what) => {
    const start = node.getStart(file);
    mutants.push({
      start,
      end: node.getEnd(),
      text: replacement,
      line: file.getLineAndCharacterOfPosition(start).line + 1,
      what,
    });
  };
  const condition = (node) => {
    // Comparisons inside the condition are mutated separately. These two mutants check whether the branch matters at
    // all.
    add(node, `(${node.getText(file)}, true)`, 'condition is always true');
    add(node, `(${node.getText(file)}, false)`, 'condition is always false');
  };
  const visit = (node) => {
    if (
      ts.isTypeNode(node) ||
      ts.isImportDeclaration(node) ||
      ts.isExportDeclaration(node) ||
      ts.isInterfaceDeclaration(node) ||
      ts.isTypeAliasDeclaration(node)
    )
      return;
    if (ts.isBinaryExpression(node)) {
      const swapped = SWAPPED.get(node.operatorToken.kind);
      const joinsText =
        node.operatorToken.kind === ts.SyntaxKind.PlusToken &&
        [node.left, node.right].some((side) => ts.isStringLiteralLike(side) || ts.isTemplateExpression(side));
      if (swapped !== undefined && !joinsText)
        add(node.operatorToken, swapped, `${node.operatorToken.getText(file)} is ${swapped}`);
    } else if (ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.ExclamationToken) {
      add(node, node.operand.getText(file), '! is gone');
    } else if (node.kind === ts.SyntaxKind.TrueKeyword) {
      add(node, 'false', 'true is false');
    } else if (node.kind === ts.SyntaxKind.FalseKeyword) {
      add(node, 'true', 'false is true');
    } else if (ts.isNumericLiteral(node)) {
      add(node, node.text === '0' ? '1' : `(${node.getText(file)} + 1)`, `${node.getText(file)} is one more`);
    } else if (ts.isBigIntLiteral(node)) {
      add(node, `(${node.getText(file)} + 1n)`, `${node.getText(file)} is one more`);
    } else if (ts.isIfStatement(node)) {
      condition(node.expression);
    } else if (ts.isConditionalExpression(node)) {
      condition(node.condition);
    } else if (
      ts.isExpressionStatement(node) &&
      (ts.isCallExpression(node.expression) ||
        ts.isAwaitExpression(node.expression) ||
        ts.isBinaryExpression(node.expression)) &&
      !isSuper(node.expression)
    ) {
      add(node, ';', 'statement is gone');
    } else if (
      ts.isPropertyAccessExpression(node) &&
      ts.isCallExpression(node.parent) &&
      node.parent.expression === node &&
      NAMES.has(node.name.text)
    ) {
      add(node.name, NAMES.get(node.name.text), `${node.name.text} is ${NAMES.get(node.name.text)}`);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return mutants;
}

const isSuper = (node) => ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.SuperKeyword;

/** The JavaScript compiled from a file with the mutant applied. */
export function compiled(name, text, { start, end, text: replacement }) {
  const mutated = text.slice(0, start) + replacement + text.slice(end);
  return ts.transpileModule(mutated, {
    fileName: name,
    compilerOptions: {
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.ESNext,
      verbatimModuleSyntax: true,
      isolatedModules: true,
    },
  }).outputText;
}
